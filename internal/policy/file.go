package policy

import (
	"cmp"
	"slices"
	"strings"
	_ "time/tzdata" // time zones must not depend on what the machine has installed

	"countersign"
)

// Parse reads a policy file and refuses what it does not understand. Its errors are of type *Error.
// docs/merchant/policy.md describes the file.
func Parse(file []byte) (p *Rules, err error) {
	// The functions that read the file panic with the first *Error.
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			p, err = nil, e
		default:
			panic(e)
		}
	}()
	return parse(file), nil
}

func parse(file []byte) *Rules {
	top := section{m: readTOML(file)}
	top.known("default", "time-zone", "self-approval", "approvals", "lists", "hours", "decimals", "rule", "limit")
	p := &Rules{source: string(file)}
	p.otherwise.Effect = top.effect("default", Deny, Ask, Allow)
	p.otherwise.Approvals = top.approvals("approvals", p.otherwise.Effect, 1)
	p.otherwise.Reason = "no rule matches: " + p.otherwise.Word() + " by default"
	p.self = top.flag("self-approval")
	p.decimals = top.decimals()
	f := readNamed(top)
	p.readRules(f, top)
	p.readLimits(f, top)
	p.doubts = f.doubts
	if !top.has("default") && len(p.rules) == 0 {
		panic(&Error{Problem: "has neither a rule nor a default: it would deny everything"})
	}
	return p
}

// readNamed reads [lists] and [hours].
func readNamed(top section) *reader {
	f := &reader{lists: map[string][]string{}, hours: map[string]hours{}}
	lists := top.table("lists")
	for _, name := range lists.keys() {
		f.lists[name] = lists.texts(name)
		if slices.Contains(f.lists[name], "") {
			lists.fail(name, "has an empty entry")
		}
	}
	zone := top.zone("time-zone")
	named := top.table("hours")
	for _, name := range named.keys() {
		value := hours{zone: zone}
		for _, e := range named.texts(name) {
			s, err := parseSpan(e)
			if err != nil {
				named.fail(name, "%q %v", cut(e, 40), err)
			}
			value.spans = append(value.spans, s)
		}
		f.hours[name] = value
	}
	return f
}

// known refuses every key that is neither one of keys nor, in a rule or limit, of a condition: a misspelt "above" must
// not leave a limit at its default.
func (s section) known(keys ...string) {
	if strings.HasPrefix(s.head, "[[") {
		keys = append(keys, conditionKeys...)
	}
	if s.has("when") {
		s.fail("when", oldForm)
	}
	for _, k := range s.keys() {
		if !slices.Contains(keys, k) {
			slices.Sort(keys)
			s.fail(k, "is not a key here; the keys are %s", strings.Join(keys, ", "))
		}
	}
}

// oldForm is the error for a condition in the old expression language.
const oldForm = `is not a key here: write each condition as a key of its own, and all of them must hold, such as symbol = ["USDT"], chain-not = ["TRON"], ` +
	`amount-above = "1000", address-in = "LIST", hours-not = "HOURS", risk-max = 40, age-min = "30m", label.tier = ["gold"]; "or" is a second rule (docs/merchant/policy.md)`

func (p *Rules) readRules(f *reader, top section) {
	for _, s := range top.tables("rule", maxRules) {
		s.known("name", "effect", "approvals", "reason", "symbol", "symbol-not")
		s.needs("effect")
		r := s.rule(top, s.effect("effect", Deny, Ask, Allow))
		r.when = f.conditions(s, r.effect)
		if len(r.when) == 0 {
			s.fail("name", "the rule has no condition: write default = %q at the top if it is for every order", r.effect)
		}
		p.rules = append(p.rules, r)
	}
}

// rule reads the members of rules and limits other than conditions.
func (s section) rule(top section, effect Effect) rule {
	return rule{name: s.text("name"), reason: s.text("reason"), effect: effect,
		approvals: s.approvals("approvals", effect, top.number("approvals", 1, maxApprovals, 1))}
}

func (p *Rules) readLimits(f *reader, top section) {
	for _, s := range top.tables("limit", maxLimits) {
		s.known("name", "symbol", "max", "window", "per", "above", "approvals", "reason")
		s.needs("symbol", "max")
		l := limit{rule: s.rule(top, s.effect("above", Deny, Ask)), symbol: s.text("symbol"), max: s.amount("max"),
			window: s.span("window")}
		s.visible("symbol", l.symbol)
		l.when = append([]condition{{"symbol", l.symbol, func(r *Request) (string, bool, error) {
			symbol := r.Order.Symbol
			return symbol, countersign.FoldSymbol(symbol) == countersign.FoldSymbol(l.symbol), nil
		}}}, f.conditions(s, Deny)...)
		switch per := s.text("per"); {
		case per != "" && l.window == 0:
			s.fail("per", "needs window: a single order has one user")
		case per != "" && per != "tenant" && per != "all":
			s.fail("per", "%q is neither tenant nor all", cut(per, 40))
		default:
			l.perTenant = per == "tenant"
		}
		l.reason = cmp.Or(l.reason, l.describe())
		p.limits = append(p.limits, l)
	}
}
