package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/client"
)

// modelRule is a rule as the model sees it: texts and numbers, no condition compiled.
type modelRule struct {
	effect              Effect
	symbols, symbolsNot []string
	above, most         string // amounts; empty: none
	riskMin, riskMax    int    // below 0: none
	tier, tierNot       []string
	has, hasNot         []string
	users               string // names a list; ! before it: outside
	older, younger      int    // seconds; 0: none
}

// file writes m as a rule.
func (m modelRule) file(name int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[[rule]]\nname = \"%d\"\neffect = %q\n", name, m.effect)
	list := func(key string, list []string) {
		if list != nil {
			fmt.Fprintf(&b, "%s = [\"%s\"]\n", key, strings.Join(list, "\", \""))
		}
	}
	list("symbol", m.symbols)
	list("symbol-not", m.symbolsNot)
	list("label.tier", m.tier)
	list("label-not.tier", m.tierNot)
	list("labels", m.has)
	list("labels-not", m.hasNot)
	for key, text := range map[string]string{"amount-above": m.above, "amount-max": m.most} {
		if text != "" {
			fmt.Fprintf(&b, "%s = %q\n", key, text)
		}
	}
	for key, n := range map[string]int{"risk-min": m.riskMin, "risk-max": m.riskMax} {
		if n >= 0 {
			fmt.Fprintf(&b, "%s = %d\n", key, n)
		}
	}
	for key, n := range map[string]int{"age-min": m.older, "age-below": m.younger} {
		if n > 0 {
			fmt.Fprintf(&b, "%s = \"%ds\"\n", key, n)
		}
	}
	if name, not := strings.CutPrefix(m.users, "!"); not {
		fmt.Fprintf(&b, "user-not-in = %q\n", name)
	} else if name != "" {
		fmt.Fprintf(&b, "user-in = %q\n", name)
	}
	return b.String()
}

// matches is 1 where every condition holds, 0 where one does not, and -1 where none fails and one
// cannot be known.
func (m modelRule) matches(r Request, lists map[string][]string) int {
	said := []int{}
	say := func(is bool) {
		said = append(said, map[bool]int{true: 1}[is])
	}
	symbol := r.Order.Symbol
	if m.symbols != nil {
		say(slices.ContainsFunc(m.symbols, func(s string) bool { return s == symbol || m.effect != Allow && strings.EqualFold(s, symbol) }))
	}
	if m.symbolsNot != nil {
		say(!slices.ContainsFunc(m.symbolsNot, func(s string) bool { return s == symbol || m.effect == Allow && strings.EqualFold(s, symbol) }))
	}
	amount := ratOf(r.Order.Amount.String())
	if m.above != "" {
		say(amount.Cmp(ratOf(m.above)) > 0)
	}
	if m.most != "" {
		say(amount.Cmp(ratOf(m.most)) <= 0)
	}
	if m.riskMin >= 0 || m.riskMax >= 0 {
		risk := -1
		if n, err := fmt.Sscan(r.Order.Labels["riskLevel"], &risk); n != 1 || err != nil || risk > 100 {
			said = append(said, -1)
		} else {
			say((m.riskMin < 0 || risk >= m.riskMin) && (m.riskMax < 0 || risk <= m.riskMax))
		}
	}
	tier, has := r.Order.Labels["tier"]
	for list, in := range map[*[]string]bool{&m.tier: true, &m.tierNot: false} {
		switch {
		case *list == nil:
		case !has:
			said = append(said, -1)
		default:
			say(slices.Contains(*list, tier) == in)
		}
	}
	for _, name := range m.has {
		_, is := r.Order.Labels[name]
		say(is)
	}
	for _, name := range m.hasNot {
		_, is := r.Order.Labels[name]
		say(!is)
	}
	if name, not := strings.CutPrefix(m.users, "!"); name != "" {
		say(slices.Contains(lists[name], r.Order.TenantUserID) != not)
	}
	age := r.Now.Sub(r.Order.Created.Time())
	if m.older > 0 {
		say(age >= time.Duration(m.older)*time.Second)
	}
	if m.younger > 0 {
		say(age < time.Duration(m.younger)*time.Second)
	}
	switch {
	case slices.Contains(said, 0):
		return 0
	case slices.Contains(said, -1):
		return -1
	}
	return 1
}

