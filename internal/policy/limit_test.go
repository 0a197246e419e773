package policy

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign"
)

// confirmed is an order that was confirmed.
type confirmed struct {
	symbol, user, amount string
	at                   time.Time
}

// ledger keeps what was confirmed, and gives sums as a store would.
type ledger struct{ entries []confirmed }

func (b *ledger) spent(_ context.Context, symbol, user string, since time.Time) (countersign.Sum, error) {
	var sum countersign.Sum
	for _, e := range b.entries {
		if e.symbol != symbol || user != "" && e.user != user || e.at.Before(since) {
			continue
		}
		a, err := countersign.ParseAmount(e.amount)
		if err != nil {
			return countersign.Sum{}, err
		}
		sum = sum.Plus(a.Sum())
	}
	return sum, nil
}

func genAmount(whole, frac int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		s := rapid.StringMatching(fmt.Sprintf(`[1-9][0-9]{0,%d}`, whole-1)).Draw(t, "whole")
		if f := rapid.StringMatching(fmt.Sprintf(`[0-9]{0,%d}`, frac)).Draw(t, "fraction"); f != "" {
			s += "." + f
		}
		return s
	})
}

func ratOf(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("no number: " + s)
	}
	return r
}

// TestLimitsAgreeWithBigRat: for any limits and any history, what the limits say
// is what exact fractions say.
func TestLimitsAgreeWithBigRat(t *testing.T) {
	symbols, users := []string{"USDT", "USDC"}, []string{"u1", "u2"}
	windows := []string{"", "1h", "24h"}
	rapid.Check(t, func(t *rapid.T) {
		type spec struct {
			symbol, max, window, per string
			above                    Effect
		}
		amounts := genAmount(4, 20)
		file := strings.Builder{}
		fallback := rapid.SampledFrom([]Effect{Deny, Ask, Allow}).Draw(t, "default")
		fmt.Fprintf(&file, "default = %q\n[decimals]\nUSDT = 20\nUSDC = 20\n", fallback)
		var specs []spec
		for i := range rapid.IntRange(0, 5).Draw(t, "limits") {
			s := spec{
				symbol: rapid.SampledFrom(symbols).Draw(t, "symbol"), max: amounts.Draw(t, "max"),
				window: rapid.SampledFrom(windows).Draw(t, "window"), above: rapid.SampledFrom([]Effect{Deny, Ask}).Draw(t, "above"),
			}
			fmt.Fprintf(&file, "[[limit]]\nname = \"%d\"\nsymbol = %q\nmax = %q\nabove = %q\n", i, s.symbol, s.max, s.above)
			if s.window != "" {
				s.per = rapid.SampledFrom([]string{"all", "tenant"}).Draw(t, "per")
				fmt.Fprintf(&file, "window = %q\nper = %q\n", s.window, s.per)
			}
			specs = append(specs, s)
		}
		p := must(Parse([]byte(file.String())))(t)
		b := &ledger{}
		for range rapid.IntRange(0, 8).Draw(t, "history") {
			b.entries = append(b.entries, confirmed{
				rapid.SampledFrom(symbols).Draw(t, "symbol"), rapid.SampledFrom(users).Draw(t, "user"), amounts.Draw(t, "amount"),
				wednesday.Add(-rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, time.Hour + 1, 24 * time.Hour, 24*time.Hour + 1}).Draw(t, "ago")),
			})
		}
		r := Request{Now: wednesday, Spent: b.spent}
		r.Order.CallBackID, r.User = "w", rapid.SampledFrom(users).Draw(t, "user")
		r.Order.TenantUserID = r.User
		amount := amounts.Draw(t, "amount")
		r.Order.Address, r.Order.ChainName, r.Order.Symbol = "a", "c", rapid.SampledFrom(symbols).Draw(t, "symbol")
		r.Order.Amount = must(countersign.ParseAmount(amount))(t)

		want := fallback
		for _, s := range specs {
			if s.symbol != r.Order.Symbol {
				continue
			}
			sum := ratOf(amount)
			if s.window != "" {
				d, _ := time.ParseDuration(s.window)
				for _, e := range b.entries {
					if e.symbol == s.symbol && (s.per == "all" || e.user == r.Order.TenantUserID) && !e.at.Before(wednesday.Add(-d)) {
						sum.Add(sum, ratOf(e.amount))
					}
				}
			}
			if sum.Cmp(ratOf(s.max)) > 0 {
				want = min(want, s.above)
			}
		}
		got, err := p.Decide(context.Background(), r)
		if err != nil || got.Effect != want {
			t.Fatalf("%+v, %v, want %v of\n%s", got, err, want, file.String())
		}

		// The ruling names the ceilings that it rests on: those that could make
		// it stricter, all of which hold.
		named := 0
		for _, s := range specs {
			if s.symbol == r.Order.Symbol && s.window != "" && s.above < want {
				named++
			}
		}
		if len(got.Limits) != named {
			t.Fatalf("%+v names %d limits, want %d", got, len(got.Limits), named)
		}
		for _, l := range got.Limits {
			sum := must(b.spent(context.Background(), l.Symbol, l.TenantUserID, l.Since))(t)
			if !l.Holds(sum, r.Order.Amount) || l.Above >= got.Effect {
				t.Fatalf("%+v, yet %+v", l, got)
			}
		}
	})
}

