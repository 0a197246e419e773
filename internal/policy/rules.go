package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"countersign"
	"countersign/client"
)

// decideWithin bounds one Decide, the reading of sums included.
const decideWithin = 5 * time.Second

// errDecideTime is the cause where decideWithin has passed.
var errDecideTime = errors.New("policy: no decision in time")

// Rules is a policy file, ready to decide. It never changes; any number of
// goroutines may use it. See Parse for what it does.
type Rules struct {
	source    string // the file
	fallback  Effect
	approvals int  // of default = "ask"
	self      bool // SelfApproval
	rules     []rule
	limits    []limit
	decimals  map[string]int // by folded symbol
	doubts    []string       // of Warnings
}

// rule is one [[rule]] of the file.
type rule struct {
	name      string
	when      []condition // all must hold
	effect    Effect
	approvals int // where effect is Ask
	reason    string
}

// limit is one [[limit]] of the file.
type limit struct {
	name      string
	symbol    string
	perTenant bool
	window    time.Duration // 0: each order alone
	max       countersign.Amount
	above     Effect
	approvals int         // where above is Ask
	when      []condition // all must hold; none: always
	reason    string
}

var _ Policy = (*Rules)(nil)

// MayAsk implements Policy.
func (p *Rules) MayAsk() bool {
	return p.fallback == Ask || slices.ContainsFunc(p.rules, func(r rule) bool { return r.effect == Ask }) ||
		slices.ContainsFunc(p.limits, func(l limit) bool { return l.above == Ask })
}

// Decide implements Policy.
func (p *Rules) Decide(ctx context.Context, r Request) (Ruling, error) {
	if problem := r.problem(p.Decimals(r.Order.Details.Symbol)); problem != "" {
		return Ruling{Effect: Deny, Reason: problem}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, decideWithin, errDecideTime)
	defer cancel()
	ruling := p.byRules(&r)
	if ruling.Effect == Deny {
		return ruling, nil
	}
	return p.byLimits(ctx, &r, ruling)
}

// Source implements Policy.
func (p *Rules) Source() string { return p.source }

// SelfApproval implements Policy.
func (p *Rules) SelfApproval() bool { return p.self }

// Summary implements Policy.
func (p *Rules) Summary() string {
	own := "may not"
	if p.self {
		own = "may"
	}
	return fmt.Sprintf("%d rules, %d limits, default %v; the token that ordered %s approve", len(p.rules), len(p.limits), p.fallback, own)
}

// Decimals implements Policy.
func (p *Rules) Decimals(symbol string) int {
	if n, ok := p.decimals[countersign.FoldSymbol(symbol)]; ok {
		return n
	}
	return DefaultDecimals
}

// Warnings says what the file lets pass that its author may not have meant, a line each.
func (p *Rules) Warnings() []string {
	if p.fallback != Allow || len(p.limits) == 0 {
		return p.doubts
	}
	var symbols []string
	for _, l := range p.limits {
		if !slices.Contains(symbols, l.symbol) {
			symbols = append(symbols, l.symbol)
		}
	}
	return append([]string{fmt.Sprintf("default is allow: an order of another symbol than %s meets no limit, unless a rule denies it; "+
		`write default = "deny" and a rule that allows what you trade`, strings.Join(symbols, ", "))}, p.doubts...)
}

// byRules returns the effect of the first rule that matches, or the default.
func (p *Rules) byRules(r *Request) Ruling {
	for i := range p.rules {
		rule := &p.rules[i]
		matches, why, err := hold(rule.when, r)
		switch {
		case err != nil:
			r.trace("rule", rule.name, "cannot be evaluated, because "+err.Error()+": deny")
			return unable(rule.name, err)
		case matches:
			r.trace("rule", rule.name, "matches, "+why+": "+asks(rule.effect, rule.approvals))
			return Ruling{Effect: rule.effect, Approvals: rule.approvals, Rule: rule.name, Reason: cmp.Or(rule.reason, why)}
		}
		r.trace("rule", rule.name, "does not match: "+why)
	}
	return Ruling{Effect: p.fallback, Approvals: p.approvals, Reason: "no rule matches: " + asks(p.fallback, p.approvals) + " by default"}
}

