package admin

import (
	"encoding/json"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
)

func (s *Server) callbacks(c *api.Call, f client.CallbackFilter, limit int,
	cursor string) (shown []client.Callback, next string, err error) {
	list, next, err := s.Lists.Callbacks(c.R.Context(), seen(c, f.Merchant), f, limit, cursor)
	for _, cb := range list {
		shown = append(shown, cb.Callback)
	}
	return shown, next, err
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
	out := client.CallbackDetail{Callback: cb.Callback, Attempts: []client.Attempt{}}
	if out.Payload, err = withoutUUID(cb.Payload); err != nil {
		return client.CallbackDetail{}, err
	}
	for _, a := range attempts {
		out.Attempts = append(out.Attempts, a.Attempt)
	}
	return out, nil
}

// withoutUUID removes requestUUID: the stored value is a placeholder, because each attempt has its own.
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
		if repeated, err := s.Outbox.Repeat(c.R.Context(), id, c.Now); err != nil {
			return client.Callback{}, err
		} else if repeated {
			cb, err := s.Outbox.Callback(c.R.Context(), id)
			return cb.Callback, err
		}
	}
	cb, err := s.Outbox.Resend(c.R.Context(), id, c.Now)
	return cb.Callback, err
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
			return client.Resent{}, api.Invalid(api.At("body.filter.type",
				"is 2; a withdrawal is asked for only once: make a new one"))
		}
	default:
		return client.Resent{}, api.Invalid(api.At("body.filter.state", "is neither refused, exhausted nor pending"))
	}
	n, err := s.Lists.ResendMatching(c.R.Context(), seen(c, in.Filter.Merchant), in.Filter, in.DryRun, c.Now)
	return client.Resent{Count: n, DryRun: in.DryRun}, err
}