// TestWindow: a window begins exactly its length ago, whatever midnight does.
func TestWindow(t *testing.T) {
	p := mustPolicy(t, "default = \"allow\"\n[[limit]]\nname = \"day\"\nsymbol = \"USDT\"\nmax = \"100\"\nwindow = \"24h\"\nper = \"tenant\"\n")
	for ago, want := range map[time.Duration]Effect{
		0: Deny, 13 * time.Hour: Deny, 24 * time.Hour: Deny, 24*time.Hour + 1: Allow, 30 * time.Hour: Allow,
	} {
		b := &ledger{entries: []confirmed{{"USDT", "user-9", "0.000001", wednesday.Add(-ago)}}}
		r := someRequest(t, func(r *Request) { r.Spent = b.spent })
		if got := decide(t, p, r); got.Effect != want || want == Deny && got.Reason != "above 100 USDT in 24h for one user" {
			t.Errorf("%v ago: %+v", ago, got)
		}
	}
	got := decide(t, p, someRequest(t, func(r *Request) { r.Spent = (&ledger{}).spent }))
	if want := (Limit{Rule: "day", Symbol: "USDT", TenantUserID: "user-9", Since: wednesday.Add(-24 * time.Hour),
		Max: mustAmount(t, "100"), Above: Deny}); len(got.Limits) != 1 || got.Limits[0] != want {
		t.Errorf("%+v", got)
	}
}

func TestLimitHolds(t *testing.T) {
	huge := mustAmount(t, strings.Repeat("9", 78))
	l := Limit{Max: huge}
	none := countersign.Amount{}
	for _, c := range []struct {
		spent, amount countersign.Amount
		want          bool
	}{
		{none, huge, true},
		{mustAmount(t, "1"), huge, false}, // more digits than an amount has
		{huge, none, false},
		{mustAmount(t, "0.00"), huge, true},
		{mustAmount(t, "0.1"), huge, false},
	} {
		if got := l.Holds(c.spent.Sum(), c.amount); got != c.want {
			t.Errorf("%v + %v: %v", c.spent, c.amount, got)
		}
	}
	if (Limit{}).Holds(none.Sum(), mustAmount(t, "1")) {
		t.Error("a limit without Max holds")
	}
}

// TestApprovals: as many persons are asked as the strictest of all that asks wants.
func TestApprovals(t *testing.T) {
	const top = "default = \"ask\"\napprovals = 2\n"
	rule := func(name, above string, approvals int) string {
		text := fmt.Sprintf("[[rule]]\nname = %q\namount-above = %q\neffect = \"ask\"\n", name, above)
		if approvals > 0 {
			text += fmt.Sprintf("approvals = %d\n", approvals)
		}
		return text
	}
	limit := func(name, most, above string, approvals int) string {
		text := fmt.Sprintf("[[limit]]\nname = %q\nsymbol = \"USDT\"\nmax = %q\nwindow = \"24h\"\nabove = %q\n", name, most, above)
		if approvals > 0 {
			text += fmt.Sprintf("approvals = %d\n", approvals)
		}
		return text
	}
	for _, c := range []struct {
		file, amount string
		effect       Effect
		approvals    int
		by           string
		limits       int
	}{
		{"default = \"ask\"\n", "5", Ask, 1, "", 0},
		{top, "5", Ask, 2, "", 0},
		{top + rule("r", "1", 0), "5", Ask, 2, "r", 0},
		{top + rule("r", "1", 1), "5", Ask, 1, "r", 0},
		{allowAll + "approvals = 3\n", "5", Allow, 0, "", 0},
		{allowAll + rule("r", "1", 3), "5", Ask, 3, "r", 0},
		{allowAll + rule("r", "1", 1) + limit("l", "4", "ask", 2), "5", Ask, 2, "l", 0},
		{allowAll + rule("r", "1", 3) + limit("l", "4", "ask", 2), "5", Ask, 3, "r", 0},
		// What would ask more if it were exceeded must hold when the order is confirmed.
		{allowAll + rule("r", "1", 1) + limit("l", "9", "ask", 2), "5", Ask, 1, "r", 1},
		{allowAll + rule("r", "1", 2) + limit("l", "9", "ask", 2), "5", Ask, 2, "r", 0},
		{allowAll + limit("l", "1", "ask", 2) + limit("m", "2", "ask", 4) + limit("n", "3", "ask", 3), "5", Ask, 4, "m", 0},
		{allowAll + limit("l", "1", "ask", 9) + limit("m", "2", "deny", 0), "5", Deny, 0, "m", 0},
	} {
		p, err := Parse([]byte(c.file))
		if err != nil {
			t.Errorf("%s\n%v", c.file, err)
			continue
		}
		r := someRequest(t, func(r *Request) {
			r.Order.Symbol = "USDT"
			r.Order.Amount, _ = countersign.ParseAmount(c.amount)
		})
		r.Spent = func(context.Context, string, string, time.Time) (countersign.Sum, error) {
			return countersign.Sum{}, nil
		}
		got, err := p.Decide(t.Context(), r)
		if err != nil || got.Effect != c.effect || got.Approvals != c.approvals || got.Rule != c.by || len(got.Limits) != c.limits {
			t.Errorf("%s\n%+v, %v; want %v by %d persons, decided by %q, %d limits", c.file, got, err, c.effect, c.approvals, c.by, c.limits)
		}
	}
}