// Table implements Policy.
func (p *Rules) Table() (rows []client.PolicyRow) {
	for _, r := range p.rules {
		rows = append(rows, client.PolicyRow{Kind: "rule", Name: r.name, When: words(r.when), Then: asks(r.effect, r.approvals), Reason: r.reason})
	}
	rows = append(rows, client.PolicyRow{Kind: "default", When: "no rule matches", Then: asks(p.fallback, p.approvals)})
	for i := range p.limits {
		l := &p.limits[i]
		always := condition{name: "symbol", wanted: l.symbol}
		rows = append(rows, client.PolicyRow{Kind: "limit", Name: l.name, When: words(append([]condition{always}, l.when...)),
			Then: l.describe() + ": " + asks(l.above, l.approvals), Reason: l.reason})
	}
	return rows
}

// asks is the word of an effect, with the number of persons where it is more than one.
func asks(e Effect, approvals int) string {
	if e == Ask && approvals > 1 {
		return fmt.Sprintf("ask %d persons", approvals)
	}
	return e.String()
}

// stricter reports whether an effect, with the persons that it asks, is stricter than another.
func stricter(e Effect, approvals int, other Effect, others int) bool {
	return e < other || e == Ask && other == Ask && approvals > others
}

// byLimits makes ruling as strict as the strictest limit that the order exceeds.
func (p *Rules) byLimits(ctx context.Context, r *Request, ruling Ruling) (Ruling, error) {
	sums := make(map[Limit]countersign.Sum, 1)
	var held []Limit
	for i := range p.limits {
		l := &p.limits[i]
		if !stricter(l.above, l.approvals, ruling.Effect, ruling.Approvals) {
			r.trace("limit", l.name, "changes nothing: "+asks(ruling.Effect, ruling.Approvals)+" already")
			continue
		}
		applies, why, err := l.applies(r)
		if err != nil {
			r.trace("limit", l.name, "cannot be evaluated, because "+err.Error()+": deny")
			return unable(l.name, err), nil
		}
		if !applies {
			r.trace("limit", l.name, "does not apply: "+why)
			continue
		}
		ceiling := l.ceiling(r)
		var spent countersign.Sum
		if l.window > 0 {
			key := Limit{Symbol: ceiling.Symbol, TenantUserID: ceiling.TenantUserID, Since: ceiling.Since}
			sum, known := sums[key]
			if !known {
				if sum, err = r.sum(ctx, key); err != nil {
					return Ruling{Effect: Deny, Rule: l.name, Reason: "the sums are not known"}, fmt.Errorf("policy: limit %q: %w", l.name, err)
				}
				sums[key] = sum
			}
			spent = sum
		}
		switch {
		case !ceiling.Holds(spent, r.Order.Details.Amount):
			ruling = Ruling{Effect: l.above, Approvals: l.approvals, Rule: l.name, Reason: l.reason}
			r.traceLimit(l, spent, "is exceeded: "+asks(l.above, l.approvals))
			continue
		case l.window > 0:
			held = append(held, ceiling)
		}
		r.traceLimit(l, spent, "holds")
	}
	// A limit that would not make it stricter need not hold.
	ruling.Limits = slices.DeleteFunc(held, func(l Limit) bool { return !stricter(l.Above, l.Approvals, ruling.Effect, ruling.Approvals) })
	return ruling, nil
}

var errNoSums = errors.New("no sums to look at")

func (r *Request) sum(ctx context.Context, l Limit) (countersign.Sum, error) {
	if r.Spent == nil {
		return countersign.Sum{}, errNoSums
	}
	return r.Spent(ctx, l.Symbol, l.TenantUserID, l.Since)
}

func (l *limit) applies(r *Request) (applies bool, why string, err error) {
	if symbol := r.Order.Details.Symbol; countersign.FoldSymbol(l.symbol) != countersign.FoldSymbol(symbol) {
		return false, "symbol is " + cut(symbol, 40) + ", not " + l.symbol, nil
	}
	return hold(l.when, r)
}

func (l *limit) ceiling(r *Request) Limit {
	c := Limit{Rule: l.name, Symbol: l.symbol, Max: l.max, Above: l.above, Approvals: l.approvals, Since: r.Now.Add(-l.window)}
	if l.perTenant {
		c.TenantUserID = r.Order.TenantUserID
	}
	return c
}

// unable is the Ruling for a condition that could not be evaluated: it denies,
// whatever the rule's effect.
func unable(name string, err error) Ruling {
	return Ruling{Effect: Deny, Rule: name, Reason: "cannot be evaluated: " + err.Error()}
}

// describe says in words what l does not let pass.
func (l *limit) describe() string {
	s := "above " + l.max.String() + " " + l.symbol
	if l.window > 0 {
		s += " in " + short(l.window)
	}
	if l.perTenant {
		s += " for one user"
	}
	return s
}
