package admin

import (
	"encoding/json"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

type callbackQuery struct {
	client.CallbackFilter
	api.Page
}

func kept(c *api.Call, f client.CallbackFilter) outbox.CallbackFilter {
	return outbox.CallbackFilter{
		Of: seen(c, f.Merchant), Type: f.Type, State: client.CallbackState(f.State),
		TrackingID: f.TrackingID, TxID: f.TxID, CallBackID: f.CallBackID, TenantUserID: f.TenantUserID, Address: f.Address, Told: f.Told, Span: span(f.Since, f.Until),
	}
}

// span is the time between two of the API, of which a zero one is no bound.
func span(since, until client.Time) outbox.Span {
	return outbox.Span{Since: db.Millis(since), Until: db.Millis(until)}
}

func (s *Server) callbacks(c *api.Call, q callbackQuery, _ api.None) (client.CallbackPage, error) {
	out := client.CallbackPage{Callbacks: []client.Callback{}}
	list, next, err := s.Lists.Callbacks(c.R.Context(), kept(c, q.CallbackFilter), q.Limit, q.Cursor)
	for i := range list {
		out.Callbacks = append(out.Callbacks, shownCallback(&list[i]))
	}
	out.Next = nextOf(next)
	return out, cursorFault(err, q.Page)
}

func (s *Server) callback(c *api.Call, id string, _ api.None) (client.CallbackDetail, error) {
	cb, err := s.Lists.Callback(c.R.Context(), id)
	if err != nil {
		return client.CallbackDetail{}, err
	}
	attempts, err := s.Lists.Attempts(c.R.Context(), id)
	if err != nil {
		return client.CallbackDetail{}, err
	}
	out := client.CallbackDetail{Callback: shownCallback(&cb), Attempts: []client.Attempt{}}
	if out.Payload, err = withoutUUID(cb.Payload); err != nil {
		return client.CallbackDetail{}, err
	}
	heads, err := s.unread(c, id)
	if err != nil {
		return client.CallbackDetail{}, err
	}
	for _, a := range attempts {
		shown := client.Attempt{
			Number: a.Number, RequestUUID: a.RequestUUID, Started: api.TimeOf(a.Started),
			DurationMs: a.Duration.Milliseconds(), HTTPStatus: a.HTTPStatus, ErrCode: a.ErrCode,
			Result: a.Result, Reason: a.Reason, Text: a.Reason.Text(), Node: a.Node,
			RequestHash: a.RequestHash, ResponseHash: a.ResponseHash, Repeated: a.Repeated,
			Response: strings.ToValidUTF8(string(heads[a.Number]), "\ufffd"),
		}
		if a.Facts != (client.Fact{}) {
			shown.Facts = &a.Facts
		}
		out.Attempts = append(out.Attempts, shown)
	}
	return out, nil
}

// unread is what was kept of responses, for roles that may change the merchant: it may
// hold what the merchant meant to seal.
func (s *Server) unread(c *api.Call, id string) (map[int][]byte, error) {
	if c.Token.Role != client.RoleOperator && c.Token.Role != client.RoleAdmin {
		return nil, nil
	}
	return s.Lists.Unread(c.R.Context(), id)
}

// withoutUUID removes requestUUID: the stored value is a placeholder, because each
// attempt has its own.
func withoutUUID(payload []byte) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil {
		return nil, err
	}
	delete(members, "requestUUID")
	return json.Marshal(members)
}

func (s *Server) resendCallback(c *api.Call, id string, in client.ResendOne) (client.Callback, error) {
	if in.Accepted {
		if n, err := s.Outbox.Repeat(c.R.Context(), []string{id}, c.Now); err != nil {
			return client.Callback{}, err
		} else if n > 0 {
			cb, err := s.Outbox.Callback(c.R.Context(), id)
			return shownCallback(&cb), err
		}
	}
	cb, err := s.Outbox.Resend(c.R.Context(), id, c.Now)
	return shownCallback(&cb), err
}

func (s *Server) resendCallbacks(c *api.Call, _ api.None, in client.Resend) (client.Resent, error) {
	c.Concerns(in.Filter.Merchant)
	if in.Filter == (client.CallbackFilter{}) {
		return client.Resent{}, api.Invalid(api.At("body.filter", "is empty; give at least one member"))
	}
	switch in.Filter.State {
	case "", client.CallbackPending:
	case client.CallbackRefused, client.CallbackExhausted:
		if in.Filter.Type.Effect() == countersign.EffectQuestion {
			return client.Resent{}, api.Invalid(api.At("body.filter.type", "is 2; a withdrawal is asked for only once: make a new one"))
		}
	default:
		return client.Resent{}, api.Invalid(api.At("body.filter.state", "is neither refused, exhausted nor pending"))
	}
	n, err := s.Lists.ResendMatching(c.R.Context(), kept(c, in.Filter), in.DryRun, c.Now)
	return client.Resent{Count: n, DryRun: in.DryRun}, err
}

func shownCallback(cb *outbox.Callback) client.Callback {
	out := client.Callback{
		ID: cb.ID, Merchant: cb.Merchant, Type: cb.Type, Name: cb.Type.String(),
		TrackingID: cb.TrackingID, TxID: cb.TxID, CallBackID: cb.CallBackID,
		State: cb.State, Attempt: cb.Attempts, Failed: cb.Failed,
		Deadline: api.TimeOf(cb.Deadline), LastReason: cb.LastReason,
		Created: api.TimeOf(cb.Created), Settled: api.TimeOf(cb.Settled), Told: cb.Told,
	}
	switch cb.State {
	case client.CallbackPending:
		out.Due = api.TimeOf(cb.Due)
	case client.CallbackSending:
		out.LeaseUntil = api.TimeOf(cb.LeaseUntil)
	}
	return out
}
