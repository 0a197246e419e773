// Package book stores the merchant's rows: the inbox of callbacks, the orders, the feeds of events and the queue of
// forwards. It implements merchant.Inbox.
//
// Every method that changes rows returns after a durable commit and may be repeated. Its comment says what a
// repetition returns. Callers pass the time; the package reads no clock.
package book

import (
	"context"
	"embed"
	"io/fs"
	"sync"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/merchant"
)

//go:embed migrations
var migrations embed.FS

// End returns the merchant's end, for db.Open.
func End() db.End {
	return db.End{Name: "merchant", Migrations: []fs.FS{db.Common, journal.Migrations, migrations}, Keep: journal.Keep,
		Acked: journal.Acked, Sealed: []db.SealedTable{{Name: "audit_key", Key: "id", DataKey: "data_key"},
			{Name: "signing_key", Key: "id", DataKey: "data_key"}, {Name: "changes", Key: "id", DataKey: "data_key"},
			{Name: "sessions", Key: "id", DataKey: "data_key"}, sealedRefused}}
}

// Config holds the settings of a Book.
type Config struct {
	// Lease is the longest lease of a claim. Zero: no limit.
	Lease time.Duration
	// TakeAddresses makes a changed deposit address count at once, without a person's decision.
	TakeAddresses bool
}

// Book is the merchant's database and the operations on it: the inbox, the orders, their feeds, and the queue of
// entries to forward. Several goroutines may use it at once and, with PostgreSQL, several processes.
//
// Transactions lock rows in one order, so that two processes cannot wait for each other: the inbox, the orders, then
// the feeds by name.
type Book struct {
	*db.DB
	lease         time.Duration
	takeAddresses bool

	turn chan struct{} // holds a value while a transaction of writeFeeds runs

	mu      sync.Mutex
	waiting []*inboxCall
	working bool
}

var _ merchant.Inbox = (*Book)(nil)

// New returns the book in d, which must have been opened for End.
func New(d *db.DB, c Config) *Book {
	return &Book{DB: d, lease: c.Lease, takeAddresses: c.TakeAddresses, turn: make(chan struct{}, 1)}
}

// The topics of the merchant's database: its two feeds, forwards and orders.
const (
	TopicDeposits db.Topic = 3
	TopicEvents   db.Topic = 4
	TopicForwards db.Topic = 5 // something can be forwarded
	TopicOrders   db.Topic = 6 // new orders, on this node alone
)

// The names of the feeds. inboxFeed numbers the inbox. A transaction takes its number before all other locks.
const (
	inboxFeed    = "inbox"
	feedDeposits = string(client.FeedOfDeposits)
	feedEvents   = string(client.FeedOfEvents)
)

// The names of the stored counts; see db.Tx.Count.
const (
	countForwards = "forwards" // rows of forwards
	countOrders   = "orders/"  // followed by the state
)

// writeFeeds is Write for transactions that append to feeds, except claims. A node runs one of them at a time. A
// stalled node therefore blocks the others with only one transaction, until the database ends its session.
func (b *Book) writeFeeds(ctx context.Context, fn func(ctx context.Context, t *db.Tx) error) error {
	if !b.Dialect().ConcurrentWriters {
		return b.Write(ctx, fn)
	}
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.turn }()
	return b.Write(ctx, fn)
}
