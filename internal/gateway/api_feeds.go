package gateway

import (
	"context"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
)

// readerFeed is a part of a feed that has cursors.
type readerFeed struct {
	api.Feed
	Reader string `query:"reader" doc:"in place of after: start after this reader's cursor, at most 100 bytes"`
}

// part reads a part of a feed. It starts after the given number, or after the one that a reader's cursor has
// acknowledged.
func part[T any](g *Gateway, c *api.Call, q readerFeed, feed client.FeedName, topic db.Topic, seq func(T) int64,
	read func(ctx context.Context, after int64, limit int) ([]T, error),
	check func(ctx context.Context, after int64, list []T) error) ([]T, int64, error) {
	if q.Reader != "" {
		if c.R.URL.Query().Has("after") {
			return nil, 0, api.Invalid(api.At("query.reader", "and after cannot be given together"))
		}
		cursor, err := g.lists.Cursor(c.R.Context(), q.Reader)
		if err != nil {
			return nil, 0, err
		}
		if q.After = cursor.Deposits; feed == client.FeedOfEvents {
			q.After = cursor.Events
		}
	}
	return api.FeedReader[T]{Name: string(feed), Rows: g.lists.DB, Seq: seq,
		Watch: func() (<-chan struct{}, func()) { return g.book.Watch(topic) },
		Read: func(ctx context.Context, after int64, limit int) (list []T, next int64, err error) {
			list, err = read(ctx, after, limit)
			return list, 0, err
		},
		Check: func(ctx context.Context, list []T) error { return check(ctx, q.After, list) },
	}.Answer(c, q.Feed)
}

func (g *Gateway) deposits(c *api.Call, q readerFeed, _ api.None) (client.Feed[client.DepositEntry], error) {
	list, next, err := part(g, c, q, client.FeedOfDeposits, book.TopicDeposits,
		func(d client.DepositEntry) int64 { return d.Seq }, g.lists.Deposits, g.lists.CheckKept)
	for i := range list {
		list[i] = book.AsTaken(list[i]) // a late reader finds what an early one found
	}
	return client.Feed[client.DepositEntry]{Items: api.OrEmpty(list), Next: next}, err
}

func (g *Gateway) events(c *api.Call, q readerFeed, _ api.None) (client.Feed[client.EventEntry], error) {
	list, next, err := part(g, c, q, client.FeedOfEvents, book.TopicEvents,
		func(e client.EventEntry) int64 { return e.Seq }, g.lists.Events,
		func(context.Context, int64, []client.EventEntry) error { return nil })
	return client.Feed[client.EventEntry]{Items: api.OrEmpty(list), Next: next}, err
}

func (g *Gateway) cursor(c *api.Call, _ api.None, _ api.None) (client.Cursor, error) {
	return g.lists.Cursor(c.R.Context(), c.R.PathValue("name"))
}

// maxCursorName bounds the name of a reader, in bytes.
const maxCursorName = 100

func (g *Gateway) moveCursor(c *api.Call, _ api.None, in client.CursorMove) (client.Cursor, error) {
	name := c.R.PathValue("name")
	if len(name) > maxCursorName {
		return client.Cursor{}, api.Invalid(api.At("path.name", "is longer than 100 bytes"))
	}
	return g.book.MoveCursor(c.R.Context(), name, in.Deposits, in.Events, c.Now)
}

func (g *Gateway) stats(c *api.Call, _ api.None, _ api.None) (client.GatewayStats, error) {
	return g.lists.Stats(c.R.Context())
}
