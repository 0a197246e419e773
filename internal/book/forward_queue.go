package book

import (
	"context"
	"fmt"
	"strconv"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const (
	positionsSQL = `SELECT feed, seq, begun FROM forwarding ORDER BY feed`

	beginForwardingSQL = `UPDATE forwarding SET seq = $2, begun = $3 WHERE feed = $1 AND begun = 0`
)

// positions returns, for each feed, the last entry that was handed over to forwarding.
func positions(ctx context.Context, q db.Querier, text string) ([]client.ForwardingFeed, error) {
	last, err := db.LastSeqs(ctx, q)
	if err != nil {
		return nil, err
	}
	return db.List(ctx, q, text, nil, func(r db.Rows) (p client.ForwardingFeed, err error) {
		err = r.Scan(&p.Feed, &p.Position, &p.Begun)
		// This row was read after the last numbers, so it may be ahead of them.
		p.Last = max(last[string(p.Feed)], p.Position)
		return p, err
	})
}

// BeginForwarding starts the forwarding of the feeds that were never forwarded, and returns them. It starts with
// their first entry, or with the next new one if onlyNew.
func (b *Book) BeginForwarding(ctx context.Context, onlyNew bool,
	now db.Millis) (begun []client.ForwardingFeed, err error) {
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		begun = nil
		list, err := positions(ctx, t, positionsSQL+"{lock}")
		if err != nil {
			return err
		}
		purged, err := PurgedUpTo(ctx, t)
		if err != nil {
			return err
		}
		for _, p := range list {
			switch {
			case p.Begun != 0:
				continue
			case onlyNew:
				p.Position = p.Last
			case p.Feed == client.FeedOfDeposits && purged > 0:
				return &db.ConflictError{Reason: fmt.Sprintf(
					"deposits up to number %d were purged and cannot be forwarded", purged)}
			}
			p.Begun = max(1, now)
			begun = append(begun, p)
			if _, err := t.Exec(ctx, beginForwardingSQL, string(p.Feed), p.Position, int64(p.Begun)); err != nil {
				return err
			}
			if err := journal.Add(ctx, t, journal.Record{Kind: journal.ForwardingBegun, At: now,
				Data: journal.Forward{Feed: string(p.Feed), Seq: p.Position + 1}}); err != nil {
				return err
			}
		}
		return nil
	})
	return begun, err
}

// The entries of a feed are recorded in the order of their numbers.
const oldestForwardSQL = `SELECT feed, seq, created FROM forwards WHERE feed = $1 ORDER BY seq LIMIT 1`

// Forwarding returns the state of the forwarding, without the list of failed entries. Its cost does not grow with the
// number of failed entries.
func (b *Book) Forwarding(ctx context.Context) (client.Forwarding, error) {
	var s client.Forwarding
	epochs, err := db.ReadEpochs(ctx, b)
	if err != nil {
		return s, err
	}
	// The positions are read before the counts, so an entry that is handed over in between is counted twice and never
	// missed.
	if s.Feeds, err = positions(ctx, b, positionsSQL); err != nil {
		return s, err
	}
	counts, err := db.Counts(ctx, b)
	if err != nil {
		return s, err
	}
	s.Retrying = counts[countForwards]
	s.Waiting = s.Retrying
	for _, p := range s.Feeds {
		if p.Begun != 0 {
			s.Waiting += epochs.Between(string(p.Feed), p.Position, p.Last)
		}
	}
	oldest := func(r db.Rows) error {
		var f Forward
		err := r.Scan(&f.Feed, &f.Seq, &f.at)
		if s.Oldest == 0 || f.at < s.Oldest {
			s.Oldest = f.at
		}
		return err
	}
	return s, b.Batch(ctx, []db.Statement{
		{SQL: oldestForwardSQL, Args: []any{feedDeposits}, Row: oldest},
		{SQL: oldestForwardSQL, Args: []any{feedEvents}, Row: oldest},
		{SQL: freshDepositsSQL, Args: []any{1}, Row: oldest},
		{SQL: freshEventsSQL, Args: []any{1}, Row: oldest},
	})
}

// ForwardID returns the webhook-id of an entry.
func ForwardID(feed client.FeedName, seq int64) string {
	if feed == client.FeedOfEvents {
		return "event_" + strconv.FormatInt(seq, 10)
	}
	return "deposit_" + strconv.FormatInt(seq, 10)
}

const (
	failedForwardsSQL = `SELECT feed, seq, attempts, sending, due, created, reason FROM forwards
WHERE reason <> '' ORDER BY feed, seq LIMIT CAST($1 AS BIGINT)`

	retryForwardsSQL = `UPDATE forwards SET due = $1 WHERE sending = 0 AND due > $1`
)

// FailedForwards returns the first entries whose attempts failed, deposits before events.
func (b *Book) FailedForwards(ctx context.Context, limit int) ([]client.Forward, error) {
	return db.List(ctx, b, failedForwardsSQL, []any{limit}, func(r db.Rows) (f client.Forward, err error) {
		var feed client.FeedName
		var seq, sending int64
		err = r.Scan(&feed, &seq, &f.Attempts, &sending, &f.Due, &f.Created, &f.LastError)
		f.ID, f.Sending = ForwardID(feed, seq), sending != 0
		return f, err
	})
}

// RetryForwards makes all failed entries due and returns their number.
func (b *Book) RetryForwards(ctx context.Context, now db.Millis) (n int64, err error) {
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		// Without the lock, two retries that change the same rows at once could wait for each other.
		if err := lockForwarding(ctx, t); err != nil {
			return err
		}
		t.Wake(TopicForwards)
		if n, err = t.Exec(ctx, retryForwardsSQL, int64(now)); err != nil {
			return err
		}
		return journal.Add(ctx, t, journal.Record{Kind: journal.ForwardRetried, At: now, Data: journal.Forward{Retried: n}})
	})
	return n, err
}
