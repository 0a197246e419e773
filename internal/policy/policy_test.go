package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"countersign"
)

const (
	tronAddress = "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"
	evmAddress  = "0x52908400098527886E0F7030069857D2E4169EE7"
	otherEVM    = "0x8617E340B3D01FA5F11F306F4090FD50E238070D"
)

// wednesday is at noon in Berlin.
var wednesday = time.Date(2026, 7, 15, 10, 0, 0, 0, time.UTC)

func mustAmount(t testing.TB, s string) countersign.Amount {
	t.Helper()
	a, err := countersign.ParseAmount(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustPolicy(t testing.TB, file string) *Rules {
	t.Helper()
	p, err := Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// someRequest is a question that nothing is wrong with; change makes it
// another. Its sums are 0.
func someRequest(t testing.TB, change ...func(*Request)) Request {
	t.Helper()
	r := Request{
		Withdrawal: countersign.WithdrawalRequest{
			Head: countersign.Head{RequestUUID: "6f1f64a7-6b5e-4d0c-9a0f-1f2e3d4c5b6a", TrackingID: "t-1", TenantUserID: "user-9"}, CallBackID: "w-1",
		},
		Order: Order{
			TenantUserID: "user-9",
			Details:      countersign.Details{Address: tronAddress, ChainName: "TRON", Symbol: "USDT", Amount: mustAmount(t, "100.00")},
			Created:      wednesday.Add(-time.Hour),
			Labels:       map[string]string{"riskLevel": "10", "tier": "gold"},
		},
		Now: wednesday,
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
	return func(r *Request) { r.Order.Details.Amount = mustAmount(t, s) }
}

func to(address string) func(*Request) {
	return func(r *Request) { r.Order.Details.Address = address }
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
	return func(r *Request) { r.Order.TenantUserID, r.Withdrawal.TenantUserID = user, user }
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

func decide(t testing.TB, p Policy, r Request) Ruling {
	t.Helper()
	got, err := p.Decide(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestExamplePolicy reads the example that users start from.
func TestExamplePolicy(t *testing.T) {
	file, err := os.ReadFile("testdata/example.toml")
	if err != nil {
		t.Fatal(err)
	}
	p := mustPolicy(t, string(file))
	night := asOf(wednesday.Add(12 * time.Hour))
	young := func(r *Request) { r.Order.Created = r.Now.Add(-time.Second) }
	coin := func(chain, symbol string) func(*Request) {
		return func(r *Request) { r.Order.Details.ChainName, r.Order.Details.Symbol = chain, symbol }
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
		{"unknown chain", []func(*Request){coin("SOL", "USDT")}, Deny, "unknown coin"},
		{"treasury, in another spelling", []func(*Request){to(strings.ToLower(evmAddress)), labelled()}, Allow, "treasury"},
		{"TRON's case counts", []func(*Request){to(strings.ToLower(tronAddress)), labelled("riskLevel", "40")}, Ask, ""},
		{"risky", []func(*Request){plain, labelled("riskLevel", "70")}, Deny, "risky"},
		{"risk not said", []func(*Request){plain, labelled()}, Deny, "risky"},
		{"staff", []func(*Request){plain, by("user-7")}, Ask, "staff"},
		{"staff is exact", []func(*Request){plain, by("USER-7")}, Allow, "everyday"},
		{"500 by night", []func(*Request){plain, night, ofAmount(t, "500.000")}, Allow, "everyday"},
		{"more by night", []func(*Request){plain, night, ofAmount(t, "500.000000000000000001")}, Ask, "by night"},
		{"young, of gold", []func(*Request){plain, young}, Allow, "everyday"},
		{"young, no tier", []func(*Request){plain, young, labelled("riskLevel", "10")}, Ask, "young order"},
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
known = ["` + evmAddress + `", "` + tronAddress + `"]
none = []
[hours]
day = ["mon-sun 06:00-22:00"]
`

// withRule is a file whose one rule allows where the condition holds.
func withRule(condition string) string {
	return "default = \"deny\"\n" + names + "[[rule]]\nname = \"the rule\"\neffect = \"allow\"\nwhen = '''" + condition + "'''\n"
}

func TestConditions(t *testing.T) {
	expiring := func(r *Request) { r.Order.Expires = r.Now.Add(time.Minute) }
	for _, c := range []struct {
		condition string
		change    func(*Request)
		want      bool
	}{
		{`true`, nil, true},
		{`amount == amount("100")`, nil, true},
		{`amount != amount("100.0")`, nil, false},
		{`amount < amount("100.000001")`, nil, true},
		{`amount <= amount("100")`, nil, true},
		{`amount > amount("99.999999999999999999999999")`, nil, true},
		{`amount >= amount("100.1")`, nil, false},
		{`amount + amount + amount("0.3") == amount("200.3")`, nil, true},
		{`amount("0.1") + amount("0.2") == amount("0.3")`, nil, true},
		{`amount > amount("9007199254740992")`, ofAmount(t, "9007199254740993"), true},
		{`amount > amount(labels.most)`, labelled("most", "99"), true},
		{`address == address("` + strings.ToLower(evmAddress) + `")`, to(evmAddress), true},
		{`address != address("` + strings.ToLower(tronAddress) + `")`, nil, true},
		{`address in [address("` + strings.ToLower(evmAddress) + `")]`, to(evmAddress), true},
		{`address in known`, to(strings.ToLower(evmAddress)), true},
		{`address in known`, nil, true},
		{`address in known`, to(strings.ToLower(tronAddress)), false},
		{`address in known`, to("0X52908400098527886E0F7030069857D2E4169EE7"), true},
		{`address in none`, nil, false},
		{`symbol in known`, func(r *Request) { r.Order.Details.Symbol = strings.ToLower(evmAddress) }, false},
		{`address(symbol) in known`, func(r *Request) { r.Order.Details.Symbol = strings.ToLower(evmAddress) }, true},
		{`symbol == "USDT" && chainName == "TRON"`, nil, true},
		{`symbol.startsWith("US") && symbol.matches("^[A-Z]{3,5}$")`, nil, true},
		{`tenantUserId == "user-9" && callBackId == "w-1"`, nil, true},
		{`has(labels.tier) && labels.tier == "gold"`, nil, true},
		{`has(labels.tier) && labels.tier == "gold"`, labelled(), false},
		{`"tier" in labels && labels["tier"] == "gold"`, nil, true},
		{`labels.exists(k, k == "tier")`, nil, true},
		{`has(labels.x)`, func(r *Request) { r.Order.Labels = nil }, false},
		{`risk == 10`, nil, true},
		{`risk == 100`, labelled("riskLevel", "100"), true},
		{`now in day`, nil, true},
		{`now in day`, asOf(time.Date(2026, 7, 15, 16, 29, 59, 0, time.UTC)), true},
		{`now in day`, asOf(time.Date(2026, 7, 15, 16, 30, 0, 0, time.UTC)), false},
		{`createdAt in day`, nil, true},
		{`now.getHours("Europe/Berlin") == 12 && now.getDayOfWeek() == 3`, nil, true},
		{`now - createdAt == duration("1h")`, nil, true},
		{`expiresAt - now == duration("60s")`, expiring, true},
		{`expiresAt > timestamp("9999-01-01T00:00:00Z")`, nil, true},
		{`expiresAt > timestamp("9999-01-01T00:00:00Z")`, expiring, false},
	} {
		t.Run(c.condition, func(t *testing.T) {
			var changes []func(*Request)
			if c.change != nil {
				changes = append(changes, c.change)
			}
			got := decide(t, mustPolicy(t, withRule(c.condition)), someRequest(t, changes...))
			want := Ruling{Effect: Deny, Reason: "no rule matches: deny by default"}
			if c.want {
				want = Ruling{Effect: Allow, Rule: "the rule"}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// TestConditionsDoNotCompile: what cannot mean what its author thinks is refused
// when the file is read, with the rule's name and the place.
func TestConditionsDoNotCompile(t *testing.T) {
	for condition, want := range map[string]string{
		`amount > 1000.5`:                       `line 1, column 10: 1000.5 is no amount: write amount("1000.5")`,
		`amount > 1000`:                         `line 1, column 10: 1000 is no amount: write amount("1000")`,
		`1000u <= amount + amount`:              `line 1, column 1: 1000 is no amount: write amount("1000")`,
		`amount + 5 > amount("7")`:              `line 1, column 10: 5 is no amount: write amount("5")`,
		`amount > -5`:                           `line 1, column 10: -5 is no amount: write amount("…")`,
		`amount == "1000"`:                      `line 1, column 11: 1000 is no amount: write amount("1000")`,
		`amount > amount(1000)`:                 `line 1, column 16: calls amount without quotes`,
		`amount > amount("1e3")`:                `line 1, column 16: amount has an exponent`,
		`amount > amount("-1")`:                 `column 16: amount has a sign`,
		"true &&\n  amount > amount(\"1,000\")": `line 2, column 18: amount is not a decimal number`,
		`amount("5") > 4.0`:                     `4 is no amount: write amount("4")`,
		`double(labels.x) > double("1")`:        `calls double`,
		`dyn(amount) > dyn(1)`:                  `calls dyn`,
		`1 < 2.5`:                               `floating-point`,
		`amount - amount == amount`:             `no matching overload`,
		`amount * 2 > amount`:                   `no matching overload`,
		`address == "0x00"`:                     `line 1, column 12: 0x00 is no address: write address("0x00")`,
		`address == address("")`:                `holds an empty address`,
		`address in ["0x00"]`:                   `line 1, column 13: 0x00 is no address: write address("0x00")`,
		`address.startsWith("0x")`:              `no matching overload`,
		`amount in known`:                       `no matching overload`,
		`now in known`:                          `no matching overload`,
		`address in day`:                        `no matching overload`,
		`adress in known`:                       `line 1, column 1: undeclared reference to 'adress'`,
		`address in unknown`:                    `undeclared reference to 'unknown'`,
		`amounts("1") == amount`:                `undeclared reference to 'amounts'`,
		`symbol`:                                `is a condition of type string, not bool`,
		`amount > `:                             `line 1`,
		`symbol == "USDT" && `:                  `line 1`,
		`symbol in ["USDT", 5]`:                 ``,
		`labels.tier > 5`:                       `no matching overload`,
		`labels == 5`:                           `no matching overload`,
		`risk > "5"`:                            `no matching overload`,
		`risk > 5.0`:                            `floating-point`,
		`symbol.matches("(")`:                   `matches`,
		`now - createdAt > duration("1 hour")`:  `invalid duration argument`,
		`now > timestamp("yesterday")`:          `invalid timestamp argument`,
		strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300):           ``,
		`symbol == "` + strings.Repeat("x", maxExpression) + `"`:               `exceeds limit`,
		`symbol.matches("(((((((a{1,30}){1,30}){1,30}){1,30}){1,30}){1,30})")`: ``,
	} {
		_, err := Parse([]byte(withRule(condition)))
		var pe *Error
		switch {
		case err == nil:
			t.Errorf("%.80q compiles", condition)
		case !errors.Is(err, ErrFile) || !errors.As(err, &pe) || pe.Where != `rule 1 "the rule": when`:
			t.Errorf("%.80q: %v names no rule", condition, err)
		case !strings.Contains(err.Error(), want) || len(err.Error()) > 400:
			t.Errorf("%.80q: %v, want %q", condition, err, want)
		}
	}
}

// TestConditionsThatFailDeny: a rule that would allow never does so when it
// cannot be evaluated, and what comes after it is not reached.
func TestConditionsThatFailDeny(t *testing.T) {
	numbers := strings.TrimSuffix(strings.Repeat("1,", 100), ",")
	loops := fmt.Sprintf("[%s].all(a, [%s].all(b, [%s].all(c, a + b + c > 0)))", numbers, numbers, numbers)
	for _, c := range []struct {
		condition, want string
		change          func(*Request)
	}{
		{`labels.x == "y"`, "no such key", labelled()},
		{`risk < 50`, "the order has no label riskLevel", labelled()},
		{`risk < 50`, "no number from 0 to 100", labelled("riskLevel", "101")},
		{`risk < 50`, "no number from 0 to 100", labelled("riskLevel", "-1")},
		{`risk < 50`, "no number from 0 to 100", labelled("riskLevel", "low")},
		{`amount > amount(labels.most)`, "exponent", labelled("most", "1e3")},
		{`address == address(labels.to)`, "empty", labelled("to", "")},
		{`amount + amount > amount`, "78 digits", ofAmount(t, strings.Repeat("9", 78))},
		{`now.getHours("Nowhere/Land") > 5`, "", nil},
		{`1 / (risk - 10) > 0`, "division by zero", nil},
		{`int(labels.tier) > 0`, "", nil},
		{`known == none`, "lists do not compare", nil},
		{loops, "cost limit", nil},
	} {
		file := withRule(c.condition) + "[[rule]]\nname = \"next\"\nwhen = 'true'\neffect = \"allow\"\n"
		var changes []func(*Request)
		if c.change != nil {
			changes = append(changes, c.change)
		}
		got := decide(t, mustPolicy(t, file), someRequest(t, changes...))
		if got.Effect != Deny || got.Rule != "the rule" || !strings.HasPrefix(got.Reason, "cannot be evaluated: ") ||
			!strings.Contains(got.Reason, c.want) || strings.Contains(got.Reason, "\n") {
			t.Errorf("%.60q: %+v, want a Deny that says %q", c.condition, got, c.want)
		}
	}
	// The same in a limit's own condition.
	p := mustPolicy(t, "default = \"allow\"\n[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1000\"\nwhen = 'labels.x == \"y\"'\n")
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
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rules := mustPolicy(t, withRule("true"))
	if got, err := rules.Decide(ctx, someRequest(t)); !errors.Is(err, context.Canceled) || got.Effect != Deny {
		t.Errorf("ended context: %+v, %v", got, err)
	}
	// A symbol without a limit needs no sums.
	if got := decide(t, p, someRequest(t, failing, func(r *Request) { r.Order.Details.Symbol = "USDC" })); got.Effect != Allow {
		t.Errorf("%+v", got)
	}
}

// TestNoQuestion: neither policy allows what is no whole order.
func TestNoQuestion(t *testing.T) {
	policies := map[string]Policy{"exact orders": ExactOrders(), "file": mustPolicy(t, `default = "allow"`)}
	for name, change := range map[string]func(*Request){
		"no amount":     func(r *Request) { r.Order.Details.Amount = countersign.Amount{} },
		"amount 0":      ofAmount(t, "0.00"),
		"no address":    to(""),
		"no symbol":     func(r *Request) { r.Order.Details.Symbol = "" },
		"no chain":      func(r *Request) { r.Order.Details.ChainName = "" },
		"other user":    func(r *Request) { r.Withdrawal.TenantUserID = "user-8" },
		"no user":       by(""),
		"no callBackId": func(r *Request) { r.Withdrawal.CallBackID = "" },
		"no time":       asOf(time.Time{}),
		"expired":       func(r *Request) { r.Order.Expires = r.Now },
		"huge labels":   labelled("x", strings.Repeat("y", maxLabelBytes)),
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
	for _, e := range []Effect{Deny, Ask, Allow} {
		if got, err := ParseEffect(e.String()); err != nil || got != e {
			t.Errorf("%v: %v, %v", e, got, err)
		}
	}
	if e, err := ParseEffect("Allow"); err == nil || e != Deny {
		t.Errorf("Allow: %v, %v", e, err)
	}
	if s := Effect(7).String(); s != "Effect(7)" {
		t.Error(s)
	}
}

// TestSpellings: no spelling of an address gets off a list, none of a symbol gets past a
// limit, and what nobody sees is refused.
func TestSpellings(t *testing.T) {
	const blocked = "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c"
	p := mustPolicy(t, "default = \"allow\"\n[lists]\nbad = [\""+blocked+"\", \""+tronAddress+"\"]\n"+
		"[[rule]]\nname = \"blocked\"\nwhen = 'address in bad'\neffect = \"deny\"\n"+
		"[[limit]]\nname = \"each\"\nsymbol = \"USDT\"\nmax = \"10\"\n")
	to := func(address, symbol string) string {
		t.Helper()
		return decide(t, p, someRequest(t, func(r *Request) { r.Order.Details.Address, r.Order.Details.Symbol = address, symbol })).Why()
	}
	digits := blocked[2:]
	for _, address := range []string{blocked, "0X" + digits, digits, strings.ToUpper(digits), "xdc" + digits, "XDC" + strings.ToUpper(digits), tronAddress} {
		if got := to(address, "ETH"); got != "blocked" {
			t.Errorf("%s: %s", address, got)
		}
	}
	if got := to(strings.ToLower(tronAddress), "ETH"); got == "blocked" {
		t.Error("the case of a TRON address makes no difference")
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
	dust, err := countersign.ParseSum("999999999999." + strings.Repeat("0", 76) + "1")
	if err != nil {
		t.Fatal(err)
	}
	with := func(p Policy, symbol, amount string) Ruling {
		t.Helper()
		return decide(t, p, someRequest(t, func(r *Request) {
			r.Order.Details.Symbol, r.Order.Details.Amount = symbol, mustAmount(t, amount)
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
	for _, p := range []Policy{p, ExactOrders()} {
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
}
