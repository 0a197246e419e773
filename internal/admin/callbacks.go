package admin

import (
	"encoding/json"

	"countersign"
	"countersign/internal/store"
)

type callbackQuery struct {
	CallbackFilter
	page
}

func (f CallbackFilter) kept() store.CallbackFilter {
	return store.CallbackFilter{
		Merchant: f.Merchant, Type: countersign.Type(f.Type), State: store.CallbackState(f.State),
		TrackingID: f.TrackingID, TxID: f.TxID, CallBackID: f.CallBackID,
	}
}

func (s *Server) callbacks(c *call, q callbackQuery, _ none) (CallbackPage, error) {
	out := CallbackPage{Callbacks: []Callback{}}
	list, next, err := s.Store.Callbacks(c.r.Context(), q.kept(), q.Limit, q.Cursor)
	for i := range list {
		out.Callbacks = append(out.Callbacks, shownCallback(&list[i]))
	}
	out.Next = nextOf(next)
	return out, cursorFault(err, q.page)
}

func (s *Server) callback(c *call, _ none, _ none) (CallbackDetail, error) {
	id, err := c.pathID()
	if err != nil {
		return CallbackDetail{}, err
	}
	cb, err := s.Store.Callback(c.r.Context(), id)
	if err != nil {
		return CallbackDetail{}, err
	}
	attempts, err := s.Store.Attempts(c.r.Context(), id)
	if err != nil {
		return CallbackDetail{}, err
	}
	out := CallbackDetail{Callback: shownCallback(&cb), Attempts: []Attempt{}}
	if out.Payload, err = withoutUUID(cb.Payload); err != nil {
		return CallbackDetail{}, err
	}
	for _, a := range attempts {
		out.Attempts = append(out.Attempts, Attempt{
			Number: a.Number, RequestUUID: a.RequestUUID, Started: timeOf(a.Started),
			DurationMs: a.Duration.Milliseconds(), HTTPStatus: a.HTTPStatus, ErrCode: a.ErrCode,
			Outcome: a.Outcome, Reason: a.Reason, Node: a.Node,
			RequestHash: a.RequestHash, ResponseHash: a.ResponseHash,
		})
	}
	return out, nil
}

// withoutUUID leaves out the place-holder that each attempt fills with a
// requestUUID of its own.
func withoutUUID(payload []byte) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil {
		return nil, err
	}
	delete(members, "requestUUID")
	return json.Marshal(members)
}

func (s *Server) resendCallback(c *call, _ none, _ none) (Callback, error) {
	id, err := c.pathID()
	if err != nil {
		return Callback{}, err
	}
	cb, err := s.Store.Resend(c.r.Context(), id, c.now)
	return shownCallback(&cb), err
}

func (s *Server) resendCallbacks(c *call, _ none, in Resend) (Resent, error) {
	c.concerns(in.Filter.Merchant)
	if in.Filter == (CallbackFilter{}) {
		return Resent{}, invalid(Detail{"body.filter", "has no member; name at least what is to be sent again"})
	}
	if st := store.CallbackState(in.Filter.State); st != "" && st != store.CallbackRefused && st != store.CallbackExhausted {
		return Resent{}, invalid(Detail{"body.filter.state", "is neither refused nor exhausted"})
	}
	if in.Filter.Type == int(countersign.TypeRequestWithdraw) {
		return Resent{}, invalid(Detail{"body.filter.type", "is 2, whose withdrawals are decided; make a new withdrawal"})
	}
	n, err := s.Store.ResendMatching(c.r.Context(), in.Filter.kept(), in.DryRun, c.now)
	return Resent{Count: n, DryRun: in.DryRun}, err
}

func shownCallback(cb *store.Callback) Callback {
	out := Callback{
		ID: cb.ID, Merchant: cb.Merchant, Type: int(cb.Type), Name: cb.Type.String(),
		TrackingID: cb.TrackingID, TxID: cb.TxID, CallBackID: cb.CallBackID,
		State: string(cb.State), Attempt: cb.Attempts, Failed: cb.Failed,
		Deadline: timeOf(cb.Deadline), LastReason: cb.LastReason,
		Created: timeOf(cb.Created), Settled: timeOf(cb.Settled),
	}
	switch cb.State {
	case store.CallbackPending:
		out.Due = timeOf(cb.Due)
	case store.CallbackSending:
		out.LeaseUntil = timeOf(cb.LeaseUntil)
	}
	return out
}
