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

// Unwrap makes errors.Is(err, ErrPolicy) true.
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
// before ask before allow. A window rolls: midnight lifts nothing. The sum in
// it is of what was confirmed, on all chains together; an order that waits for
// a person counts from when it is confirmed.
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
func Parse(file []byte) (*Rules, error) {
	p, err := parse(file)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func parse(file []byte) (*Rules, *Error) {
	root, err := readTOML(file)
	if err != nil {
		return nil, err
	}
	top := section{"", root}
	if err := top.known("default", "time-zone", "self-approval", "lists", "hours", "decimals", "rule", "limit"); err != nil {
		return nil, err
	}
	p := &Rules{source: string(file), named: map[string]ref.Val{}}
	if p.fallback, err = top.effect("default", Deny, Deny, Ask, Allow); err != nil {
		return nil, err
	}
	if p.self, err = top.flag("self-approval"); err != nil {
		return nil, err
	}
	if err := p.readNamed(top); err != nil {
		return nil, err
	}
	if p.decimals, err = top.decimals(); err != nil {
		return nil, err
	}
	env, err := fileEnv(p.named)
	if err != nil {
		return nil, err
	}
	if err := p.readRules(env, top); err != nil {
		return nil, err
	}
	if err := p.readLimits(env, top); err != nil {
		return nil, err
	}
	if !top.has("default") && len(p.rules) == 0 {
		return nil, &Error{Problem: "has neither a rule nor a default: it would deny everything"}
	}
	return p, nil
}

// fileEnv is baseEnv with the names of one file.
func fileEnv(named map[string]ref.Val) (*cel.Env, *Error) {
	base, err := baseEnv()
	if err != nil {
		return nil, &Error{Problem: brief(err.Error())}
	}
	var opts []cel.EnvOption
	for _, name := range slices.Sorted(maps.Keys(named)) {
		typ := listType
		if _, ok := named[name].(hoursValue); ok {
			typ = hoursType
		}
		opts = append(opts, cel.Variable(name, typ))
	}
	env, err := base.Extend(opts...)
	if err != nil {
		return nil, &Error{Problem: brief(err.Error())}
	}
	return env, nil
}

// readNamed reads [lists] and [hours], which share their names.
func (p *Rules) readNamed(top section) *Error {
	lists, err := top.table("lists")
	if err != nil {
		return err
	}
	for _, name := range lists.keys() {
		if err := p.checkName(lists, name); err != nil {
			return err
		}
		entries, err := lists.texts(name)
		if err != nil {
			return err
		}
		if slices.Contains(entries, "") {
			return lists.fail(name, "has an empty entry")
		}
		p.named[name] = newList(entries)
	}
	zone, err := top.zone("time-zone")
	if err != nil {
		return err
	}
	hours, err := top.table("hours")
	if err != nil {
		return err
	}
	for _, name := range hours.keys() {
		if err := p.checkName(hours, name); err != nil {
			return err
		}
		entries, err := hours.texts(name)
		if err != nil {
			return err
		}
		value := hoursValue{zone: zone}
		for _, e := range entries {
			s, err := parseSpan(e)
			if err != nil {
				return hours.fail(name, "%q %v", cut(e, 40), err)
			}
			value.spans = append(value.spans, s)
		}
		p.named[name] = value
	}
	return nil
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
func (p *Rules) checkName(s section, name string) *Error {
	_, variable := variables[name]
	_, taken := p.named[name]
	switch {
	case !namePattern.MatchString(name):
		return s.fail(name, "is no name: a small letter, then letters, digits and _, 64 at most")
	case variable || slices.Contains(celWords, name):
		return s.fail(name, "has a meaning of its own in conditions")
	case taken:
		return s.fail(name, "is the name of a list too")
	}
	return nil
}

func (p *Rules) readRules(env *cel.Env, top section) *Error {
	sections, err := top.tables("rule", maxRules)
	if err != nil {
		return err
	}
	for _, s := range sections {
		if err := s.known("name", "when", "effect", "reason"); err != nil {
			return err
		}
		var r rule
		if r.name, r.reason, err = s.titles(); err != nil {
			return err
		}
		when, err := s.condition(env)
		if err != nil {
			return err
		}
		if when == nil {
			return s.fail("when", "is missing")
		}
		r.when = *when
		if !s.has("effect") {
			return s.fail("effect", "is missing")
		}
		if r.effect, err = s.effect("effect", Deny, Deny, Ask, Allow); err != nil {
			return err
		}
		p.rules = append(p.rules, r)
	}
	return uniqueNames(sections)
}

func (p *Rules) readLimits(env *cel.Env, top section) *Error {
	sections, err := top.tables("limit", maxLimits)
	if err != nil {
		return err
	}
	for _, s := range sections {
		if err := s.known("name", "symbol", "max", "window", "per", "above", "when", "reason"); err != nil {
			return err
		}
		var l limit
		if l.name, l.reason, err = s.titles(); err != nil {
			return err
		}
		if l.symbol, err = s.text("symbol"); err != nil {
			return err
		}
		if l.symbol == "" {
			return s.fail("symbol", "is missing")
		}
		if l.max, err = s.amount("max"); err != nil {
			return err
		}
		if l.window, err = s.window("window"); err != nil {
			return err
		}
		switch per, err := s.text("per"); {
		case err != nil:
			return err
		case per != "" && l.window == 0:
			return s.fail("per", "has no meaning without window: an order alone is of one user")
		case per != "" && per != "tenant" && per != "all":
			return s.fail("per", "%q is neither tenant nor all", cut(per, 40))
		default:
			l.perTenant = per == "tenant"
		}
		if l.above, err = s.effect("above", Deny, Deny, Ask); err != nil {
			return err
		}
		if l.when, err = s.condition(env); err != nil {
			return err
		}
		if l.reason == "" {
			window, _ := s.text("window")
			l.reason = l.describe(window)
		}
		p.limits = append(p.limits, l)
	}
	return uniqueNames(sections)
}
