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
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// check runs the cases of c and gives the results by name.
func check(t testing.TB, c conformance.Config) (map[string]conformance.Result, conformance.Summary) {
	t.Helper()
	checker := must(conformance.New(c))(t)
	results := map[string]conformance.Result{}
	sum := must(checker.Run(context.Background(), func(r conformance.Result) { results[r.Name] = r }))(t)
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

// TestHonestMerchantPasses: what package merchant makes of a Config passes every case, and in each of its attitudes to the
// binding and to other providers those that depend on them, also with liberties that PROTOCOL.md allows.
func TestHonestMerchantPasses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		rig         *rig
		only, fails string // the cases that may show a difference, and the one that fails
	}{
		{"bound", newRig(false), "", "^$"},
		{"unbound", newRig(true), "^(repeat|withdrawal|binding)/|^deposit/(plain|json|blocks)$", "^$"},
		{"other", newOther(), "^message/|" + otherCases.String(), "^$"},
		{"signed", newRig(false), "^(link|repeat|withdrawal)/|^deposit/plain$|^http/(any|api|chunked|wrong)", "^$"},
		{"when present", newRig(false), "^(binding|repeat)/|^deposit/(plain|json|blocks)$", "^binding/absent$"},
		{"off", newRig(true), "^(binding|repeat)/|^deposit/(plain|json|blocks)$", "^$"},
		{"details in any block", newRig(false, "details in any block"), "^withdrawal/", "^$"},
		{"liberties", newRig(false, "numbers as texts", "knows its withdrawals", "a code of its own", "amounts as numbers",
			"hangs up on slow bodies"), "^(deposit|notice|withdrawal|response)/|^http/slow-body$", "^$"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := tc.rig
			service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
			switch tc.name {
			case "signed":
				g.sign, g.signer = own, service.Public()
			case "when present":
				g.profile.Binding = merchant.BindingWhenPresent
			case "off":
				g.profile.Binding = merchant.BindingOff
			}
			c := g.start(t)
			c.Ordered = tc.name == "details in any block" // who is given every order takes answers whose details are not bound
			if g.sign != nil {
				c.Sign, c.AnswerKey = service, own.Public()
			}
			only, fails := regexp.MustCompile(tc.only), regexp.MustCompile(tc.fails)
			c.Only = func(k conformance.Case) bool { return fails.MatchString(k.Name) }
			if results, sum := check(t, c); sum.Failed != len(results) {
				t.Errorf("%s: %v", tc.fails, sum)
			}
			c.Only = func(k conformance.Case) bool { return only.MatchString(k.Name) && !fails.MatchString(k.Name) }
			skips := "none"
			switch {
			case g.unbound:
				skips = needsBound
			case c.Ordered:
				skips = "needs a service that is not given the details"
			}
			allPass(t, c, skips)
		})
	}
}

