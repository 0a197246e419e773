package gateway

import (
	"bytes"
	"regexp"
	"strconv"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
)

// lastErrors is how many of the entries that failed the state of the forwarding shows.
const lastErrors = 10

func (a *server) forwarding(c *api.Call, _ api.None, _ api.None) (client.Forwarding, error) {
	s, err := a.lists.Stats(c.R.Context())
	if err != nil {
		return client.Forwarding{}, err
	}
	failed, err := a.lists.ForwardRows(c.R.Context(), false, book.FeedDeposits, 0, lastErrors)
	out := client.Forwarding{On: a.c.Forward.URL != "", Waiting: s.Forwards, Retrying: s.Retrying, Skipped: s.Skipped,
		Oldest: api.TimeOf(s.ForwardOldest), Failed: forwardsOf(failed)}
	for _, f := range s.Forwarding {
		out.Feeds = append(out.Feeds, client.ForwardingFeed{Feed: client.FeedName(f.Feed.String()), Begun: api.TimeOf(f.Begun), Position: f.Seq, Last: f.Last})
	}
	return out, err
}

type forwardQuery struct {
	State  string `query:"state" enum:"failed,skipped" default:"failed" doc:"failed: sent in vain, and sent again; skipped: a person gave it up"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most entries to answer, 1 to 1,000"`
	Cursor string `query:"cursor" doc:"the member next of the previous page; absent: the first page"`
}

func (a *server) forwards(c *api.Call, q forwardQuery, _ api.None) (client.ForwardsPage, error) {
	feed, seq := book.FeedDeposits, int64(0)
	if q.Cursor != "" {
		var known bool
		if feed, seq, known = parseForwardID(q.Cursor); !known {
			return client.ForwardsPage{}, api.Invalid(api.At("query.cursor", "is not the next of a page"))
		}
	}
	list, err := a.lists.ForwardRows(c.R.Context(), q.State == "skipped", feed, seq, q.Limit)
	out := client.ForwardsPage{Forwards: forwardsOf(list)}
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
	feed, seq, known := parseForwardID(c.R.PathValue("id"))
	if !known {
		return client.Forward{}, db.ErrNotFound
	}
	f, err := a.book.RetryForward(c.R.Context(), feed, seq, c.Now)
	return forwardOf(f), err
}

func (a *server) skipForward(c *api.Call, _ api.None, in client.SkipForward) (client.Forward, error) {
	feed, seq, known := parseForwardID(c.R.PathValue("id"))
	if !known {
		return client.Forward{}, db.ErrNotFound
	}
	f, err := a.book.SkipForward(c.R.Context(), feed, seq, c.Token.ID, in.Reason, c.Now)
	if err == nil {
		a.c.Log.Warn("an entry was given up: it is not forwarded", "id", forwardID(feed, seq), "by", f.SkippedBy, "reason", f.SkipReason)
	}
	return forwardOf(f), err
}

func forwardOf(f book.ForwardRow) client.Forward {
	return client.Forward{ID: forwardID(f.Feed, f.Seq), Attempts: f.Attempts, LastError: f.Reason, Sending: f.Sending && f.Skipped == 0,
		Due: api.TimeOf(f.Due), Created: api.TimeOf(f.Created), Skipped: api.TimeOf(f.Skipped), SkippedBy: f.SkippedBy, Reason: f.SkipReason}
}

func forwardsOf(list []book.ForwardRow) []client.Forward {
	out := []client.Forward{}
	for _, f := range list {
		out = append(out, forwardOf(f))
	}
	return out
}

// forwardID is the webhook-id of an entry.
func forwardID(feed book.Feed, seq int64) string {
	if feed == book.FeedEvents {
		return "event_" + strconv.FormatInt(seq, 10)
	}
	return "deposit_" + strconv.FormatInt(seq, 10)
}

var forwardIDText = regexp.MustCompile(`^(deposit|event)_([1-9][0-9]{0,17})$`)

func parseForwardID(id string) (feed book.Feed, seq int64, known bool) {
	m := forwardIDText.FindStringSubmatch(id)
	if m == nil {
		return 0, 0, false
	}
	if m[1] == "event" {
		feed = book.FeedEvents
	}
	seq, err := strconv.ParseInt(m[2], 10, 64)
	return feed, seq, err == nil
}

// forwardBody returns the id and the body of the POST about f. The id is the same in
// every attempt.
func forwardBody(f book.Forward) (id string, body []byte, err error) {
	var b bytes.Buffer
	if f.Feed == book.FeedEvents {
		err = api.EncodeJSON(&b, client.ForwardedEvent{Type: f.Event.Kind, Timestamp: f.Event.At, Data: f.Event})
		return forwardID(f.Feed, f.Seq), b.Bytes(), err
	}
	d := book.AsTaken(f.Deposit) // whatever was decided meanwhile: every attempt says the same
	err = api.EncodeJSON(&b, client.ForwardedDeposit{Type: client.DepositMessage("deposit." + d.State), Timestamp: d.Taken, Data: d})
	return forwardID(f.Feed, f.Seq), b.Bytes(), err
}
