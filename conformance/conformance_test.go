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

const (
	needsUnbound = "needs a service that does not bind"
	needsBound   = "needs a service that binds"
)

func TestHonestMerchantPasses(t *testing.T) {
	t.Parallel()
	t.Run("bound", func(t *testing.T) { t.Parallel(); allPass(t, newFake(false).start(t), needsUnbound) })
	t.Run("unbound", func(t *testing.T) { t.Parallel(); allPass(t, newFake(true).start(t), needsBound) })
	t.Run("other", func(t *testing.T) { t.Parallel(); allPass(t, newOther().start(t), needsBound) })
	t.Run("allowed liberties", func(t *testing.T) {
		t.Parallel()
		allPass(t, newFake(false, "numbers as texts", "no null members", "knows its withdrawals", "a code of its own", "amounts as numbers", "hangs up on slow bodies").start(t), needsUnbound)
	})
}

// A service that is given every order takes answers whose details are not bound.
func TestOrderedServiceTakesUnboundAnswers(t *testing.T) {
	c := newFake(false, "details in any block").start(t)
	c.Ordered = true
	c.Only = func(c conformance.Case) bool { return strings.HasPrefix(c.Name, "withdrawal/") }
	allPass(t, c, "needs a service that is not given the details")
}

func TestOtherSchemes(t *testing.T) {
	t.Parallel()
	dbtest.Whole(t, "TestHonestMerchantPasses runs the same cases in one scheme")
	merchants, services := otherKey(), testKey()
	for _, tc := range []struct {
		name    string
		padding envelope.Padding
		skips   []string
	}{
		{"merchant", envelope.PKCS1v15, []string{needsUnbound, "block type 2 may have any bytes"}},
		{"merchant-oaep", envelope.OAEP, []string{needsUnbound, "needs PKCS #1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(false)
			f.key, f.padding, f.responseKey = merchants, tc.padding, services.Public()
			c := f.start(t)
			c.Key, c.Padding, c.ResponseKey = merchants.Public(), tc.padding, services
			allPass(t, c, tc.skips...)
		})
	}
}

