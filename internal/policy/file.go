package policy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	_ "time/tzdata" // time zones must not depend on what the machine has installed

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
)

// ErrFile is what every error of Parse wraps.
var ErrFile = errors.New("policy file")

// Error says where a policy file is wrong and how.
type Error struct {
	Where string // such as `rule 3 "large"`, with the key; empty: the file itself
	// Line and Column count from 1. With Where they count in the expression,
	// without in the file. 0: not known.
	Line, Column int
	Problem      string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(ErrFile.Error())
	if e.Where != "" {
		b.WriteString(": " + e.Where)
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, ": line %d, column %d", e.Line, e.Column)
	}
	return b.String() + ": " + e.Problem
}

// Unwrap makes errors.Is(err, ErrFile) true.
func (e *Error) Unwrap() error { return ErrFile }

// Parse reads a policy file, compiles all of it and refuses what it does
// not understand. Errors are a *Error.
//
// A file is TOML:
//
//	default = "deny"                  # deny, ask or allow; where no rule matches
//	time-zone = "Europe/Berlin"       # of the hours; UTC where absent
//	self-approval = false             # true: the token that ordered may approve its order
//
//	[lists]                           # names for lists of addresses or texts
//	treasury = ["TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"]
//
//	[hours]                           # names for hours of the week
//	office = ["mon-fri 08:00-18:00", "sat 10:00-12:30"]
//
//	[decimals]                        # digits after the point of an order's amount; 18 where absent
//	USDT = 6
//
//	[[rule]]                          # from top to bottom: the first that matches decides
//	name = "known symbols only"
//	when = '!(symbol in ["USDT", "USDC"])'
//	effect = "deny"
//	reason = "symbol is not traded"   # for people; may be absent
//	approvals = 2                     # of effect ask: by how many persons; absent: as at the top, or 1
//
//	[[limit]]                         # ceilings; they make a ruling stricter, never milder
//	name = "USDT a day and user"
//	symbol = "USDT"                   # in any case of its letters: usdt too
//	max = "10000"                     # exact; what is above it is not allowed
//	window = "24h"                    # the last 24 hours, to the moment; absent: each order alone
//	per = "tenant"                    # each tenantUserId for itself; or "all", the default
//	above = "ask"                     # ask or deny, the default
//	when = 'chainName != "TRON"'      # absent: always
//
// An order meets the first rule whose condition is true, or else the default;
// then every limit of its symbol. The strictest of all that is the ruling: deny
// before ask before allow. A window rolls: midnight lifts nothing. Its sum has
// the confirmed orders of all chains; an order that waits for a person counts from its
// confirmation.
//
// Conditions are CEL over these variables:
//
//	amount        exact; amount("1000.5") writes one; + < <= > >= == !=
//	address       where to; address("0x…") writes one; == != and in [LIST]. 0x, 0X, xdc or nothing
//	              before 40 hexadecimal digits of any case is one address; others count exactly
//	symbol, chainName, tenantUserId, callBackId    texts, compared exactly
//	labels        texts by name; has(labels.x) asks whether there is one
//	risk          label riskLevel as a number from 0 to 100
//	now, createdAt, expiresAt     times; expiresAt is the end of the year 9999 for never
//
// and the names of the file: address in treasury, tenantUserId in staff, now in
// office. There are no floating-point numbers. A condition that cannot be
// evaluated (a label that is not there, a cost above the bound) denies.
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
	top := section{"", readTOML(file)}
	top.known("default", "time-zone", "self-approval", "approvals", "lists", "hours", "decimals", "rule", "limit")
	p := &Rules{source: string(file), named: map[string]ref.Val{}}
	p.fallback = top.effect("default", Deny, Ask, Allow)
	p.self = top.flag("self-approval")
	p.approvals = top.approvals("approvals", p.fallback, 1)
	p.readNamed(top)
	p.decimals = top.decimals()
	env := fileEnv(p.named)
	p.readRules(env, top)
	p.readLimits(env, top)
	if !top.has("default") && len(p.rules) == 0 {
		panic(&Error{Problem: "has neither a rule nor a default: it would deny everything"})
	}
	return p
}

