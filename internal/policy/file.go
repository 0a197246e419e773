package policy

import (
	"errors"
	"fmt"
	"slices"
	_ "time/tzdata" // time zones must not depend on what the machine has installed
)

// ErrFile is what every error of Parse wraps.
var ErrFile = errors.New("policy file")

// Error says where a policy file is wrong and how.
type Error struct {
	Where   string // such as `rule 3 "large"`, with the key; empty: the file itself
	Line    int    // from 1; 0: not known
	Problem string // what is wrong, and what to write
}

func (e *Error) Error() string {
	text := ErrFile.Error()
	if e.Line > 0 {
		text += fmt.Sprintf(": line %d", e.Line)
	}
	if e.Where != "" {
		text += ": " + e.Where
	}
	return text + ": " + e.Problem
}

// Unwrap makes errors.Is(err, ErrFile) true.
func (e *Error) Unwrap() error { return ErrFile }

// Parse reads a policy file and refuses what it does not understand. Errors are a *Error.
// docs/policy.md describes the file.
func Parse(file []byte) (p *Rules, err error) {
	// What reads the file panics with the first *Error.
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
	top := section{m: readTOML(file), file: file}
	top.known("default", "time-zone", "self-approval", "approvals", "lists", "hours", "decimals", "rule", "limit")
	p := &Rules{source: string(file)}
	p.fallback = top.effect("default", Deny, Ask, Allow)
	p.self = top.flag("self-approval")
	p.approvals = top.approvals("approvals", p.fallback, 1)
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

// oldForm answers a condition of a language.
const oldForm = `is not read: each condition is a key of its own, and all of them must hold, such as symbol = ["USDT"], chain-not = ["TRON"], ` +
	`amount-above = "1000", address-in = "LIST", hours-not = "HOURS", risk-max = 40, age-min = "30m", label.tier = ["gold"]; "or" is a second rule (docs/policy.md)`

func (p *Rules) readRules(f *reader, top section) {
	sections := top.tables("rule", maxRules)
	for _, s := range sections {
		if s.has("when") {
			s.fail("when", oldForm)
		}
		s.known(append([]string{"name", "effect", "approvals", "reason", "symbol", "symbol-not"}, conditionKeys...)...)
		s.needs("name")
		r := rule{name: s.text("name"), reason: s.text("reason")}
		s.needs("effect")
		r.effect = s.effect("effect", Deny, Ask, Allow)
		r.when = f.conditions(s, r.effect)
		if len(r.when) == 0 {
			s.fail("name", "the rule has no condition: write default = %q at the top if it is for every order", r.effect)
		}
		r.approvals = s.approvals("approvals", r.effect, top.number("approvals", 1, maxApprovals, 1))
		p.rules = append(p.rules, r)
	}
	uniqueNames(sections)
}

func (p *Rules) readLimits(f *reader, top section) {
	sections := top.tables("limit", maxLimits)
	for _, s := range sections {
		if s.has("when") {
			s.fail("when", oldForm)
		}
		s.known(append([]string{"name", "symbol", "max", "window", "per", "above", "approvals", "reason"}, conditionKeys...)...)
		s.needs("name", "symbol", "max")
		l := limit{name: s.text("name"), reason: s.text("reason"), symbol: s.text("symbol"), max: s.amount("max"), window: s.span("window"),
			above: s.effect("above", Deny, Ask), when: f.conditions(s, Deny)}
		s.visible("symbol", l.symbol)
		l.approvals = s.approvals("approvals", l.above, top.number("approvals", 1, maxApprovals, 1))
		switch per := s.text("per"); {
		case per != "" && l.window == 0:
			s.fail("per", "has no meaning without window: an order alone is of one user")
		case per != "" && per != "tenant" && per != "all":
			s.fail("per", "%q is neither tenant nor all", cut(per, 40))
		default:
			l.perTenant = per == "tenant"
		}
		if l.reason == "" {
			l.reason = l.describe()
		}
		p.limits = append(p.limits, l)
	}
	uniqueNames(sections)
}
