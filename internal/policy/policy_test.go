package policy

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
)

const (
	tronAddress = "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"
	evmAddress  = "0x52908400098527886E0F7030069857D2E4169EE7"
	otherEVM    = "0x8617E340B3D01FA5F11F306F4090FD50E238070D"
)

// wednesday is at noon in Berlin.
var wednesday = time.Date(2026, 7, 15, 10, 0, 0, 0, time.UTC)

// failer is a test, a benchmark, a fuzz test or a property's run.
type failer interface {
	Helper()
	Fatal(...any)
}

// must returns v of a call that may not fail here.
func must[T any](v T, err error) func(failer) T {
	return func(t failer) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustAmount(t failer, s string) countersign.Amount {
	t.Helper()
	return must(countersign.ParseAmount(s))(t)
}

func mustPolicy(t testing.TB, file string) *Rules {
	t.Helper()
	return must(Parse([]byte(file)))(t)
}

// someRequest is a question that nothing is wrong with; change makes it
// another. Its sums are 0.
func someRequest(t testing.TB, change ...func(*Request)) Request {
	t.Helper()
	r := Request{
		Order: client.Order{CallBackID: "w-1", TenantUserID: "user-9", Address: tronAddress, ChainName: "TRON", Symbol: "USDT", Amount: mustAmount(t, "100.00"),
			Created: client.TimeOf(wednesday.Add(-time.Hour)), Labels: map[string]string{"riskLevel": "10", "tier": "gold"}},
		User: "user-9",
		Now:  wednesday,
		Spent: func(context.Context, string, string, time.Time) (countersign.Sum, error) {
			return countersign.Sum{}, nil
		},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func ofAmount(t testing.TB, s string) func(*Request) {
	return func(r *Request) { r.Order.Amount = mustAmount(t, s) }
}

func to(address string) func(*Request) {
	return func(r *Request) { r.Order.Address = address }
}

func labelled(pairs ...string) func(*Request) {
	return func(r *Request) {
		r.Order.Labels = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			r.Order.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func by(user string) func(*Request) {
	return func(r *Request) { r.Order.TenantUserID, r.User = user, user }
}

func asOf(t time.Time) func(*Request) { return func(r *Request) { r.Now = t } }

// spent makes the sums of a request; keys are symbol, or symbol and user.
func spent(t testing.TB, sums map[string]string) func(*Request) {
	return func(r *Request) {
		r.Spent = func(_ context.Context, symbol, user string, _ time.Time) (countersign.Sum, error) {
			s, ok := sums[strings.TrimSpace(symbol+" "+user)]
			if !ok {
				return countersign.Sum{}, nil
			}
			return mustAmount(t, s).Sum(), nil
		}
	}
}

func decide(t testing.TB, p *Rules, r Request) Ruling {
	t.Helper()
	return must(p.Decide(t.Context(), r))(t)
}

// TestExamplePolicy reads the example that users start from.
func TestExamplePolicy(t *testing.T) {
	file := must(os.ReadFile("testdata/example.toml"))(t)
	p := mustPolicy(t, string(file))
	night := asOf(wednesday.Add(12 * time.Hour))
	young := func(r *Request) { r.Order.Created = client.TimeOf(r.Now.Add(-time.Second)) }
	coin := func(chain, symbol string) func(*Request) {
		return func(r *Request) { r.Order.ChainName, r.Order.Symbol = chain, symbol }
	}
	plain := to("TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf")
	for _, c := range []struct {
		name   string
		change []func(*Request)
		effect Effect
		rule   string
	}{
		{"everyday", []func(*Request){plain}, Allow, "everyday"},
		{"blocked, in another spelling", []func(*Request){to(strings.ToLower(otherEVM))}, Deny, "blocked address"},
		{"unknown symbol", []func(*Request){coin("TRON", "TRX")}, Deny, "unknown coin"},
		{"symbol in another case", []func(*Request){coin("TRON", "usdt")}, Deny, "unknown coin"},
		{"unknown chain", []func(*Request){coin("SOL", "USDT")}, Deny, "unknown chain"},
		{"treasury, in another spelling", []func(*Request){to(strings.ToLower(evmAddress)), labelled()}, Allow, "treasury"},
		{"TRON's case counts", []func(*Request){to(strings.ToLower(tronAddress)), labelled("riskLevel", "40")}, Ask, ""},
		{"risky", []func(*Request){plain, labelled("riskLevel", "70")}, Deny, "risky"},
		{"risk not said", []func(*Request){plain, labelled()}, Deny, "risky"},
		{"staff", []func(*Request){plain, by("user-7")}, Ask, "staff"},
		{"staff is exact", []func(*Request){plain, by("USER-7")}, Allow, "everyday"},
		{"500 by night", []func(*Request){plain, night, ofAmount(t, "500.000")}, Allow, "everyday"},
		{"more by night", []func(*Request){plain, night, ofAmount(t, "500.000000000000000001")}, Ask, "by night"},
		{"young, of gold", []func(*Request){plain, young}, Allow, "everyday"},
		{"young, no tier", []func(*Request){plain, young, labelled("riskLevel", "10")}, Ask, "young order, no tier"},
		{"young, of silver", []func(*Request){plain, young, labelled("riskLevel", "10", "tier", "silver")}, Ask, "young order"},
		{"nothing matches", []func(*Request){plain, labelled("riskLevel", "50")}, Ask, ""},
		{"exactly large", []func(*Request){plain, ofAmount(t, "1000.0")}, Allow, "everyday"},
		{"large", []func(*Request){plain, ofAmount(t, "1000.01")}, Ask, "large"},
		{"largest", []func(*Request){plain, ofAmount(t, "50000.01")}, Deny, "largest"},
		{"the treasury has no way past a limit", []func(*Request){ofAmount(t, "50000.01")}, Deny, "largest"},
		{"user's day full", []func(*Request){plain, spent(t, map[string]string{"USDT user-9": "4900"})}, Allow, "everyday"},
		{"user's day over", []func(*Request){plain, spent(t, map[string]string{"USDT user-9": "4900.01"})}, Ask, "user and day"},
		{"another user's day", []func(*Request){plain, spent(t, map[string]string{"USDT user-8": "4900.01"})}, Allow, "everyday"},
		{"day full", []func(*Request){plain, spent(t, map[string]string{"USDT": "249900.5"})}, Allow, "everyday"},
		{"day over", []func(*Request){plain, spent(t, map[string]string{"USDT": "249900.51"})}, Deny, "day"},
		{"deny before ask", []func(*Request){plain, spent(t, map[string]string{"USDT user-9": "5000", "USDT": "250000"})}, Deny, "day"},
		{"hour of another symbol", []func(*Request){plain, coin("ETH", "USDC"), spent(t, map[string]string{"USDC": "20000"})},
			Ask, "USDC hour outside the treasury"},
		{"a limit's condition", []func(*Request){coin("TRON", "USDC"), spent(t, map[string]string{"USDC": "20000"})}, Allow, "treasury"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := decide(t, p, someRequest(t, c.change...))
			if got.Effect != c.effect || got.Rule != c.rule {
				t.Errorf("%v by %q (%s), want %v by %q", got.Effect, got.Rule, got.Reason, c.effect, c.rule)
			}
			if got.Reason == "" && got.Rule == "" {
				t.Error("neither rule nor reason")
			}
		})
	}
}

const names = `
time-zone = "Asia/Kolkata"
[lists]
staff = ["user-9"]
known = ["` + evmAddress + `", "` + tronAddress + `"]
none = []
[hours]
day = ["mon-sun 06:00-22:00"]
`

// withRule is a file whose one rule allows where the conditions hold.
func withRule(conditions string) string {
	return "default = \"deny\"\n" + names + "[[rule]]\nname = \"the rule\"\neffect = \"allow\"\n" + conditions + "\n"
}

// always is a condition that every order of someRequest meets.
const always = "amount-above = \"0\""

func TestConditions(t *testing.T) {
	symbol := func(s string) func(*Request) { return func(r *Request) { r.Order.Symbol = s } }
	chain := func(s string) func(*Request) { return func(r *Request) { r.Order.ChainName = s } }
	aged := func(d time.Duration) func(*Request) {
		return func(r *Request) { r.Order.Created = client.TimeOf(r.Now.Add(-d)) }
	}
	for _, c := range []struct {
		conditions string
		change     func(*Request)
		want       string // why it does not match; empty: it does
	}{
		{`symbol = ["USDC", "USDT"]`, nil, ""},
		{`symbol = ["USDC"]`, nil, "symbol is USDT, not USDC"},
		{`symbol = ["USDT"]`, symbol("usdt"), "symbol is usdt, not USDT"},
		{`symbol-not = ["USDC", "ETH"]`, nil, ""},
		{`symbol-not = ["USDT"]`, nil, "symbol is USDT, not other than USDT"},
		{`symbol-not = ["USDT"]`, symbol("usdt"), "symbol is usdt, not other than USDT"},
		{`chain = ["TRON"]`, nil, ""},
		{`chain = ["BNB"]`, chain("BSC"), "chain is BSC, not BNB"},
		{`chain-not = ["BNB"]`, chain("BSC"), "chain is BSC, not other than BNB"},
		{`amount-above = "99.999999999999999999999999"`, nil, ""},
		{`amount-above = "100.0"`, nil, "amount is 100.00, not above 100.0"},
		{`amount-max = "100"`, nil, ""},
		{`amount-max = "99.99"`, nil, "amount is 100.00, not at most 99.99"},
		{`amount-above = "9007199254740992"`, ofAmount(t, "9007199254740993"), ""},
		{`address-in = "known"`, nil, ""},
		{`address-in = "known"`, to(strings.ToLower(evmAddress)), ""},
		{`address-in = "known"`, to("0X52908400098527886E0F7030069857D2E4169EE7"), ""},
		{`address-in = "known"`, to("eth:" + evmAddress + "?x=1"), "address is eth:" + evmAddress + "?x=1, not in known"}, // it allows
		{`address-in = "known"`, to(strings.ToLower(tronAddress)), "address is " + strings.ToLower(tronAddress) + ", not in known"},
		{`address-in = "none"`, nil, "address is " + tronAddress + ", not in none"},
		{`address-not-in = "known"`, to(otherEVM), ""},
		{`address-not-in = "known"`, to(strings.ToLower(evmAddress)), "address is " + strings.ToLower(evmAddress) + ", not outside known"},
		{`address-not-in = "known"`, to(evmAddress + "?x=1"), "address is " + evmAddress + "?x=1, not outside known"},
		{`user-in = "staff"`, nil, ""},
		{`user-in = "staff"`, by("USER-9"), "user is USER-9, not in staff"},
		{`user-not-in = "staff"`, nil, "user is user-9, not outside staff"},
		{`hours = "day"`, asOf(time.Date(2026, 7, 15, 16, 29, 59, 0, time.UTC)), ""},
		{`hours = "day"`, asOf(time.Date(2026, 7, 15, 16, 30, 0, 0, time.UTC)), "time is Wed 22:00, not in day"},
		{`hours-not = "day"`, nil, "time is Wed 15:30, not outside day"},
		{`risk-max = 10`, nil, ""},
		{`risk-max = 9`, nil, "risk is 10, not at most 9"},
		{`risk-min = 10`, nil, ""},
		{`risk-min = 11`, nil, "risk is 10, not at least 11"},
		{`age-min = "1h"`, nil, ""},
		{`age-min = "1h1s"`, nil, "age is 1h, not at least 1h0m1s"},
		{`age-below = "30m"`, aged(30*time.Minute - time.Millisecond), ""},
		{`age-below = "30m"`, aged(30 * time.Minute), "age is 30m, not below 30m"},
		{`label.tier = ["silver", "gold"]`, nil, ""},
		{`label.tier = ["silver"]`, nil, "label tier is gold, not silver"},
		{`label-not.tier = ["gold"]`, nil, "label tier is gold, not other than gold"},
		{`label-not.tier = ["silver"]`, nil, ""},
		{`labels = ["tier"]`, nil, ""},
		{`labels = ["x"]`, nil, "label x is absent, not present"},
		{`labels-not = ["tier"]`, nil, "label tier is present, not absent"},
		{`labels-not = ["x"]`, func(r *Request) { r.Order.Labels = nil }, ""},
		{"symbol = [\"USDT\"]\namount-max = \"5\"", nil, "amount is 100.00, not at most 5"},
		// One that does not hold decides, though another cannot be evaluated.
		{"label.x = [\"y\"]\namount-max = \"5\"", nil, "amount is 100.00, not at most 5"},
		{"labels = [\"x\"]\nlabel.x = [\"y\"]", nil, "label x is absent, not present"},
	} {
		var changes []func(*Request)
		if c.change != nil {
			changes = append(changes, c.change)
		}
		r, came := someRequest(t, changes...), ""
		r.Trace = func(s client.PolicyStep) { came = s.Came }
		got := decide(t, mustPolicy(t, withRule(c.conditions)), r)
		if matches := got.Effect == Allow && got.Rule == "the rule"; matches != (c.want == "") || !matches && came != "does not match: "+c.want {
			t.Errorf("%s: %+v, %s; want %q", c.conditions, got, came, c.want)
		}
	}
}

// TestStrictSpellings: a rule that does not allow matches every spelling that may be meant, and a
// rule that allows only the bytes themselves.
func TestStrictSpellings(t *testing.T) {
	for effect, wants := range map[string][2]bool{"deny": {true, true}, "ask": {true, true}, "allow": {true, false}} {
		file := "default = \"ask\"\n[lists]\nbad = [\"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq\"]\n[[rule]]\nname = \"r\"\naddress-in = \"bad\"\neffect = \"" + effect + "\"\n"
		for i, address := range []string{"BC1QAR0SRRR7XFKVY5L643LYDNW9RE59GTZZWF5MDQ", "bitcoin:bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq?amount=1"} {
			if got := decide(t, mustPolicy(t, file), someRequest(t, to(address))); (got.Rule == "r") != wants[i] {
				t.Errorf("%s of %s: %+v", effect, address, got)
			}
		}
	}
}

// TestReasons: a ruling says which values decided, where the file gives no reason.
func TestReasons(t *testing.T) {
	p := mustPolicy(t, "default = \"allow\"\n[[rule]]\nname = \"large\"\nsymbol = [\"USDT\"]\namount-above = \"50\"\neffect = \"deny\"\n")
	if got, want := decide(t, p, someRequest(t)).Why(), "large: symbol is USDT (USDT), amount is 100.00 (above 50)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	long := decide(t, mustPolicy(t, withRule("address-not-in = \"known\"\nsymbol-not = [\""+strings.Repeat("x", 300)+"\"]")), someRequest(t, to(strings.Repeat("z", 1000))))
	if n := len(long.Reason); n > 250 || long.Effect != Allow {
		t.Errorf("%d bytes: %+v", n, long)
	}
}

// TestTable says a policy in words.
func TestTable(t *testing.T) {
	file := withRule("symbol = [\"USDT\", \"USDC\"]\naddress-not-in = \"known\"\nage-min = \"30m\"\nlabel.tier = [\"vip\"]") +
		"[[limit]]\nname = \"day\"\nsymbol = \"USDT\"\nmax = \"5\"\nwindow = \"24h\"\nper = \"tenant\"\nabove = \"ask\"\napprovals = 2\nchain-not = [\"ETH\"]\n"
	var got []string
	for _, r := range mustPolicy(t, file).Table() {
		got = append(got, r.Kind+"|"+r.Name+"|"+r.When+"|"+r.Then)
	}
	want := []string{
		"rule|the rule|symbol is USDT or USDC, and label tier is vip, and address is outside known, and age is at least 30m|allow",
		"default||no rule matches|deny",
		"limit|day|symbol is USDT, and chain is other than ETH|above 5 USDT in 24h for one user: ask 2 persons",
	}
	slices.Sort(got)
	slices.Sort(want)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestConditionsAreRefused: what cannot mean what its author thinks is refused when the file is
// read, with the rule's name.
func TestConditionsAreRefused(t *testing.T) {
	for condition, want := range map[string]string{
		`when = 'amount > amount("1000")'`: `when: is not a key here: write each condition as a key of its own, and all of them must hold, such as symbol = ["USDT"]`,
		`amount-above = 1000.5`:            `amount-above: is a number without quotes, which may not be exact: write "1000.5"`,
		`amount-above = "1e3"`:             `amount-above: amount has an exponent`,
		`amount-max = "-1"`:                `amount-max: amount has a sign`,
		`amount-max = "1,000"`:             `amount-max: amount is not a decimal number`,
		`amount-min = "5"`:                 `amount-min: is not a key here; the keys are address-in,`,
		`adress-in = "known"`:              `adress-in: is not a key here`,
		`address-in = "unknown"`:           `address-in: there is no "unknown" under [lists]`,
		`address-in = ["0x00"]`:            `address-in: is not a text in quotes`,
		`address-in = "blind"`:             `address-in: the list blind has "TJ\u200bR", which has an invisible character`,
		`address-in = "day"`:               `there is no "day" under [lists]`,
		`hours = "known"`:                  `hours: there is no "known" under [hours]`,
		`symbol = "USDT"`:                  `symbol: is not a list of texts`,
		`symbol = []`:                      `symbol: is an empty list`,
		`symbol = ["USDT", ""]`:            `symbol: is an empty list, or has an empty entry`,
		`symbol = ["USDT", 5]`:             `symbol: has entry 2, which is not a text`,
		`symbol = ["UЅDT"]`:                `symbol: "UЅDT" is empty, or has a character that is not visible ASCII`,
		`symbol-not = ["US DT"]`:           `has a character that is not visible ASCII`,
		`chain = ["TRON\u2060"]`:           `chain: "TRON\u2060" is empty, or has a character that is not visible ASCII`,
		`risk-max = 101`:                   `risk-max: is not a whole number from 0 to 100`,
		`risk-max = "40"`:                  `risk-max: is not a whole number from 0 to 100, without quotes`,
		`risk-min = 5.5`:                   `risk-min: is not a whole number`,
		`age-min = "1 hour"`:               `age-min: "1 hour" is not a length of time`,
		`label = ["vip"]`:                  `label: is not written label.NAME = ["value"]`,
		`label.tier = "vip"`:               `tier: is not a list of texts`,
		`labels = "tier"`:                  `labels: is not a list of texts`,
		``:                                 `name: the rule has no condition: write default = "allow"`,
	} {
		_, err := Parse([]byte(strings.Replace(withRule(condition), "none = []", "none = []\nblind = [\"TJ\u200bR\"]", 1)))
		var pe *Error
		switch {
		case err == nil:
			t.Errorf("%.80q is read", condition)
		case !errors.Is(err, ErrFile) || !errors.As(err, &pe) || !strings.HasPrefix(pe.Where, `rule 1 "the rule": `):
			t.Errorf("%.80q: %v names no rule", condition, err)
		case !strings.Contains(err.Error(), want) || len(err.Error()) > 700:
			t.Errorf("%.80q: %v, want %q", condition, err, want)
		}
	}
}

// TestConditionsThatFailDeny: a rule that would allow never does so when it
// cannot be evaluated, and what comes after it is not reached.
func TestConditionsThatFailDeny(t *testing.T) {
	for _, c := range []struct {
		condition, want string
		change          func(*Request)
	}{
		{`label.x = ["y"]`, "the order has no label x", labelled()},
		{`label-not.x = ["y"]`, "the order has no label x", labelled()},
		{`risk-max = 50`, "the order has no label riskLevel", labelled()},
		{`risk-max = 50`, "not a number from 0 to 100", labelled("riskLevel", "101")},
		{`risk-max = 50`, "not a number from 0 to 100", labelled("riskLevel", "-1")},
		{`risk-min = 0`, "not a number from 0 to 100", labelled("riskLevel", "low")},
	} {
		file := withRule(c.condition) + "[[rule]]\nname = \"next\"\n" + always + "\neffect = \"allow\"\n"
		got := decide(t, mustPolicy(t, file), someRequest(t, c.change))
		if got.Effect != Deny || got.Rule != "the rule" || !strings.HasPrefix(got.Reason, "cannot be evaluated: ") ||
			!strings.Contains(got.Reason, c.want) || strings.Contains(got.Reason, "\n") {
			t.Errorf("%.60q: %+v, want a Deny that says %q", c.condition, got, c.want)
		}
	}
	// The same in a limit's own condition.
	p := mustPolicy(t, "default = \"allow\"\n[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1000\"\nlabel.x = [\"y\"]\n")
	if got := decide(t, p, someRequest(t)); got.Effect != Deny || got.Rule != "l" {
		t.Errorf("limit: %+v", got)
	}
}

// TestDecideErrors: what is no fault of the order is an error and can be asked
// again; the Effect beside it denies all the same.
func TestDecideErrors(t *testing.T) {
	p := mustPolicy(t, "default = \"allow\"\n[[limit]]\nname = \"day\"\nsymbol = \"USDT\"\nmax = \"1000\"\nwindow = \"24h\"\n")
	down := errors.New("the store is down")
	failing := func(r *Request) {
		r.Spent = func(context.Context, string, string, time.Time) (countersign.Sum, error) {
			return countersign.Sum{}, down
		}
	}
	if got, err := p.Decide(t.Context(), someRequest(t, failing)); !errors.Is(err, down) || got.Effect != Deny || !strings.Contains(err.Error(), `"day"`) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := p.Decide(t.Context(), someRequest(t, func(r *Request) { r.Spent = nil })); err == nil || got.Effect != Deny {
		t.Errorf("no sums: %+v, %v", got, err)
	}
	// A symbol without a limit needs no sums.
	if got := decide(t, p, someRequest(t, failing, func(r *Request) { r.Order.Symbol = "USDC" })); got.Effect != Allow {
		t.Errorf("%+v", got)
	}
}

// TestNoQuestion: neither policy allows what is no whole order.
func TestNoQuestion(t *testing.T) {
	policies := map[string]*Rules{"exact orders": ExactOrders(), "file": mustPolicy(t, `default = "allow"`)}
	for name, change := range map[string]func(*Request){
		"no amount":     func(r *Request) { r.Order.Amount = countersign.Amount{} },
		"amount 0":      ofAmount(t, "0.00"),
		"no address":    to(""),
		"no symbol":     func(r *Request) { r.Order.Symbol = "" },
		"no chain":      func(r *Request) { r.Order.ChainName = "" },
		"other user":    func(r *Request) { r.User = "user-8" },
		"no user":       by(""),
		"no callBackId": func(r *Request) { r.Order.CallBackID = "" },
		"no time":       asOf(time.Time{}),
		"expired":       func(r *Request) { r.Order.ExpiresAt = client.TimeOf(r.Now) },
		"nothing":       func(r *Request) { *r = Request{} },
	} {
		for which, p := range policies {
			if got := decide(t, p, someRequest(t, change)); got.Effect != Deny || got.Reason == "" {
				t.Errorf("%s: %s: %+v", which, name, got)
			}
		}
	}
	for which, p := range policies {
		if got := decide(t, p, someRequest(t)); got.Effect != Allow || got.Reason == "" {
			t.Errorf("%s: %+v", which, got)
		}
	}
	if (Ruling{}).Effect != Deny {
		t.Error("the zero Ruling does not deny")
	}
}

func TestEffectWords(t *testing.T) {
	if s := Effect(7).String(); s != "Effect(7)" {
		t.Error(s)
	}
}

// TestSpellings: no spelling of an address gets off a list, none of a symbol gets past a
// limit, and what nobody sees is refused.
func TestSpellings(t *testing.T) {
	const blocked = "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c"
	p := mustPolicy(t, "default = \"allow\"\n[lists]\nbad = [\""+blocked+"\", \""+tronAddress+"\"]\n"+
		"[[rule]]\nname = \"blocked\"\naddress-in = \"bad\"\neffect = \"deny\"\n"+
		"[[limit]]\nname = \"each\"\nsymbol = \"USDT\"\nmax = \"10\"\n")
	to := func(address, symbol string) string {
		t.Helper()
		return decide(t, p, someRequest(t, func(r *Request) { r.Order.Address, r.Order.Symbol = address, symbol })).Why()
	}
	digits := blocked[2:]
	for _, address := range []string{blocked, "0X" + digits, digits, strings.ToUpper(digits), "xdc" + digits, "XDC" + strings.ToUpper(digits), tronAddress} {
		if got := to(address, "ETH"); !strings.HasPrefix(got, "blocked: address is ") {
			t.Errorf("%s: %s", address, got)
		}
	}
	if got := to(strings.ToLower(tronAddress), "ETH"); !strings.HasPrefix(got, "blocked") {
		t.Errorf("a list that denies is passed by the case of a letter: %s", got)
	}
	for _, symbol := range []string{"USDT", "usdt", "Usdt"} {
		if got := to("0x"+strings.Repeat("1", 40), symbol); !strings.HasPrefix(got, "each") {
			t.Errorf("%s: %s", symbol, got)
		}
	}
	for _, address := range []string{" " + blocked, blocked + "\n", "0x 7054b0f980a7eb5b3a6b3446f3c947d80162775c", blocked + "\u00a0"} {
		if got := to(address, "ETH"); !strings.Contains(got, `"address" has a space`) {
			t.Errorf("%q: %s", address, got)
		}
	}
	if got := to("0x"+strings.Repeat("1", 40), "USDT "); !strings.Contains(got, `"symbol" has a character that is not visible`) {
		t.Errorf("a symbol with a space: %s", got)
	}
}

// TestDust: an order may have 18 decimals, or those of its symbol, and what was confirmed
// before may have any number of digits.
func TestDust(t *testing.T) {
	p := mustPolicy(t, "default = \"allow\"\n[decimals]\nUSDT = 6\n[[limit]]\nname = \"day\"\nsymbol = \"USDT\"\nmax = \"1000000000000\"\nwindow = \"24h\"\n")
	dust := must(countersign.ParseSum("999999999999." + strings.Repeat("0", 76) + "1"))(t)
	with := func(p *Rules, symbol, amount string) Ruling {
		t.Helper()
		return decide(t, p, someRequest(t, func(r *Request) {
			r.Order.Symbol, r.Order.Amount = symbol, mustAmount(t, amount)
			r.Spent = func(context.Context, string, string, time.Time) (countersign.Sum, error) { return dust, nil }
		}))
	}
	if got := with(p, "USDT", "0.999999"); got.Effect != Allow {
		t.Errorf("below the limit: %+v", got)
	}
	if got := with(p, "USDT", "1"); got.Effect != Deny || got.Rule != "day" {
		t.Errorf("above it by dust: %+v", got)
	}
	for amount, want := range map[string]Effect{"0.1234560000": Allow, "0.1234567": Deny} {
		if got := with(p, "usdt", amount); got.Effect != want {
			t.Errorf("%s: %+v", amount, got)
		}
	}
	for _, p := range []*Rules{p, ExactOrders()} {
		for amount, want := range map[string]Effect{"0.123456789012345678": Allow, "0.1234567890123456789": Deny} {
			if got := with(p, "ETH", amount); got.Effect != want {
				t.Errorf("%s: %+v", amount, got)
			}
		}
	}
	for _, wrong := range []string{"[decimals]\nUSDT = \"6\"", "[decimals]\nUSDT = -1", "[decimals]\nUSDT = 6\nusdt = 7", "[decimals]\nUSDT = 78"} {
		if _, err := Parse([]byte("default = \"deny\"\n" + wrong)); err == nil || !strings.Contains(err.Error(), "decimals") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestWarnings: under default = "allow" a limit can be missed by an order of another symbol.
func TestWarnings(t *testing.T) {
	const limits = "[[limit]]\nname = \"day\"\nsymbol = \"USDT\"\nmax = \"1\"\nwindow = \"24h\"\n"
	if got := mustPolicy(t, "default = \"allow\"\n"+limits).Warnings(); len(got) != 1 || !strings.Contains(got[0], "USDT") {
		t.Errorf("%q", got)
	}
	for _, text := range []string{"default = \"deny\"\n" + limits, "default = \"allow\"\n"} {
		if got := mustPolicy(t, text).Warnings(); len(got) > 0 {
			t.Errorf("%s: %q", text, got)
		}
	}
	known := "default = \"deny\"\n[lists]\na = [\"" + tronAddress + "\", \"" + strings.ToLower(tronAddress) + "\", \"" + evmAddress + "\"]\n[[rule]]\nname = \"r\"\naddress-in = \"a\"\neffect = \"allow\"\n"
	if got := mustPolicy(t, known).Warnings(); len(got) != 1 || !strings.Contains(got[0], strings.ToLower(tronAddress)) || !strings.Contains(got[0], `rule 1 "r": a has`) {
		t.Errorf("an address in no known form: %q", got)
	}
}
