package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/merchant"
)

// Caller plays the service for one callback at a time, right or with a fault, and judges the
// response as the cases do.
type Caller struct {
	k *Checker
}

// NewCaller checks c and connects to nothing. Order, Effects, Restart and Only have no effect. Unlike a
// Checker, a Caller needs no APIKey, and then any will do; and its two URLs may be equal.
func NewCaller(c Config) (*Caller, error) {
	k, err := newChecker(c)
	if err != nil {
		return nil, err
	}
	k.prefix = newPrefix()
	return &Caller{k}, nil
}

// Await connects once to each URL, until the endpoint takes connections or the time is over. Its
// error is ErrPublicAddress or ErrUnreachable, and nothing was sent.
func (c *Caller) Await(ctx context.Context, most time.Duration) error {
	for end := time.Now().Add(most); ; {
		err := c.k.reach(ctx)
		if !errors.Is(err, ErrUnreachable) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Sent says how one callback ended.
type Sent struct {
	Type      countersign.Type     `json:"type"`
	Result    client.AttemptResult `json:"result"`              // how this project's service takes the response
	Confirmed *Order               `json:"confirmed,omitempty"` // of type 2: what the answer confirms
	Problem   string               `json:"problem,omitempty"`   // why it is not accepted, or that it must not be
	Fix       string               `json:"fix,omitempty"`       // what to change at the endpoint, or in the settings
	Notes     []string             `json:"notes,omitempty"`
	Exchanges []Exchange           `json:"exchanges"` // in their order; the last one is judged
}

// Accepted reports whether the endpoint took the callback, or confirmed the withdrawal.
func (s Sent) Accepted() bool { return s.Result == client.AttemptAccepted }

// String tells s in lines for people.
func (s Sent) String() string {
	var b strings.Builder
	line := lines(&b, "")
	for i, e := range s.Exchanges {
		if i > 0 {
			b.WriteByte('\n')
		}
		e.explain(line)
	}
	line("judged", string(s.Result)+": "+s.Result.Means())
	if o := s.Confirmed; o != nil {
		line("confirmed", printable(fmt.Appendf(nil, "%s %s on %s to %s, order %s of user %s", o.Amount, o.Symbol, o.ChainName, o.Address, o.CallBackID, o.TenantUserID)))
	}
	line("wrong", s.Problem)
	line("to fix", s.Fix)
	for _, n := range s.Notes {
		line("note", n)
	}
	return b.String()
}

// Message returns the members of a callback of type t. given is a JSON object, or nil for a correct
// message as the cases send it. set are members that are set in it; one without a value is left
// out. The requestUUID is a place for that of an attempt unless it is set.
func (c *Caller) Message(t countersign.Type, given []byte, set []countersign.Member) ([]byte, error) {
	s := c.k.session(context.Background())
	var m message
	switch {
	case given != nil:
		var err error
		if m, err = parseMessage(given); err != nil {
			return nil, err
		}
	case t == countersign.TypeRequestWithdraw:
		m = s.withdrawal(s.id(), "order-1", c.k.cfg.User)
	default:
		m = s.callback(t)
	}
	m = append(m.drop("requestUUID"), member{"requestUUID", text(countersign.UnboundUUID)})
	for _, e := range set {
		if e.Value == "" {
			m = m.drop(e.Name)
		} else {
			m = m.set(e.Name, string(e.Value))
		}
	}
	return m.bytes(), nil
}

// NewMember returns a member whose value is text: itself where that is JSON and asJSON allows it, or
// else a string. Empty text is a member that is left out.
func NewMember(name, value string, asJSON bool) countersign.Member {
	if value != "" && !(asJSON && json.Valid([]byte(value))) {
		value = text(value)
	}
	return countersign.Member{Name: name, Value: countersign.Raw(value)}
}

// ParseMember reads NAME=VALUE.
func ParseMember(s string) (countersign.Member, error) {
	name, value, is := strings.Cut(s, "=")
	if !is || name == "" {
		return countersign.Member{}, fmt.Errorf("NAME=VALUE is wanted, not %q", s)
	}
	return NewMember(name, value, true), nil
}

// EndpointOf returns both URLs of an endpoint. to is what both begin with, or one of them; where it
// does not show the other, both are to.
func EndpointOf(to string) (notify, withdraw string) {
	base := strings.TrimSuffix(to, "/")
	for _, path := range []string{merchant.DefaultNotifyPath, merchant.DefaultWithdrawPath} {
		base = strings.TrimSuffix(base, path)
	}
	u, err := url.Parse(base)
	if err != nil || u.RawQuery != "" || u.Path != "" && base == strings.TrimSuffix(to, "/") {
		return to, to
	}
	return base + merchant.DefaultNotifyPath, base + merchant.DefaultWithdrawPath
}

// parseMessage reads one JSON object, whatever its members are.
func parseMessage(b []byte) (m message, err error) {
	if b = bytes.TrimSpace(b); !json.Valid(b) || b[0] != '{' {
		return nil, errors.New("the message is not one JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(b)) // of valid JSON: it does not fail
	_, _ = d.Token()
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		_ = d.Decode(&value)
		m = append(m, member{name.(string), string(value)})
	}
	return m, nil
}

// Send makes an attempt of a callback of type t, with a new requestUUID. m is what Message
// gave. The error says that nothing was sent.
func (c *Caller) Send(ctx context.Context, t countersign.Type, m []byte, f countersigntest.ServiceFault) (Sent, error) {
	s := c.k.session(ctx)
	msg, err := parseMessage(m)
	switch {
	case err != nil:
		return Sent{}, err
	case c.k.cfg.CallbackAPIKey == "" && (f == countersigntest.FaultNoAPIKey || f == countersigntest.FaultWrongAPIKey):
		return Sent{}, fmt.Errorf("fault %s needs the callback API key that the endpoint requires", f)
	case c.k.cfg.Sign == nil && f.NeedsSigning():
		return Sent{}, fmt.Errorf("fault %s needs the key that signs requests", f)
	case f == countersigntest.FaultWrongURL && c.k.cfg.NotifyURL == c.k.cfg.WithdrawURL:
		return Sent{}, fmt.Errorf("fault %s needs the URLs of both kinds of callbacks", f)
	}
	var r *reply
	out := Sent{Type: t}
	if v := catch(func() { r = s.faulty(t, msg, f) }); v != nil {
		return out, errors.New(v.problem)
	}
	return c.judge(s, r, out, f), nil
}

// catch returns how check ended, nil if it passed.
func catch(check func()) (v *verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = p.(*verdict)
		}
	}()
	check()
	return nil
}

// judge returns how a service takes r.
func (c *Caller) judge(s *session, r *reply, out Sent, f countersigntest.ServiceFault) Sent {
	v := catch(func() { c.accepts(s, r, &out) })
	out.Exchanges, out.Result = s.exchanges, client.AttemptAccepted
	out.Notes = append(out.Notes, s.notes...)
	if v != nil {
		out.Result, out.Problem, out.Fix = c.result(r), s.redact(v.problem), strings.TrimSpace(v.fix)
	}
	if f == countersigntest.FaultOldUUID && c.k.cfg.Unbound || !f.Refused() {
		return out
	}
	switch {
	case r.err == nil && r.status == http.StatusOK && r.parseErr == nil && r.response.ErrCode == countersign.CodeAccepted:
		out.Result = client.AttemptAccepted
		out.Problem, out.Fix = "it was accepted, and must be refused: "+f.About(), f.Fix()
	case r.err == nil && r.status < http.StatusInternalServerError:
		out.Problem, out.Fix = "", ""
		out.Notes = append(out.Notes, "it is right that this was refused")
	}
	return out
}

// accepts ends with fail unless a service accepts r.
func (c *Caller) accepts(s *session, r *reply, out *Sent) {
	t := out.Type
	if errors.Is(r.err, context.DeadlineExceeded) {
		fail(client.ReasonTimeout.Do(), "%s: no response came within %v", r.what, s.cfg.Timeout)
	}
	sent, err := countersign.ParseCallback(r.plaintext, countersign.ParseOptions{Lenient: s.cfg.Other})
	if err != nil {
		out.Notes = append(out.Notes, "what was sent is not a correct callback, and should be refused: "+err.Error())
	}
	s.accepted(r, t)
	if q, is := sent.(*countersign.WithdrawalRequest); is && q.TenantUserID == "" { // the answer tells the user
		q.TenantUserID = r.parsed.(countersign.WithdrawalAnswer).TenantUserID
	}
	if sent != nil {
		if member := sent.Differs(r.parsed); member != "" {
			fail("Return the members of the request as they came.", "%s: %s of the answer is not that of the request", r.what, member)
		}
	}
	if a, is := r.parsed.(countersign.WithdrawalAnswer); is {
		if !s.cfg.Ordered && !s.cfg.Other {
			boundDetails(r)
		}
		out.Confirmed = &Order{CallBackID: s.redact(a.CallBackID), TenantUserID: s.redact(a.TenantUserID), Address: s.redact(a.Address),
			ChainName: s.redact(a.ChainName), Symbol: s.redact(a.Symbol), Amount: a.Amount.String()}
	}
}

// result is how a service takes a response that it does not accept (PROTOCOL.md, E1 to E4).
func (c *Caller) result(r *reply) client.AttemptResult {
	if r.err == nil && r.status == http.StatusOK && r.parseErr == nil && r.signErr == nil && (c.k.cfg.APIKey == "" || c.k.cfg.APIKey.Equal(r.response.APIKey)) {
		switch r.response.ErrCode.Class() {
		case countersign.ClassRefused:
			return client.AttemptRefused
		case countersign.ClassHold:
			return client.AttemptHold
		}
	}
	return client.AttemptRetry
}