// TestRulesAgreeWithModel: for any rules and any order, what the file decides is what a plain
// reading of its table decides.
func TestRulesAgreeWithModel(t *testing.T) {
	lists := map[string][]string{"a": {"u1", "u2"}, "b": {"u3"}}
	some := func(t *rapid.T, name string, of ...string) []string {
		if rapid.IntRange(0, 3).Draw(t, "has "+name) > 0 {
			return nil
		}
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 1, len(of), rapid.ID[string]).Draw(t, name)
	}
	bound := func(t *rapid.T, name string, most int) int {
		if rapid.IntRange(0, 4).Draw(t, "has "+name) > 0 {
			return -1
		}
		return rapid.IntRange(0, most).Draw(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		fallback := rapid.SampledFrom([]Effect{Deny, Ask, Allow}).Draw(t, "default")
		file := fmt.Sprintf("default = %q\n[lists]\na = [\"u1\", \"u2\"]\nb = [\"u3\"]\n", fallback)
		var rules []modelRule
		for i := range rapid.IntRange(0, 5).Draw(t, "rules") {
			m := modelRule{
				effect: rapid.SampledFrom([]Effect{Deny, Ask, Allow}).Draw(t, "effect"), symbols: some(t, "symbols", "USDT", "USDC", "ETH"), symbolsNot: some(t, "symbols not", "USDT", "usdc"),
				riskMin: bound(t, "risk min", 100), riskMax: bound(t, "risk max", 100), tier: some(t, "tier", "gold", "silver"), tierNot: some(t, "tier not", "gold", "tin"),
				has: some(t, "has", "tier", "riskLevel"), hasNot: some(t, "has not", "tier", "x"), users: rapid.SampledFrom([]string{"", "", "a", "!a", "b"}).Draw(t, "users"),
				older: bound(t, "older", 100), younger: bound(t, "younger", 100), above: rapid.SampledFrom([]string{"", "", "0", "5", "9.999"}).Draw(t, "above"),
			}
			m.most = rapid.SampledFrom([]string{"100", "10", "10.0", "5"}).Draw(t, "most") // a rule has a condition
			rules = append(rules, m)
			file += m.file(i)
		}
		p, err := Parse([]byte(file))
		if err != nil {
			t.Fatalf("%v of\n%s", err, file)
		}
		r := Request{Now: wednesday}
		r.Order.CallBackID, r.User = "w", rapid.SampledFrom([]string{"u1", "u3", "u4"}).Draw(t, "user")
		r.Order.TenantUserID, r.Order.Created = r.User, client.TimeOf(wednesday.Add(-time.Duration(rapid.IntRange(0, 120).Draw(t, "age"))*time.Second))
		r.Order.Address, r.Order.ChainName = "a", "c"
		r.Order.Symbol = rapid.SampledFrom([]string{"USDT", "usdt", "USDC", "ETH"}).Draw(t, "symbol")
		r.Order.Amount = mustAmount(t, rapid.SampledFrom([]string{"0.1", "5", "5.00", "10", "10.000000000000000001", "99"}).Draw(t, "amount"))
		r.Order.Labels = map[string]string{}
		for _, name := range []string{"riskLevel", "tier", "x"} {
			if text := rapid.SampledFrom([]string{"", "gold", "silver", "0", "50", "100", "101"}).Draw(t, name); text != "" {
				r.Order.Labels[name] = text
			}
		}
		want, by := fallback, ""
		for i, m := range rules {
			if came := m.matches(r, lists); came != 0 {
				want, by = m.effect, fmt.Sprint(i)
				if came < 0 {
					want = Deny
				}
				break
			}
		}
		got, err := p.Decide(t.Context(), r)
		if err != nil || got.Effect != want || got.Rule != by {
			t.Fatalf("%+v, %v, want %v by %q of\n%s", got, err, want, by, file)
		}
	})
}