// wrong are merchants with one fault each, and cases that must fail for it.
var wrong = []struct {
	fault string
	cases string // regular expression over names
}{
	{"status 500", `deposit/plain|http/chunked`},
	{"redirect", `deposit/plain`},
	{"fixed order", `deposit/any-order`},
	{"compact only", `deposit/white-space`},
	{"keeps escapes", `deposit/escapes`},
	{"knows all members", `deposit/unknown-members|deposit/nested-16-deep|http/largest-message`},
	{"blocks are texts", `deposit/other-scripts`},
	{"full blocks only", `deposit/short-chunks`},
	{"empty is missing", `deposit/empty-texts`},
	{"no negative index", `deposit/tx-index-none|repeat/possible-duplicate`},
	{"zero index is none", `deposit/tx-index-zero`},
	{"whole numbers 32 bit", `deposit/tx-index-largest|deposit/business`},
	{"risk 1 to 99", `deposit/risk-.*`},
	{"64 characters", `deposit/long-texts`},
	{"newAddress always counts", `deposit/new-address`},
	{"lower-cases addresses", `deposit/tron`},
	{"float amounts", `deposit/amount-(18-decimals|beyond-floats|78-digits|78-digits-fraction)`},
	{"no trailing zeros", `deposit/amount-(trailing-zeros|one-trailing-zero|zero-fraction)`},
	{"trims all zeros", `deposit/amount-(zero-fraction|trailing-zeros-of-an-integer)`},
	{"amounts need a point", `deposit/amount-(integer|78-digits)`},
	{"an invented user", `deposit/plain|response/deposit-members`},

	{"refuses repeats", `repeat/(new-request|same-body|at-once)`},
	{"keeps its first answer", `repeat/(new-request|at-once)|withdrawal/(known-repeat|known-at-once)`},
	{"refuses a seen requestUUID", `repeat/same-body|binding/first-block-same-rest`},
	{"identifies by transaction", `repeat/(two-transfers|two-symbols|possible-duplicate)`},
	{"credits repeats", `repeat/(new-request|at-once)`},
	{"credits nothing", `deposit/plain|credit/later`},
	{"rounds credits", `deposit/amount-(18-decimals|beyond-floats|78-digits|78-digits-fraction)`},
	{"credits the one before again", `repeat/(two-symbols|two-transfers)|credit/later`},
	{"keeps nothing over a kill", `restart/(accepted|at-work|possible-duplicate|withdrawal|seen-block)`},
	{"credits are lost in a kill", `restart/(accepted|at-work)`},
	{"answers before it keeps", `restart/(accepted|at-work|possible-duplicate)`},
	{"suspects nothing", `repeat/(possible-duplicate|other-spelling)|restart/possible-duplicate`},
	{"spelling counts", `repeat/other-spelling`},
	{"takes another amount", `repeat/other-amount(-20th-digit)?|notice/other-content|restart/accepted`},
	{"compares floats", `repeat/other-amount-20th-digit`},
	{"takes another tenantUserId", `repeat/other-user`},
	{"takes another toAddress", `repeat/other-address`},
	{"takes another trackingId", `withdrawal/second-tracking-id`},

	{"refuses notices", `notice/(withdrawal|address|tracked-address|not-enough|waiting|repeat).*`},
	{"needs a trackingId", `notice/address.*`},
	{"needs all addresses", `notice/withdrawal-(done|ended)-short`},
	{"refuses notices again", `notice/(repeat|tracked-address|waiting-again)`},
	{"old address stays", `notice/(address|tracked-address)`},
	{"acknowledges unknown types", `notice/(unknown-type|type-0)`},

	{"no order book", `withdrawal/(known|known-repeat|known-at-once|smuggled)`},
	{"another amount", `withdrawal/(known|long-amount)`},
	{"its own callBackId", `withdrawal/known`},
	{"an order once", `withdrawal/(known-repeat|known-at-once)`},
	{"confirms everything", `withdrawal/(unknown|unknown-repeat|other-user|other-case|trailing-space)`},
	{"confirms the second time", `withdrawal/unknown-repeat`},
	{"details in any block", `withdrawal/details-bound`},
	{"any user", `withdrawal/other-user`},
	{"orders in any case", `withdrawal/other-case`},
	{"trims identifiers", `withdrawal/trailing-space`},
	{"believes the request", `withdrawal/smuggled.*`},
	{"not understood", `withdrawal/unknown`},

	{"refusals are 400", `withdrawal/unknown`},
	{"no message member", `deposit/plain`},
	{"message null", `deposit/plain`},
	{"errCode as text", `deposit/plain`},
	{"another apiKey", `deposit/plain`},
	{"data in the clear", `deposit/plain|response/nothing-in-the-clear`},
	{"seals with another key", `deposit/plain`},
	{"long answers", `deposit/plain`},
	{"no requestUUID", `deposit/plain`},
	{"no type", `deposit/plain`},
	{"another type", `deposit/plain`},
	{"sparse answers", `response/deposit-members`},
	{"state is set", `response/null-members`},
	{"no message on failure", `notice/unknown-type|withdrawal/unknown`},
	{"stale data in refusals", `response/refusal-keeps-uuid`},
	{"compressed", `deposit/plain`},
	{"a megabyte of message", `deposit/plain`},
	{"deposit in the clear", `response/nothing-in-the-clear`},

	{"any method", `http/other-method`},
	{"no key check", `http/.*-api-key`},
	{"key by prefix", `http/(longer|shorter)-api-key`},
	{"key in any case", `http/other-case-api-key`},
	{"parses forms", `http/any-content-type`},
	{"needs a length", `http/chunked`},
	{"limit 65535", `http/largest-body`},
	{"limit 8192", `http/largest-message`},
	{"no limit", `http/too-large|http/endless`},
	{"no body time-out", `http/slow-body`},
	{"no header time-out", `http/slow-headers`},
	{"no key check with its own pair", `http/public-part-alone`},
	{"one at a time", `http/slow-body`},
	{"takes half a body", `http/slow-body`},
	{"empty is fine", `http/empty-body`},
	{"one URL for all", `http/.*-at-(withdraw|notify)-url`},

	{"acknowledges what it cannot read", `sealing/.*|form/(plus|field-not|two|url|no-|more|unused|stray|not-).*|message/.*|binding/(absent|broken|spliced|swapped|repeated|left|upper|first-block-other|last-blocks).*`},
	{"lax opener", `sealing/(other-block-type|first-byte|padding-bytes|short-padding|no-separator|empty-block|beyond-modulus|extra-bytes|zero-block)`},
	{"takes plain JSON", `sealing/plain-json`},
	{"bare only", `form/(field|field-among-others|json-string|json-object)`},
	{"no line ends", `form/line-ends`},
	{"mends plus", `form/(plus-turned-into-space|field-not-encoded)`},
	{"first of two", `form/two-(fields|members)`},
	{"lax Base64", `form/(url-alphabet|no-padding|more-padding|unused-bits|stray-character)`},
	{"lax parser", `message/(duplicate.*|other-case|missing-member|null-member|empty-text|number-.*|text-for-number|amount-.*|bytes-not-utf8|surrogates-and-nul|more-behind|no-object|nested-17-deep|withdrawal-missing-member)`},
	{"no binding", `binding/(absent|broken|spliced|swapped|repeated|left|upper|first-block-other|withdrawal-other|last-blocks).*`},
	{"first blocks only", `binding/last-blocks.*`},
	{"binding in any case", `binding/upper-case`},

	{"strict", `other/(members-absent|num.*|risk-levels|amount-.*|answer-forms|repeat|notices|withdrawal-(nulls|number|smuggled))`},
	{"identifiers are floats", `other/numeric-identifiers`},
	{"amounts are floats", `other/(amount-(numbers|exponents)|repeat)`},
	{"usual forms in answers", `other/answer-forms`},
	{"repeats every member", `other/withdrawal-smuggled`},
	{"lax parser", `other/(withdrawal-)?not-guessed`},
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
		{"demands no signature", `link/(unsigned|stripped|other-.*|altered|replayed|withdrawal)`, false},
		{"signs nothing", `link/(accepted|refusal|unreadable|own-answer)`, true},
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
			if strings.HasPrefix(w.cases, "other/") {
				fakes = []*fake{newOther(w.fault)}
			}
			for _, f := range fakes {
				c := f.start(t)
				c.Only = func(k conformance.Case) bool { return only.MatchString(k.Name) }
				switch w.fault {
				case "no body time-out", "no header time-out":
					c.SlowBody = 400 * time.Millisecond
				case "no key check with its own pair":
					f.faults = []string{"no key check"}
					f.key, c.Key, c.ResponseKey = otherKey(), otherKey().Public(), testKey()
				}
				if w.fault == "one at a time" {
					f.bodyTimeout = time.Minute
					c.Timeout, c.SlowBody = 400*time.Millisecond, time.Minute
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
	faults := []string{"secrets in the message", "another apiKey", "status 500"}
	if !dbtest.IsWhole() {
		faults = faults[:1] // each takes as long as a whole check
	}
	for _, fault := range faults {
		c := newFake(false, fault).start(t)
		c.Only = func(k conformance.Case) bool { return k.Number < 600 }
		results, _ := check(t, c)
		b, err := json.Marshal(results)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 10000 {
			t.Fatalf("the report has only %d bytes", len(b))
		}
		for name, secret := range map[string]string{"API key": testAPIKey, "callback key": testCallbackKey, "public key": testKey().PublicBase64()[:60]} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s: the report holds the %s", fault, name)
			}
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
		"no API key":          func(c *conformance.Config) { c.APIKey = "" },
		"same URLs":           func(c *conformance.Config) { c.WithdrawURL = c.NotifyURL },
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
}
