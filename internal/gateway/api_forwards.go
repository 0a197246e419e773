package gateway

import (
	"bytes"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
)

// lastErrors is how many of the entries that failed the state of the forwarding shows.
const lastErrors = 10

func (a *server) forwarding(c *api.Call, _ api.None, _ api.None) (client.Forwarding, error) {
	out, err := a.lists.Forwarding(c.R.Context())
	if err != nil {
		return out, err
	}
	failed, err := a.lists.Forwards(c.R.Context(), false, "", 0, lastErrors)
	out.On, out.Failed = a.c.Forward.URL != "", api.OrEmpty(failed)
	return out, err
}

type forwardQuery struct {
	State  string `query:"state" enum:"failed,skipped" default:"failed" doc:"failed: sent in vain, and sent again; skipped: a person gave it up"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most entries to answer, 1 to 1,000"`
	Cursor string `query:"cursor" doc:"the member next of the previous page; absent: the first page"`
}

func (a *server) forwards(c *api.Call, q forwardQuery, _ api.None) (client.ForwardsPage, error) {
	feed, seq, known := book.ParseForwardID(q.Cursor)
	if q.Cursor != "" && !known {
		return client.ForwardsPage{}, api.Invalid(api.At("query.cursor", "is not the next of a page"))
	}
	list, err := a.lists.Forwards(c.R.Context(), q.State == "skipped", feed, seq, q.Limit)
	out := client.ForwardsPage{Forwards: api.OrEmpty(list)}
	if n := len(list); n == q.Limit {
		out.Next = &out.Forwards[n-1].ID
	}
	return out, err
}

func (a *server) retryForwards(c *api.Call, _ api.None, _ api.None) (client.RetriedForwards, error) {
	n, err := a.book.RetryForwards(c.R.Context(), c.Now)
	return client.RetriedForwards{Retried: n}, err
}

func (a *server) retryForward(c *api.Call, _ api.None, _ api.None) (client.Forward, error) {
	return a.book.RetryForward(c.R.Context(), c.R.PathValue("id"), c.Now)
}

func (a *server) skipForward(c *api.Call, _ api.None, in client.SkipForward) (client.Forward, error) {
	f, err := a.book.SkipForward(c.R.Context(), c.R.PathValue("id"), c.Token.ID, in.Reason, c.Now)
	if err == nil {
		a.c.Log.Warn("an entry was given up: it is not forwarded", "id", f.ID, "by", f.SkippedBy, "reason", f.Reason)
	}
	return f, err
}

// forwardBody returns the id and the body of the POST about f. The id is the same in
// every attempt.
func forwardBody(f book.Forward) (id string, body []byte, err error) {
	var b bytes.Buffer
	if f.Feed == client.FeedOfEvents {
		err = api.EncodeJSON(&b, client.ForwardedEvent{Type: f.Event.Kind, Timestamp: f.Event.At, Data: f.Event})
		return book.ForwardID(f.Feed, f.Seq), b.Bytes(), err
	}
	d := book.AsTaken(f.Deposit) // whatever was decided meanwhile: every attempt says the same
	err = api.EncodeJSON(&b, client.ForwardedDeposit{Type: client.DepositMessage("deposit." + d.State), Timestamp: d.Taken, Data: d})
	return book.ForwardID(f.Feed, f.Seq), b.Bytes(), err
}
