package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/conformance"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
)

// check runs the cases of c and gives the results by name.
func check(t testing.TB, c conformance.Config) (map[string]conformance.Result, conformance.Summary) {
	t.Helper()
	checker, err := conformance.New(c)
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]conformance.Result{}
	sum, err := checker.Run(context.Background(), func(r conformance.Result) { results[r.Name] = r })
	if err != nil {
		t.Fatal(err)
	}
	return results, sum
}

func describe(r conformance.Result) string {
	if n := len(r.Exchanges); n > 2 {
		r.Exchanges = r.Exchanges[n-2:]
	}
	b, _ := json.MarshalIndent(r, "", "  ")
	return string(b)
}

func allPass(t *testing.T, c conformance.Config, maySkip ...string) {
	t.Helper()
	results, sum := check(t, c)
	for _, r := range results {
		switch {
		case r.Ending == conformance.Fail:
			t.Errorf("failed: %s", describe(r))
		case r.Problem == "needs "+conformance.NeedOwnPair.String() && c.Key.HasPrivate():
		case r.Problem == "needs "+conformance.NeedOther.String() && !c.Other, r.Problem == "needs "+conformance.NeedUsual.String() && c.Other:
		case r.Problem == "needs "+conformance.NeedSigning.String() && c.Sign == nil, r.Problem == "needs "+conformance.NeedAnswerKey.String() && c.AnswerKey == nil:
		case r.Problem == "needs "+conformance.NeedRestart.String() && c.Restart == nil, r.Problem == "needs "+conformance.NeedEffects.String() && c.Effects == nil:
		case r.Ending == conformance.Skip && !slices.ContainsFunc(maySkip, func(p string) bool { return strings.Contains(r.Problem, p) }):
			t.Errorf("skipped: %d %s: %s", r.Number, r.Name, r.Problem)
		}
	}
	if c.Only == nil && len(results) != len(conformance.Cases()) || sum.Passed+sum.Failed+sum.Skipped != len(results) || !sum.OK() {
		t.Errorf("%d results, %v", len(results), sum)
	}
	t.Log(sum)
}

const needsBound = "needs a service that binds"

func TestHonestMerchantPasses(t *testing.T) {
	t.Parallel()
	t.Run("bound", func(t *testing.T) { t.Parallel(); allPass(t, newFake(false).start(t)) })
	t.Run("unbound", func(t *testing.T) { t.Parallel(); allPass(t, newFake(true).start(t), needsBound) })
	t.Run("other", func(t *testing.T) { t.Parallel(); allPass(t, newOther().start(t), needsBound) })
	t.Run("allowed liberties", func(t *testing.T) {
		t.Parallel()
		c := newFake(false, "numbers as texts", "knows its withdrawals", "a code of its own", "amounts as numbers", "hangs up on slow bodies").start(t)
		touched := regexp.MustCompile(`^(deposit|notice|withdrawal|response)/|^http/slow-body$`)
		c.Only = func(k conformance.Case) bool { return touched.MatchString(k.Name) }
		allPass(t, c)
	})
}

// TestInterfaceAlone: a fair merchant of the published interface passes it, whatever it makes of PROTOCOL.md, and the
// summary names the advice on which its money depends.
func TestInterfaceAlone(t *testing.T) {
	t.Parallel()
	c := newFake(false, "no binding", "lax parser", "lax Base64", "no key check", "any method", "no limit", "refusals are 400",
		"one URL for all", "limit 8192", "refuses notices", "refuses repeats", "any user", "a code of its own",
		"numbers as texts", "amounts as numbers").start(t)
	c.Interface = true
	results, sum := check(t, c)
	for name, r := range results {
		if r.Severity == conformance.Must && r.Ending != conformance.Pass {
			t.Errorf("%s: %s", name, describe(r))
		}
		if r.Basis == conformance.ByProtocol || (r.Basis == conformance.ForMoney) != (r.Severity == conformance.Should) {
			t.Errorf("%s is %s by %s", name, r.Severity, r.Basis)
		}
	}
	money := 0
	for _, k := range conformance.Cases() {
		if k.Basis == conformance.ForMoney {
			money++
		}
	}
	if !sum.OK() || len(sum.Money[conformance.Pass])+len(sum.Money[conformance.Fail])+len(sum.Money[conformance.Skip]) != money {
		t.Errorf("%v, %+v", sum, sum)
	}
	for _, name := range []string{"binding/spliced-amount", "http/api-key", "repeat/new-request", "withdrawal/other-user"} {
		if !slices.Contains(sum.Money[conformance.Fail], name) {
			t.Errorf("%s is not in %v", name, sum.Money)
		}
	}
}

