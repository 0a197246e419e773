package gateway

import (
	"io"
	"net/http"
	"slices"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/merchant"
)

// reader returns a reader of the provider's callbacks with the settings that the gateway was started with.
func (c *Config) reader() CallbackReader {
	return CallbackReader{Key: c.Callbacks.Key, Padding: c.Callbacks.Padding, Field: c.Callbacks.Profile.BodyField}
}

// learnMessage is the message to the provider.
const learnMessage = "learning: nothing was booked; send it again later"

// learn answers every POST at any path with errCode 5000, so that the provider sends it again, and keeps it as refused.
// Where API keys are given, a request without one gets 401 and is not kept: anybody may have sent it. The blocks of
// what opens are remembered, so that nobody can join them once the settings are right (PROTOCOL.md, B7).
func (g *Gateway) learn(w http.ResponseWriter, r *http.Request) {
	c := &g.c.Callbacks
	facts, known := requestFacts(r, c.CallbackAPIKeys)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(merchant.DefaultBodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, envelope.MaxBody))
	status, refused := http.StatusOK, ""
	switch {
	case r.Method != http.MethodPost:
		status, refused = http.StatusMethodNotAllowed, "only POST is a callback"
	case err != nil:
		status, refused = http.StatusBadRequest, "the body did not arrive"
	case len(c.CallbackAPIKeys) > 0 && !known:
		status, refused = http.StatusUnauthorized, "none of its headers carries the callback API key"
	}
	if refused != "" {
		g.c.Log.Warn("a request was ignored while learning", "reason", refused, "facts", facts)
		http.Error(w, refused, status)
		return
	}
	seen := g.c.reader().Seen(body, facts)
	kept := book.Refused{Content: contentOf(merchant.Refused{Body: body, Opened: seen.Plaintext}),
		RefusedCallback: client.RefusedCallback{
			Body: string(body), Opened: seen.Err == nil, Type: seen.Type, CallbackID: seen.ID, Facts: facts,
			Reason: client.RefusalLearning, ErrCode: int64(countersign.CodeInternal), Message: learnMessage}}
	if blocks := merchant.ReadBlocks(c.Key, seen.Padding, seen.Field, body); blocks != nil {
		err = g.book.Remember(r.Context(), merchant.Entry{Blocks: blocks, At: g.c.Now()})
	}
	if err == nil {
		err = g.book.KeepRefused(r.Context(), kept, nil, db.MillisOf(g.c.Now()))
	}
	response, err2 := countersign.Response{APIKey: c.APIKey, ErrCode: countersign.CodeInternal,
		Message: learnMessage}.Marshal()
	if err != nil || err2 != nil {
		g.c.Log.Error("a callback was not kept for learning", "error", err)
		http.Error(w, "not kept", http.StatusServiceUnavailable)
		return
	}
	g.c.Log.Info("a callback was kept for learning", "type", int(seen.Type), "id", seen.ID, "opened", seen.Err == nil)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(response)
}

// learned sums up the callbacks that came while the gateway learned.
func (a *server) learned(c *api.Call, _ api.None, _ api.None) (client.Learned, error) {
	var list []Finding
	for before, more := int64(0), true; more; more = before > 0 {
		page, next, err := a.lists.RefusedList(c.R.Context(), client.RefusedFilter{State: client.RefusedOpen,
			Reason: client.RefusalLearning}, 100, before)
		if err != nil {
			return client.Learned{}, err
		}
		for _, r := range page {
			whole, err := a.lists.Refused(c.R.Context(), r.ID)
			if err != nil {
				return client.Learned{}, err
			}
			list = append(list, a.c.reader().Seen([]byte(whole.Body), whole.Facts))
		}
		before = next
	}
	slices.Reverse(list) // the first that came first
	return sumUp(list), nil
}