// TestInterfaceAlone: a fair merchant of the published interface passes it, whatever it makes of PROTOCOL.md, and the
// summary names the advice on which its money depends.
func TestInterfaceAlone(t *testing.T) {
	t.Parallel()
	c := newRig(false, "no binding", "lax parser", "lax Base64", "no key check", "any method", "no limit", "refusals are 400",
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
			g, key, response := newRig(false), otherKey(), testKey()
			if tc.bits > 0 {
				key = must(envelope.GenerateKey(tc.bits))(t)
				response = key
			}
			g.key, g.padding, g.responseKey, g.service = key, tc.padding, response.Public(), response
			if tc.bits > 0 {
				g.key = key.Public()
			}
			c := g.start(t)
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
	for _, w := range faults {
		if w.cases == "" {
			continue
		}
		t.Run(strings.ReplaceAll(w.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			only := regexp.MustCompile(`^(` + w.cases + `)$`)
			ran := 0
			rigs := []*rig{newRig(false, w.name)}
			switch {
			case strings.HasPrefix(w.cases, "other/"):
				rigs[0] = newOther(w.name)
			case strings.Contains(w.name, " blocks "): // the rule of seen blocks
				rigs[0] = newRig(true, w.name)
			case strings.Contains(w.cases, "binding/"):
				rigs = append(rigs, newRig(true, w.name))
			}
			for _, g := range rigs {
				service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
				switch w.name {
				case "no key check with its own pair":
					g.key = otherKey()
				case "demands no signature":
					g.sign = own
				case "signs nothing":
					g.signer = service.Public()
				}
				c := g.start(t)
				if strings.HasPrefix(w.cases, "link/") {
					c.Sign, c.AnswerKey = service, own.Public()
				}
				c.Only = func(k conformance.Case) bool {
					again := len(rigs) > 1 && g.unbound // binding alone depends on it
					return only.MatchString(k.Name) && (!again || strings.HasPrefix(k.Name, "binding/"))
				}
				switch w.name {
				case "no body time-out":
					c.SlowBody = 400 * time.Millisecond
				case "one at a time":
					c.Timeout, c.SlowBody = 400*time.Millisecond, time.Minute
				case "no key check with its own pair":
					c.Key, c.ResponseKey = otherKey().Public(), testKey()
				}
				results, _ := check(t, c)
				for name, r := range results {
					if r.Ending == conformance.Skip && strings.HasPrefix(r.Problem, "needs a service") {
						continue
					}
					ran++
					if r.Ending != conformance.Fail {
						t.Errorf("unbound=%v: %s with a merchant wrong in %q: %s", g.unbound, name, w.name, r.Ending)
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

// TestCases holds the list to its own rules, and each case to a rule that
// PROTOCOL.md has.
func TestCases(t *testing.T) {
	doc := must(os.ReadFile("../PROTOCOL.md"))(t)
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
	c := newRig(false, "secrets in the message").start(t)
	c.Only = func(k conformance.Case) bool { return strings.HasPrefix(k.Name, "withdrawal/") }
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
	c := newRig(false).start(t)
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
			checker := must(conformance.New(c))(t)
			sum, err := checker.Run(context.Background(), func(r conformance.Result) { t.Errorf("case %s was run", r.Name) })
			if !errors.Is(err, tc.want) || sum.OK() {
				t.Errorf("got %v, %v; want %v", sum, err, tc.want)
			}
		})
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	checker := must(conformance.New(newRig(false).start(t)))(t)
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	_, err := checker.Run(ctx, func(conformance.Result) {
		if n++; n == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || n != 3 {
		t.Errorf("%d results, %v", n, err)
	}
}

func TestNewRefuses(t *testing.T) {
	good := newRig(false).start(t)
	for name, change := range map[string]func(*conformance.Config){
		"no key":              func(c *conformance.Config) { c.Key = nil },
		"public key alone":    func(c *conformance.Config) { c.Key = c.Key.Public() },
		"public response key": func(c *conformance.Config) { c.ResponseKey = c.Key.Public() },
		"OAEP from private":   func(c *conformance.Config) { c.Padding = envelope.OAEP },
		"no URL":              func(c *conformance.Config) { c.WithdrawURL = "" },
		"other scheme":        func(c *conformance.Config) { c.NotifyURL = "ftp://127.0.0.1/x" },
		"no host":             func(c *conformance.Config) { c.NotifyURL = "http:///x" },
		"order without user":  func(c *conformance.Config) { o := testOrder; o.TenantUserID = ""; c.Order = &o },
		"no order amount":     func(c *conformance.Config) { o := testOrder; o.Amount = countersign.Amount{}; c.Order = &o },
		"order amount 0":      func(c *conformance.Config) { o := testOrder; o.Amount = amountOf("0.0"); c.Order = &o },
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
		k := must(conformance.New(c))(t)
		if _, err := k.Run(t.Context(), nil); !errors.Is(err, conformance.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