// A service that is given every order takes answers whose details are not bound.
func TestOrderedServiceTakesUnboundAnswers(t *testing.T) {
	c := newFake(false, "details in any block").start(t)
	c.Ordered = true
	c.Only = func(c conformance.Case) bool { return strings.HasPrefix(c.Name, "withdrawal/") }
	allPass(t, c, "needs a service that is not given the details")
}

// TestOtherKeys: the cases are about rules, not about one scheme and one size of blocks. With 3072 bits Base64 needs no
// padding, and with 4096 a deposit is one block.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile(`^(sealing|form|binding)/|^deposit/(plain|blocks)$|^http/largest`)
	for _, tc := range []struct {
		name    string
		bits    int // of the service's pair; 0: the merchant has one too
		padding envelope.Padding
		skips   string
	}{
		{"2048", 2048, envelope.PKCS1v15, "too close to a power of 2"},
		{"3072", 3072, envelope.PKCS1v15, "too close to a power of 2"},
		{"4096", 4096, envelope.PKCS1v15, "too close to a power of 2"},
		{"merchant", 0, envelope.PKCS1v15, "block type 2 may have any bytes"},
		{"merchant-oaep", 0, envelope.OAEP, "needs PKCS #1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.bits != 2048 {
				dbtest.Whole(t, "the same cases as with 2048 bits")
			}
			f, key, response := newFake(false), otherKey(), testKey()
			if tc.bits > 0 {
				var err error
				if key, err = envelope.GenerateKey(tc.bits); err != nil {
					t.Fatal(err)
				}
				response = key
			}
			f.key, f.padding, f.responseKey = key, tc.padding, response.Public()
			if tc.bits > 0 {
				f.key = key.Public()
			}
			c := f.start(t)
			c.Key, c.Padding, c.ResponseKey = key, tc.padding, response
			if tc.bits == 0 {
				c.Key = key.Public()
			} else {
				c.Only = func(k conformance.Case) bool { return blocks.MatchString(k.Name) }
			}
			allPass(t, c, tc.skips)
		})
	}
}

