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

// decideWithin bounds one Decide, including the reading of sums.
const decideWithin = 5 * time.Second

// errDecideTime is the cause when decideWithin has passed.
var errDecideTime = errors.New("policy: no decision in time")

// Rules is a policy file that is ready to decide. It never changes and is safe for use by several goroutines. See
// Parse.
type Rules struct {
	source    string // the file; empty: ExactOrders
	otherwise Ruling // where no rule matches
	self      bool   // SelfApproval
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

// limit is one [[limit]] of the file: a rule for orders with which the sum exceeds max. Its first condition is its
// symbol.
type limit struct {
	rule
	symbol    string
	perTenant bool
	window    time.Duration // 0: each order alone
	max       countersign.Amount
}

// ExactOrders returns the policy without a file: it allows every order of the book that the request names correctly.
func ExactOrders() *Rules {
	return &Rules{otherwise: Ruling{Effect: Allow, Reason: "exact order"}}
}

// MayAsk reports whether a Ruling may be Ask. The service must then be able to ask again.
func (p *Rules) MayAsk() bool {
	return p.otherwise.Effect == Ask || slices.ContainsFunc(p.rules, func(r rule) bool { return r.effect == Ask }) ||
		slices.ContainsFunc(p.limits, func(l limit) bool { return l.effect == Ask })
}

// Decide decides whether an order may be confirmed. It does not know the order's state: the caller ensures that the
// order is open and agrees with the request, also at the moment when it becomes confirmed.
//
// The Ruling's Effect counts only if the error is nil; with an error it is Deny. An error means that the question could
// not be put (the store failed, or ctx ended) and may be put again: it is no refusal. A fault of a rule is a Deny
// without an error.
//
// An order that a person approved must be decided again when it is confirmed: the approval satisfies Ask, and never
// Deny.
func (p *Rules) Decide(ctx context.Context, r Request) (Ruling, error) {
	if problem := r.problem(p.Decimals(r.Order.Symbol)); problem != "" {
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

// Try decides on an order at now, or at the present time if now is zero. spent is what was confirmed before, in the
// window of every limit. An order without a time counts as created now. trace gets every rule and limit that was
// evaluated.
func (p *Rules) Try(o client.Order, now time.Time, spent countersign.Amount,
	trace func(client.PolicyStep)) (Ruling, error) {
	if now.IsZero() {
		now = time.Now().Truncate(time.Millisecond)
	}
	if o.Created == 0 {
		o.Created = client.TimeOf(now)
	}
	return p.Decide(context.Background(), Request{Order: o, Now: now, Trace: trace,
		Spent: func(context.Context, string, string, time.Time) (countersign.Sum, error) { return spent.Sum(), nil }})
}

// Source returns the text of the file for people, or "" if there is no file.
func (p *Rules) Source() string { return p.source }

// SelfApproval reports whether a token may approve a withdrawal that it ordered.
func (p *Rules) SelfApproval() bool { return p.self }

// Summary returns in one line what the policy contains.
func (p *Rules) Summary() string {
	if p.source == "" {
		return "no policy file: exact orders are confirmed and nothing else"
	}
	own := "may not"
	if p.self {
		own = "may"
	}
	return fmt.Sprintf("%d rules, %d limits, default %v; the token that ordered %s approve", len(p.rules), len(p.limits),
		p.otherwise.Effect, own)
}

// Decimals returns how many decimals the amount of an order may have.
func (p *Rules) Decimals(symbol string) int {
	if n, ok := p.decimals[countersign.FoldSymbol(symbol)]; ok {
		return n
	}
	return DefaultDecimals
}

// Warnings returns, a line each, what the file allows that its author may not have meant.
func (p *Rules) Warnings() []string {
	if p.otherwise.Effect != Allow || len(p.limits) == 0 {
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
			return r.unable("rule", rule.name, err)
		case matches:
			ruling := rule.ruling(why)
			r.trace(client.PolicyStep{Kind: "rule", Name: rule.name, Came: "matches, " + why + ": " + ruling.Word()})
			return ruling
		}
		r.trace(client.PolicyStep{Kind: "rule", Name: rule.name, Came: "does not match: " + why})
	}
	return p.otherwise
}

// Table returns the policy in words: a row for each rule, each limit and the default. Without a file it returns none.
func (p *Rules) Table() (rows []client.PolicyRow) {
	if p.source == "" {
		return nil
	}
	for _, r := range p.rules {
		rows = append(rows, client.PolicyRow{Kind: "rule", Name: r.name, When: words(r.when), Then: r.ruling("").Word(),
			Reason: r.reason})
	}
	rows = append(rows, client.PolicyRow{Kind: "default", When: "no rule matches", Then: p.otherwise.Word()})
	for _, l := range p.limits {
		rows = append(rows, client.PolicyRow{Kind: "limit", Name: l.name, When: words(l.when), Then: l.describe() + ": " +
			l.ruling("").Word(), Reason: l.reason})
	}
	return rows
}

// ruling returns what r decides if its conditions hold. why stands in for a reason that the file leaves out.
func (r *rule) ruling(why string) Ruling {
	return Ruling{Effect: r.effect, Approvals: r.approvals, Rule: r.name, Reason: cmp.Or(r.reason, why)}
}

// stricter reports whether an effect, with its number of approvals, is stricter than a ruling.
func stricter(e Effect, approvals int, than Ruling) bool {
	return e < than.Effect || e == Ask && than.Effect == Ask && approvals > than.Approvals
}

// byLimits returns ruling, made as strict as the strictest limit that the order exceeds.
func (p *Rules) byLimits(ctx context.Context, r *Request, ruling Ruling) (Ruling, error) {
	sums := make(map[Limit]countersign.Sum, 1)
	var held []Limit
	for i := range p.limits {
		l := &p.limits[i]
		step := client.PolicyStep{Kind: "limit", Name: l.name}
		if !stricter(l.effect, l.approvals, ruling) {
			step.Came = "changes nothing: " + ruling.Word() + " already"
			r.trace(step)
			continue
		}
		applies, why, err := hold(l.when, r)
		if err != nil {
			return r.unable("limit", l.name, err), nil
		}
		if !applies {
			step.Came = "does not apply: " + why
			r.trace(step)
			continue
		}
		ceiling := l.ceiling(r)
		step.Max = l.max
		var spent countersign.Sum
		if l.window > 0 {
			key := Limit{Symbol: ceiling.Symbol, TenantUserID: ceiling.TenantUserID, Since: ceiling.Since}
			sum, known := sums[key]
			if !known {
				if sum, err = r.sum(ctx, key); err != nil {
					return Ruling{Effect: Deny, Rule: l.name, Reason: "the sums are not known"},
						fmt.Errorf("policy: limit %q: %w", l.name, err)
				}
				sums[key] = sum
			}
			spent, step.Spent = sum, shown(sum)
		}
		step.Came = "holds"
		if !ceiling.Holds(spent, r.Order.Amount) {
			ruling = l.ruling("")
			step.Came = "is exceeded: " + ruling.Word()
		} else if l.window > 0 {
			held = append(held, ceiling)
		}
		r.trace(step)
	}
	// A limit that would not make the ruling stricter need not hold.
	ruling.Limits = slices.DeleteFunc(held, func(l Limit) bool { return !stricter(l.Above, l.Approvals, ruling) })
	return ruling, nil
}

// shown returns a sum as an amount, or no amount if it has too many digits for one.
func shown(s countersign.Sum) countersign.Amount {
	a, err := countersign.ParseAmount(s.String())
	if err != nil || !a.IsPositive() {
		return countersign.Amount{}
	}
	return a
}

func (r *Request) sum(ctx context.Context, l Limit) (countersign.Sum, error) {
	if r.Spent == nil {
		return countersign.Sum{}, errors.New("no sums to look at")
	}
	return r.Spent(ctx, l.Symbol, l.TenantUserID, l.Since)
}

func (l *limit) ceiling(r *Request) Limit {
	c := Limit{Rule: l.name, Symbol: l.symbol, Max: l.max, Above: l.effect, Approvals: l.approvals,
		Since: r.Now.Add(-l.window)}
	if l.perTenant {
		c.TenantUserID = r.Order.TenantUserID
	}
	return c
}

// unable returns the Ruling for a condition that could not be evaluated: it denies, whatever the rule's effect.
func (r *Request) unable(kind, name string, err error) Ruling {
	r.trace(client.PolicyStep{Kind: kind, Name: name, Came: "cannot be evaluated, because " + err.Error() + ": deny"})
	return Ruling{Effect: Deny, Rule: name, Reason: "cannot be evaluated: " + err.Error()}
}

// describe returns in words what l stops.
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
