package gateway

import (
	"context"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
)

// after is the number after which a reader of a feed starts: the one given, or the
// one that its cursor has acknowledged.
func (a *server) after(c *api.Call, q readerFeed, feed client.FeedName) (int64, error) {
	if q.Reader == "" {
		return q.After, nil
	}
	if c.R.URL.Query().Has("after") {
		return 0, api.Invalid(api.At("query.reader", "and after exclude each other"))
	}
	cursor, err := a.lists.Cursor(c.R.Context(), q.Reader)
	if feed == client.FeedOfEvents {
		return cursor.Events, err
	}
	return cursor.Deposits, err
}

type depositQuery struct {
	State string `query:"state" enum:"held,credited,rejected" doc:"only deposits that are in this state now, as they are now; the answer then has gaps. Absent: all, as they were when they were taken"`
	readerFeed
}

func (a *server) deposits(c *api.Call, q depositQuery, _ api.None) (client.Deposits, error) {
	after, err := a.after(c, q.readerFeed, client.FeedOfDeposits)
	if err != nil {
		return client.Deposits{}, err
	}
	q.After = after
	list, next, err := api.FeedReader[client.DepositEntry]{Name: string(client.FeedOfDeposits), Rows: a.lists.DB, Watch: a.watch(book.TopicDeposits),
		Seq: func(d client.DepositEntry) int64 { return d.Seq },
		Read: func(ctx context.Context, after int64, limit int) (list []client.DepositEntry, next int64, err error) {
			if q.State != "" {
				list, err = a.lists.DepositsIn(ctx, client.DepositState(q.State), after, limit)
			} else {
				list, err = a.lists.Deposits(ctx, after, limit)
			}
			return list, 0, err
		},
		Check: func(ctx context.Context, list []client.DepositEntry) error {
			if q.State != "" {
				return nil
			}
			return a.lists.CheckKept(ctx, after, list)
		}}.Answer(c, q.Feed)
	for i := range list {
		if q.State == "" {
			list[i] = book.AsTaken(list[i]) // a late reader finds what an early one found
		}
	}
	return client.Deposits{Deposits: api.OrEmpty(list), Next: next}, err
}

func (a *server) events(c *api.Call, q readerFeed, _ api.None) (client.Events, error) {
	after, err := a.after(c, q, client.FeedOfEvents)
	if err != nil {
		return client.Events{}, err
	}
	q.After = after
	list, next, err := api.FeedReader[client.EventEntry]{Name: string(client.FeedOfEvents), Rows: a.lists.DB, Watch: a.watch(book.TopicEvents),
		Seq: func(e client.EventEntry) int64 { return e.Seq },
		Read: func(ctx context.Context, after int64, limit int) ([]client.EventEntry, int64, error) {
			list, err := a.lists.Events(ctx, after, limit)
			return list, 0, err
		}}.Answer(c, q.Feed)
	return client.Events{Events: api.OrEmpty(list), Next: next}, err
}

// watch returns what wakes a reader of a feed.
func (a *server) watch(topic db.Topic) func() (<-chan struct{}, func()) {
	return func() (<-chan struct{}, func()) { return a.book.Watch(topic) }
}

func (a *server) cursor(c *api.Call, _ api.None, _ api.None) (client.Cursor, error) {
	return a.lists.Cursor(c.R.Context(), c.R.PathValue("name"))
}

// maxCursorName is the longest name of a reader, in bytes.
const maxCursorName = 100

func (a *server) moveCursor(c *api.Call, _ api.None, in client.CursorMove) (client.Cursor, error) {
	name := c.R.PathValue("name")
	if len(name) > maxCursorName {
		return client.Cursor{}, api.Invalid(api.At("path.name", "is longer than 100 bytes"))
	}
	return a.book.MoveCursor(c.R.Context(), name, in.Deposits, in.Events, c.Now)
}

func (a *server) stats(c *api.Call, _ api.None, _ api.None) (client.GatewayStats, error) {
	if err := a.refusals.keep(c.R.Context()); err != nil {
		return client.GatewayStats{}, err
	}
	return a.lists.Stats(c.R.Context())
}

func (a *server) readyz(c *api.Call, _ api.None, _ api.None) (api.Health, error) {
	return api.Health{Status: "ready"}, c.Ready(a.book.Ready)
}