// wrong are merchants with one fault each, and cases that must fail for it. TestCallerJudges has more faults of
// responses, which every case judges alike.
var wrong = []struct {
	fault string
	cases string // regular expression over names
}{
	{"status 500", `deposit/plain|http/chunked`},
	{"fixed order", `deposit/json`},
	{"compact only", `deposit/json`},
	{"keeps escapes", `deposit/json`},
	{"knows all members", `deposit/(json|large)|http/largest`},
	{"blocks are texts", `deposit/blocks`},
	{"full blocks only", `deposit/blocks`},
	{"empty is missing", `deposit/edges`},
	{"no negative index", `deposit/values|repeat/possible-duplicate`},
	{"zero index is none", `deposit/values`},
	{"whole numbers 32 bit", `deposit/edges`},
	{"risk 1 to 99", `deposit/values`},
	{"64 characters", `deposit/large`},
	{"newAddress always counts", `deposit/values`},
	{"lower-cases addresses", `deposit/values`},
	{"float amounts", `deposit/(long-)?amounts`},
	{"no trailing zeros", `deposit/amounts`},
	{"trims all zeros", `deposit/amounts`},
	{"amounts need a point", `deposit/(long-)?amounts`},
	{"an invented user", `deposit/plain|response/deposit-members`},

	{"refuses repeats", `repeat/(new-request|same-body|at-once)`},
	{"keeps its first answer", `repeat/(new-request|at-once)|withdrawal/known(-at-once)?`},
	{"refuses a seen requestUUID", `repeat/same-body`},
	{"identifies by transaction", `repeat/(two-transfers|possible-duplicate)`},
	{"credits repeats", `repeat/(new-request|at-once)`},
	{"credits nothing", `deposit/plain|credit/later`},
	{"rounds credits", `deposit/(long-)?amounts`},
	{"credits the one before again", `repeat/two-transfers|credit/later`},
	{"keeps nothing over a kill", `restart/(accepted|withdrawal)`},
	{"forgets transfers in a kill", `restart/accepted`},
	{"forgets blocks in a kill", `binding/spliced-amount`},
	{"credits are lost in a kill", `restart/accepted`},
	{"answers before it keeps", `restart/accepted`},
	{"suspects nothing", `repeat/possible-duplicate|restart/accepted`},
	{"spelling counts", `repeat/possible-duplicate`},
	{"another index is another transfer", `repeat/possible-duplicate`},
	{"takes another amount", `repeat/other-content|notice/other-content|restart/accepted`},
	{"compares floats", `repeat/other-content`},
	{"takes another tenantUserId", `repeat/other-content`},
	{"takes another toAddress", `repeat/other-content`},
	{"takes another trackingId", `withdrawal/second-tracking-id`},

	{"refuses notices", `notice/(accepted|repeat)`},
	{"needs a trackingId", `notice/accepted`},
	{"needs all addresses", `notice/accepted`},
	{"refuses notices again", `notice/repeat`},
	{"old address stays", `notice/(accepted|repeat)`},
	{"acknowledges unknown types", `notice/unknown-type`},

	{"no order book", `withdrawal/(known|known-at-once|smuggled)`},
	{"another amount", `withdrawal/(known|long-amount)`},
	{"its own callBackId", `withdrawal/known`},
	{"an order once", `withdrawal/known(-at-once)?`},
	{"confirms everything", `withdrawal/(unknown|other-user|similar)`},
	{"confirms the second time", `withdrawal/unknown`},
	{"details in any block", `withdrawal/details-bound`},
	{"any user", `withdrawal/other-user`},
	{"orders in any case", `withdrawal/similar`},
	{"trims identifiers", `withdrawal/similar`},
	{"believes the request", `withdrawal/(smuggled|unknown)`},
	{"not understood", `withdrawal/unknown`},

	{"refusals are 400", `withdrawal/unknown`},
	{"no message member", `deposit/plain`},
	{"message null", `deposit/plain`},
	{"another apiKey", `deposit/plain`},
	{"data in the clear", `deposit/plain|response/nothing-in-the-clear`},
	{"long answers", `deposit/plain`},
	{"no requestUUID", `deposit/plain`},
	{"no type", `deposit/plain`},
	{"sparse answers", `response/deposit-members`},
	{"no message on failure", `notice/unknown-type|withdrawal/unknown`},
	{"compressed", `deposit/plain`},
	{"deposit in the clear", `response/nothing-in-the-clear`},

	{"any method", `http/other-method`},
	{"no key check", `http/api-key`},
	{"key by prefix", `http/api-key`},
	{"key in any case", `http/api-key`},
	{"parses forms", `http/any-content-type`},
	{"needs a length", `http/chunked`},
	{"limit 65535", `http/largest`},
	{"limit 8192", `http/largest`},
	{"no limit", `http/too-large|http/endless`},
	{"no body time-out", `http/slow-body`},
	{"no key check with its own pair", `http/public-part-alone`},
	{"one at a time", `http/slow-body`},
	{"takes half a body", `http/slow-body`},
	{"empty is fine", `form/damaged`},
	{"one URL for all", `http/wrong-url`},

	{"acknowledges what it cannot read", `sealing/.*|form/damaged|message/.*|binding/.*`},
	{"lax opener", `sealing/(padding|blocks)`},
	{"takes plain JSON", `sealing/other-seal`},
	{"bare only", `form/other-forms`},
	{"no line ends", `form/other-forms`},
	{"mends plus", `form/damaged`},
	{"first of two", `form/damaged`},
	{"lax Base64", `form/damaged`},
	{"lax parser", `message/(duplicate-member|other-case|missing-member|other-kind|number|amount.*|no-.*|loose-json|withdrawal-.*)`},
	{"no binding", `binding/.*`},
	{"first blocks only", `binding/spliced-amount`},
	{"binding in any case", `binding/absent`},

	{"strict", `other/(members-absent|forms|amounts|answer-forms|repeat|notices|withdrawal)`},
	{"identifiers are floats", `other/forms`},
	{"amounts are floats", `other/(amounts|repeat)`},
	{"usual forms in answers", `other/answer-forms`},
	{"repeats every member", `other/withdrawal`},
	{"lax parser", `other/not-guessed`},
}