// fileEnv is baseEnv with the names of one file.
func fileEnv(named map[string]ref.Val) *cel.Env {
	env, err := baseEnv()
	if err == nil {
		var opts []cel.EnvOption
		for _, name := range slices.Sorted(maps.Keys(named)) {
			typ := listType
			if _, ok := named[name].(hoursValue); ok {
				typ = hoursType
			}
			opts = append(opts, cel.Variable(name, typ))
		}
		env, err = env.Extend(opts...)
	}
	if err != nil {
		panic(&Error{Problem: brief(err.Error())})
	}
	return env
}

// readNamed reads [lists] and [hours], which share their names.
func (p *Rules) readNamed(top section) {
	lists := top.table("lists")
	for _, name := range lists.keys() {
		p.checkName(lists, name)
		entries := lists.texts(name)
		if slices.Contains(entries, "") {
			lists.fail(name, "has an empty entry")
		}
		p.named[name] = newList(entries)
	}
	zone := top.zone("time-zone")
	hours := top.table("hours")
	for _, name := range hours.keys() {
		p.checkName(hours, name)
		value := hoursValue{zone: zone}
		for _, e := range hours.texts(name) {
			s, err := parseSpan(e)
			if err != nil {
				hours.fail(name, "%q %v", cut(e, 40), err)
			}
			value.spans = append(value.spans, s)
		}
		p.named[name] = value
	}
}

var namePattern = regexp.MustCompile(`^[a-z][A-Za-z0-9_]{0,63}$`)

// celWords are the words that CEL keeps for itself, and its types.
var celWords = []string{
	"as", "bool", "break", "bytes", "const", "continue", "double", "dyn", "else", "false", "for", "function", "if", "import",
	"in", "int", "let", "list", "loop", "map", "namespace", "null", "null_type", "package", "return", "string", "true", "type",
	"uint", "var", "void", "while",
}

// checkName refuses a name that expressions could not use, or that would stand
// for two things.
func (p *Rules) checkName(s section, name string) {
	_, variable := variables[name]
	_, taken := p.named[name]
	switch {
	case !namePattern.MatchString(name):
		s.fail(name, "is no name: a small letter, then letters, digits and _, 64 at most")
	case variable || slices.Contains(celWords, name):
		s.fail(name, "has a meaning of its own in conditions")
	case taken:
		s.fail(name, "is the name of a list too")
	}
}

func (p *Rules) readRules(env *cel.Env, top section) {
	sections := top.tables("rule", maxRules)
	for _, s := range sections {
		s.known("name", "when", "effect", "approvals", "reason")
		s.needs("name")
		r := rule{name: s.text("name"), reason: s.text("reason")}
		s.needs("when", "effect")
		r.when, r.effect = *s.condition(env), s.effect("effect", Deny, Ask, Allow)
		r.approvals = s.approvals("approvals", r.effect, top.number("approvals", 1))
		p.rules = append(p.rules, r)
	}
	uniqueNames(sections)
}

func (p *Rules) readLimits(env *cel.Env, top section) {
	sections := top.tables("limit", maxLimits)
	for _, s := range sections {
		s.known("name", "symbol", "max", "window", "per", "above", "approvals", "when", "reason")
		s.needs("name", "symbol", "max")
		l := limit{
			name: s.text("name"), reason: s.text("reason"), symbol: s.text("symbol"), max: s.amount("max"), window: s.window("window"),
			above: s.effect("above", Deny, Ask), when: s.condition(env),
		}
		l.approvals = s.approvals("approvals", l.above, top.number("approvals", 1))
		switch per := s.text("per"); {
		case per != "" && l.window == 0:
			s.fail("per", "has no meaning without window: an order alone is of one user")
		case per != "" && per != "tenant" && per != "all":
			s.fail("per", "%q is neither tenant nor all", cut(per, 40))
		default:
			l.perTenant = per == "tenant"
		}
		if l.reason == "" {
			l.reason = l.describe(s.text("window"))
		}
		p.limits = append(p.limits, l)
	}
	uniqueNames(sections)
}
