package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/merchant"
)

// Await connects to each URL until the endpoint takes connections or most has passed. It sends nothing. Its error is
// ErrPublicAddress or ErrUnreachable.
func (k *Checker) Await(ctx context.Context, most time.Duration) error {
	for end := time.Now().Add(most); ; {
		err := k.reach(ctx)
		if !errors.Is(err, ErrUnreachable) || time.Now().After(end) {
			return err
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// Sent says how one callback ended.
type Sent struct {
	Type      countersign.Type     `json:"type"`
	Result    client.AttemptResult `json:"result"`              // how this project's service takes the response
	Confirmed *client.NewOrder     `json:"confirmed,omitempty"` // of type 2: what the answer confirms
	Report
}

// Accepted reports whether the endpoint took the callback, or confirmed the withdrawal.
func (s Sent) Accepted() bool { return s.Result == client.AttemptAccepted }

// String returns s in lines for people.
func (s Sent) String() string {
	var b strings.Builder
	line := lines(&b, "")
	for i, e := range s.Exchanges {
		if i > 0 {
			b.WriteByte('\n')
		}
		e.explain(line)
	}
	line("judged", string(s.Result)+": "+client.Means(s.Result))
	if o := s.Confirmed; o != nil {
		line("confirmed", printable(fmt.Appendf(nil, "%s %s on %s to %s, order %s of user %s",
			o.Amount, o.Symbol, o.ChainName, o.Address, o.CallBackID, o.TenantUserID)))
	}
	line("wrong", s.Problem)
	line("to fix", s.Fix)
	for _, n := range s.Notes {
		line("note", n)
	}
	return b.String()
}

// Message returns the members of a callback of type t. base is a JSON object, or nil for a correct message as the
// cases send it. set are members to set in it; one without a value is left out. Unless requestUUID is set, each attempt
// has its own.
func (k *Checker) Message(t countersign.Type, base []byte, set []countersign.Member) ([]byte, error) {
	s := k.session(context.Background())
	var m message
	switch {
	case base != nil:
		var err error
		if m, err = parseMessage(base); err != nil {
			return nil, err
		}
	case t == countersign.TypeRequestWithdraw:
		m = s.unknown().set("callBackId", `"order-1"`)
	default:
		m = s.callback(t)
	}
	m = append(m.drop("requestUUID"), countersign.Member{Name: "requestUUID", Value: `"` + countersign.UnboundUUID + `"`})
	for _, e := range set {
		if e.Value == "" {
			m = m.drop(e.Name)
		} else {
			m = m.set(e.Name, string(e.Value))
		}
	}
	return m.bytes(), nil
}

// numbers are the members of the interface with numbers. All others are texts.
var numbers = []string{"txIndex", "riskLevelFrom", "riskLevelTo", "business"}

// ParseMember reads a member: NAME=VALUE in the form of the interface, NAME:=JSON in any form, or NAME= to leave it
// out.
func ParseMember(s string) (countersign.Member, error) {
	name, value, is := strings.Cut(s, "=")
	name, isJSON := strings.CutSuffix(name, ":")
	valid := json.Valid([]byte(value))
	switch {
	case !is || name == "", isJSON && !valid:
		return countersign.Member{}, fmt.Errorf("%q is not NAME=VALUE or NAME:=JSON", s)
	case value != "" && !isJSON && !(valid && slices.Contains(numbers, name)):
		value = text(value)
	}
	return countersign.Member{Name: name, Value: countersign.Raw(value)}, nil
}

// EndpointOf returns both URLs of an endpoint. to is a common prefix, or one full URL from which the other is derived;
// if it cannot be derived, both are to.
func EndpointOf(to string) (notify, withdraw string) {
	trimmed := strings.TrimSuffix(to, "/")
	base := strings.TrimSuffix(strings.TrimSuffix(trimmed, merchant.DefaultNotifyPath), merchant.DefaultWithdrawPath)
	if u, err := url.Parse(base); err != nil || u.RawQuery != "" || u.Path != "" && base == trimmed {
		return to, to
	}
	return base + merchant.DefaultNotifyPath, base + merchant.DefaultWithdrawPath
}

// Send makes an attempt of a callback of type t, with a new requestUUID. m is what Message returned. With an error
// nothing was sent.
func (k *Checker) Send(ctx context.Context, t countersign.Type, m []byte,
	f countersigntest.ServiceFault) (Sent, error) {
	s := k.session(ctx)
	msg, err := parseMessage(m)
	switch {
	case err != nil:
		return Sent{}, err
	case k.cfg.CallbackAPIKey == "" && (f == countersigntest.FaultNoAPIKey || f == countersigntest.FaultWrongAPIKey):
		return Sent{}, fmt.Errorf("fault %s needs the callback API key that the endpoint requires", f)
	case k.cfg.Sign == nil && f.NeedsSigning():
		return Sent{}, fmt.Errorf("fault %s needs the key that signs requests", f)
	case f == countersigntest.FaultWrongURL && k.cfg.NotifyURL == k.cfg.WithdrawURL:
		return Sent{}, fmt.Errorf("fault %s needs the URLs of both kinds of callbacks", f)
	}
	out := Sent{Type: t, Result: client.AttemptAccepted}
	var r *reply
	if v := catch(func() { r = s.faulty(t, msg, f) }); v != nil {
		return out, errors.New(v.problem)
	}
	if v := catch(func() { s.settledBy(r, &out) }); v != nil {
		out.Result, out.Problem, out.Fix = s.result(r), s.redact(v.problem), v.fix
	}
	out.Exchanges, out.Notes = s.exchanges, append(out.Notes, s.notes...)
	switch {
	case f == countersigntest.FaultOldUUID && s.cfg.Unbound, !f.Refused():
	case r.code() == countersign.CodeAccepted:
		out.Result = client.AttemptAccepted
		out.Problem, out.Fix = "it was accepted, and must be refused: "+f.About(), f.Fix()
	case r.err == nil && r.status < http.StatusInternalServerError:
		out.Problem, out.Fix = "", ""
		out.Notes = append(out.Notes, "it is right that this was refused")
	}
	return out, nil
}

// settledBy ends with fail unless a service accepts r.
func (s *session) settledBy(r *reply, out *Sent) {
	if errors.Is(r.err, context.DeadlineExceeded) {
		fail(client.ReasonTimeout.Do(), "%s: no response came within %v", r.what, s.cfg.Timeout)
	}
	if _, err := s.sent(r); err != nil {
		out.Notes = append(out.Notes, "what was sent is not a correct callback, and should be refused: "+err.Error())
	}
	s.accepted(r, out.Type)
	if a, is := r.parsed.(countersign.WithdrawalAnswer); is {
		if !s.cfg.Ordered && !s.cfg.Other {
			bound(r)
		}
		out.Confirmed = &client.NewOrder{CallBackID: s.redact(a.CallBackID), TenantUserID: s.redact(a.TenantUserID),
			Address: s.redact(a.Address), ChainName: s.redact(a.ChainName), Symbol: s.redact(a.Symbol), Amount: a.Amount}
	}
}

// result returns how a service takes a response that it does not accept (PROTOCOL.md, E1 to E4).
func (s *session) result(r *reply) client.AttemptResult {
	if r.signErr == nil && s.expectedKey(r) {
		switch r.code().Class() {
		case countersign.ClassRefused:
			return client.AttemptRefused
		case countersign.ClassHold:
			return client.AttemptHold
		}
	}
	return client.AttemptRetry
}
