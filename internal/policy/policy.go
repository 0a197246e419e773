// Package policy decides on orders by a file of rules and limits. It is pure: each question brings what it needs.
package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"countersign"
	"countersign/client"
)

// Effect is what a policy decides on a withdrawal (PROTOCOL.md, Decision). The zero Effect denies, so that an empty
// Ruling moves no money.
type Effect int

// The effects, the strictest first.
const (
	Deny  Effect = iota // refuse for good: errCode 2003
	Ask                 // a person decides: errCode 3001 until then
	Allow               // nothing stands against it
)

var effectNames = [...]string{Deny: "deny", Ask: "ask", Allow: "allow"}

// String returns the word for e in a policy file.
func (e Effect) String() string {
	if e < Deny || e > Allow {
		return fmt.Sprintf("Effect(%d)", int(e))
	}
	return effectNames[e]
}

// SpentFunc returns the exact sum of the amounts of symbol confirmed at since or later, on all chains, without the
// order in question. An empty tenantUserID stands for all users together.
type SpentFunc func(ctx context.Context, symbol, tenantUserID string, since time.Time) (countersign.Sum, error)

// Request is one question to a policy.
type Request struct {
	Order client.Order // as the book has it; its state is not looked at
	User  string       // the tenantUserId that the service names; empty: it names none
	Now   time.Time    // required; policies read no clock
	// Spent is required by policies that limit sums: with nil, these fail.
	Spent SpentFunc
	// Trace is called for every rule and limit that is evaluated, in order. Nil: it is not called.
	Trace func(client.PolicyStep)
}

func (r *Request) trace(s client.PolicyStep) {
	if r.Trace != nil {
		r.Trace(s)
	}
}

// Ruling is the answer of a policy.
type Ruling struct {
	Effect Effect
	// Approvals is how many persons must approve the order: at least 1 if Effect is Ask, otherwise 0.
	Approvals int
	Rule      string // name of the rule or limit that decided; empty where none did
	Reason    string // one line for people and logs, never for the service; may be empty where Rule is not
	// Limits are the limits on sums that Effect depends on: if one were exceeded meanwhile, Effect would be stricter. A
	// policy that read sums must name all of them.
	Limits []Limit
}

// Word returns the effect, with the number of persons if it asks more than one.
func (r Ruling) Word() string {
	if r.Effect == Ask && r.Approvals > 1 {
		return fmt.Sprintf("ask %d persons", r.Approvals)
	}
	return r.Effect.String()
}

// Why returns in one line what decided.
func (r Ruling) Why() string {
	switch {
	case r.Rule == "":
		return r.Reason
	case r.Reason == "":
		return r.Rule
	}
	return r.Rule + ": " + r.Reason
}

// problem returns why r cannot be decided, or "". The caller has checked the same before, but a policy must not depend
// on that.
func (r *Request) problem(decimals int) string {
	switch err := r.Order.Details().Validate(); {
	case err != nil:
		return "the order is not complete: " + err.Error()
	case r.Order.Amount.Decimals() > decimals:
		return fmt.Sprintf("the amount has more than %d decimals", decimals)
	case r.Order.CallBackID == "":
		return "the order has no callBackId"
	case r.Order.TenantUserID == "" || r.User != "" && r.Order.TenantUserID != r.User:
		return "the order belongs to another tenantUserId"
	case r.Now.IsZero():
		return "the time is not known"
	case r.Order.Expired(client.TimeOf(r.Now)):
		return "the order has expired"
	}
	return ""
}

// DefaultDecimals is how many decimals the amount of an order may have unless the policy file says otherwise: those of
// ETH. Smaller dust would be one more way to fill sums.
const DefaultDecimals = 18

// Limit is a ceiling on the sum of the amounts confirmed in a window of time.
//
// Decide compares sums that it read earlier, so two orders decided at the same time may each be below a ceiling that
// they exceed together. The confirming transaction must therefore check again, with sums that no other transaction can
// change before its commit: Holds must be true for every Limit of the Ruling. If it is false for one, the order is
// decided anew.
type Limit struct {
	Rule         string    // name in the policy file
	Symbol       string    // the order's own
	TenantUserID string    // empty: all users together
	Since        time.Time // start of the window; it ends now
	Max          countersign.Amount
	Above        Effect // Deny or Ask: what an order that would exceed Max meets
	Approvals    int    // where Above is Ask: how many persons must approve it
}

// Holds reports whether amount may be confirmed on top of spent.
func (l Limit) Holds(spent countersign.Sum, amount countersign.Amount) bool {
	return amount.IsSet() && l.Max.IsSet() && spent.Plus(amount.Sum()).Cmp(l.Max.Sum()) <= 0
}

// ParseOrder reads an order in the form of the API.
func ParseOrder(b []byte) (o client.Order, err error) {
	var raw struct{ Amount json.RawMessage }
	if json.Unmarshal(b, &raw) == nil && len(raw.Amount) > 0 && strings.IndexByte("-0123456789", raw.Amount[0]) >= 0 {
		return o, errors.New("amount is a number; amounts are texts, such as \"1.50\", since programs round numbers")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); errors.Is(err, io.ErrUnexpectedEOF) {
		return o, errors.New("it is not JSON: it ends early")
	} else if err != nil {
		return o, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return o, errors.New("more follows the object")
	}
	return o, nil
}