// TestEveryCaseCanFail runs the cases against merchants that are wrong in one
// respect each. The cases named for a fault must fail, and together the faults
// must have made every case fail.
func TestEveryCaseCanFail(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	failed := map[string]bool{}
	t.Cleanup(func() { // after all faults
		for _, c := range conformance.Cases() {
			if !failed[c.Name] {
				t.Errorf("no wrong merchant makes %d %s fail", c.Number, c.Name)
			}
		}
	})
	for _, w := range []struct {
		fault, cases string
		demands      bool
	}{
		{"demands no signature", `link/(refused|withdrawal)`, false},
		{"signs nothing", `link/(signed|unreadable)`, true},
	} {
		t.Run(strings.ReplaceAll(w.fault, " ", "-"), func(t *testing.T) {
			t.Parallel()
			results, _ := check(t, linkMerchant(t, w.demands, !w.demands, w.cases))
			if len(results) == 0 {
				t.Errorf("no case is called %s", w.cases)
			}
			for name, r := range results {
				if r.Ending != conformance.Fail || r.Problem == "" || r.Fix == "" && r.Severity == conformance.Must {
					t.Error(describe(r))
				}
				mu.Lock()
				failed[name] = true
				mu.Unlock()
			}
		})
	}
	for _, w := range wrong {
		t.Run(strings.ReplaceAll(w.fault, " ", "-"), func(t *testing.T) {
			t.Parallel()
			only := regexp.MustCompile(`^(` + w.cases + `)$`)
			ran := 0
			fakes := []*fake{newFake(false, w.fault), newFake(true, w.fault)}
			if strings.Contains(w.fault, " blocks ") { // the rule of seen blocks
				fakes = fakes[1:]
			}
			if strings.HasPrefix(w.cases, "other/") {
				fakes = []*fake{newOther(w.fault)}
			}
			for _, f := range fakes {
				c := f.start(t)
				c.Only = func(k conformance.Case) bool { return only.MatchString(k.Name) }
				switch w.fault {
				case "no body time-out":
					c.SlowBody = 400 * time.Millisecond
				case "one at a time":
					f.bodyTimeout = time.Minute
					c.Timeout, c.SlowBody = 400*time.Millisecond, time.Minute
				case "no key check with its own pair":
					f.faults = []string{"no key check"}
					f.key, c.Key, c.ResponseKey = otherKey(), otherKey().Public(), testKey()
				}
				results, _ := check(t, c)
				for name, r := range results {
					if r.Ending == conformance.Skip && strings.HasPrefix(r.Problem, "needs a service") {
						continue
					}
					ran++
					if r.Ending != conformance.Fail {
						t.Errorf("unbound=%v: %s with a merchant wrong in %q: %s", f.unbound, name, w.fault, r.Ending)
						continue
					}
					if r.Problem == "" || r.Fix == "" || len(r.Exchanges) == 0 {
						t.Errorf("a failure that explains too little: %s", describe(r))
					}
					mu.Lock()
					failed[name] = true
					mu.Unlock()
				}
			}
			if ran == 0 {
				t.Errorf("no case is called %s", w.cases)
			}
		})
	}
}

// linkMerchant starts a merchant of a service that signs, and gives the settings that check these cases with it.
func linkMerchant(t *testing.T, demands, signs bool, cases string) conformance.Config {
	t.Helper()
	service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	mc := countersigntest.MerchantConfig{Key: testKey().Public(), APIKey: testAPIKey, CallbackAPIKey: testCallbackKey,
		Orders: func(id string) (countersign.Details, bool) {
			d, err := testOrder.Details()
			return d, err == nil && id == testOrder.CallBackID
		}}
	if demands {
		mc.ServiceSigner = service.Public()
	}
	if signs {
		mc.Sign = own
	}
	m, err := countersigntest.StartMerchant(mc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	only := regexp.MustCompile(`^(` + cases + `)$`)
	return conformance.Config{NotifyURL: m.NotifyURL(), WithdrawURL: m.WithdrawURL(), Key: testKey(), APIKey: testAPIKey, CallbackAPIKey: testCallbackKey, Order: &testOrder,
		Sign: service, AnswerKey: own.Public(), Only: func(k conformance.Case) bool { return only.MatchString(k.Name) }}
}

// TestCases holds the list to its own rules, and each case to a rule that
// PROTOCOL.md has.
func TestCases(t *testing.T) {
	doc, err := os.ReadFile("../PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, part := range strings.Split(string(doc), "\n## ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		sections[name] = text
	}
	last := 0
	names := map[string]bool{}
	for _, c := range conformance.Cases() {
		if c.Number <= last {
			t.Errorf("%d %s comes behind %d", c.Number, c.Name, last)
		}
		last = c.Number
		if names[c.Name] || !regexp.MustCompile(`^[a-z]+/[a-z0-9-]+$`).MatchString(c.Name) {
			t.Errorf("name %q", c.Name)
		}
		names[c.Name] = true
		if c.Severity != conformance.Must && c.Severity != conformance.Should {
			t.Errorf("%d %s: severity %q", c.Number, c.Name, c.Severity)
		}
		if !strings.HasSuffix(c.About, ".") {
			t.Errorf("%d %s: %q is no sentence", c.Number, c.Name, c.About)
		}
		section, rest, _ := strings.Cut(c.Rule, ", ")
		for _, rule := range strings.Split(rest, ", ") {
			if text := sections[section]; !strings.Contains(text, "**"+rule+"** ") && !strings.Contains(text, "\n| "+rule+" |") {
				t.Errorf("%d %s: PROTOCOL.md has no rule %q in %q", c.Number, c.Name, rule, section)
			}
		}
	}
	t.Logf("%d cases", len(names))
}

// TestNoSecretInResults: a merchant that puts all secrets into its message gets
// none of them into a report.
func TestNoSecretInResults(t *testing.T) {
	t.Parallel()
	c := newFake(false, "secrets in the message").start(t)
	c.Only = func(k conformance.Case) bool { return k.Number < 600 }
	results, _ := check(t, c)
	b, err := json.Marshal(results)
	if err != nil || len(b) < 10000 {
		t.Fatalf("the report has only %d bytes, %v", len(b), err)
	}
	for name, secret := range map[string]string{"API key": testAPIKey, "callback key": testCallbackKey, "public key": testKey().PublicBase64()[:60]} {
		if strings.Contains(string(b), secret) {
			t.Errorf("the report holds the %s", name)
		}
	}
}

func TestRunNeedsTheEndpoint(t *testing.T) {
	c := newFake(false).start(t)
	for _, tc := range []struct {
		name   string
		change func(*conformance.Config)
		want   error
	}{
		{"public address", func(c *conformance.Config) { c.NotifyURL = "http://192.0.2.1:80/x" }, conformance.ErrPublicAddress},
		{"public IPv6", func(c *conformance.Config) { c.WithdrawURL = "http://[2001:db8::1]/x" }, conformance.ErrPublicAddress},
		{"mapped", func(c *conformance.Config) { c.WithdrawURL = "http://[::ffff:192.0.2.1]/x" }, conformance.ErrPublicAddress},
		{"link-local", func(c *conformance.Config) { c.NotifyURL = "http://169.254.169.254/x" }, conformance.ErrPublicAddress},
		{"unspecified", func(c *conformance.Config) { c.NotifyURL = "http://0.0.0.0/x" }, conformance.ErrPublicAddress},
		{"nobody there", func(c *conformance.Config) { c.NotifyURL = "http://127.0.0.1:1/x" }, conformance.ErrUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := c
			tc.change(&c)
			checker, err := conformance.New(c)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := checker.Run(context.Background(), func(r conformance.Result) { t.Errorf("case %s was run", r.Name) })
			if !errors.Is(err, tc.want) || sum.OK() {
				t.Errorf("got %v, %v; want %v", sum, err, tc.want)
			}
		})
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	checker, err := conformance.New(newFake(false).start(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	_, err = checker.Run(ctx, func(conformance.Result) {
		if n++; n == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || n != 3 {
		t.Errorf("%d results, %v", n, err)
	}
}

func TestNewRefuses(t *testing.T) {
	good := newFake(false).start(t)
	for name, change := range map[string]func(*conformance.Config){
		"no key":              func(c *conformance.Config) { c.Key = nil },
		"public key alone":    func(c *conformance.Config) { c.Key = c.Key.Public() },
		"public response key": func(c *conformance.Config) { c.ResponseKey = c.Key.Public() },
		"OAEP from private":   func(c *conformance.Config) { c.Padding = envelope.OAEP },
		"no URL":              func(c *conformance.Config) { c.WithdrawURL = "" },
		"other scheme":        func(c *conformance.Config) { c.NotifyURL = "ftp://127.0.0.1/x" },
		"no host":             func(c *conformance.Config) { c.NotifyURL = "http:///x" },
		"order without user":  func(c *conformance.Config) { o := testOrder; o.TenantUserID = ""; c.Order = &o },
		"order amount":        func(c *conformance.Config) { o := testOrder; o.Amount = "1e3"; c.Order = &o },
		"order amount 0":      func(c *conformance.Config) { o := testOrder; o.Amount = "0.0"; c.Order = &o },
	} {
		c := good
		change(&c)
		if _, err := conformance.New(c); !errors.Is(err, conformance.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := conformance.New(good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*conformance.Config){ // a Checker that only sends needs neither
		"no API key": func(c *conformance.Config) { c.APIKey = "" },
		"same URLs":  func(c *conformance.Config) { c.WithdrawURL = c.NotifyURL },
	} {
		c := good
		change(&c)
		k, err := conformance.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Run(t.Context(), nil); !errors.Is(err, conformance.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
