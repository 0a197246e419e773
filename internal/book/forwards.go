package book

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// An entry of a feed has a row in forwards from the transaction that records it until the application has taken it,
// whichever gateway recorded it. Before a gateway first forwards, entries have no rows.
const (
	// The feeds are locked, so forwarding cannot begin between an entry and its row.
	forwardDepositsSQL = `
INSERT INTO forwards (feed, seq, created) SELECT 'deposits', seq, taken FROM deposits
WHERE seq > $1 AND EXISTS (SELECT 1 FROM forwarding WHERE begun > 0)`

	forwardEventsSQL = `
INSERT INTO forwards (feed, seq, created) SELECT 'events', seq, at FROM events
WHERE seq > $1 AND EXISTS (SELECT 1 FROM forwarding WHERE begun > 0)`

	// Those that were never sent come first, the oldest first. The others follow in the order in which they are due.
	dueForwardsSQL = `
SELECT feed, seq FROM forwards WHERE due <= $1 ORDER BY due, created, feed, seq LIMIT CAST($2 AS BIGINT){skip}`

	anyForwardSQL = `SELECT 1 FROM forwards WHERE due <= $1 LIMIT 1`

	claimForwardSQL = `
UPDATE forwards SET due = $3, attempts = attempts + 1, sending = 1 WHERE feed = $1 AND seq = $2 RETURNING attempts`

	forwardDoneSQL = `DELETE FROM forwards WHERE feed = $1 AND seq = $2`

	forwardAgainSQL = `
UPDATE forwards SET due = $3, reason = $4, sending = 0 WHERE feed = $1 AND seq = $2 AND attempts = $5`
)

// Forward is one entry of a feed. Until its lease ends, only this node may send it to the merchant's application.
type Forward struct {
	Feed     client.FeedName
	Seq      int64
	Attempts int // attempts that were started, including this one
}

// ClaimForwards leases at most limit due entries. No other claim gets them until the lease ends. Entries that are not
// settled by then are due again.
func (b *Book) ClaimForwards(ctx context.Context, now db.Millis, lease time.Duration,
	limit int) (list []Forward, err error) {
	// Most claims would find nothing. This query shows that without a transaction and without a lock.
	if any, err := db.One(ctx, b, anyForwardSQL, []any{int64(now)}); err != nil || !any {
		return nil, err
	}
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) (err error) {
		list, err = db.List(ctx, t, dueForwardsSQL, []any{int64(now), limit}, func(r db.Rows) (f Forward, err error) {
			err = r.Scan(&f.Feed, &f.Seq)
			return f, err
		})
		var claims []db.Statement
		for i := range list {
			f := &list[i]
			claims = append(claims, db.Statement{SQL: claimForwardSQL,
				Args: []any{string(f.Feed), f.Seq, int64(now) + lease.Milliseconds()},
				Row:  func(r db.Rows) error { return r.Scan(&f.Attempts) }})
		}
		if err != nil {
			return err
		}
		return t.Batch(ctx, claims)
	})
	return list, err
}

// ForwardDone records that the application has the entry, even if the attempt has lost its lease.
func (b *Book) ForwardDone(ctx context.Context, f Forward) error {
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, forwardDoneSQL, string(f.Feed), f.Seq)
		t.Count(countForwards, -n)
		return err
	})
}

// ForwardFailed ends a failed attempt. The next attempt is at due. It changes nothing if the attempt has lost its
// lease. reason is a short text.
func (b *Book) ForwardFailed(ctx context.Context, f Forward, reason string, due db.Millis) error {
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := t.Exec(ctx, forwardAgainSQL, string(f.Feed), f.Seq, int64(due), db.Clean(reason), f.Attempts)
		return err
	})
}

const (
	begunSQL = `SELECT begun FROM forwarding WHERE one = 1`

	beginForwardingSQL = `UPDATE forwarding SET begun = $1 WHERE one = 1`
)

// lockForwarding prevents others from purging deposits, from beginning to forward, and from making entries due again.
// It returns when forwarding began, or 0.
func lockForwarding(ctx context.Context, t *db.Tx) (begun db.Millis, err error) {
	_, err = db.One(ctx, t, begunSQL+"{lock}", nil, &begun)
	return begun, err
}

// BeginForwarding starts the forwarding if that was never done, with the first entry of each feed, or with the next
// new one if onlyNew. It reports whether it did.
func (b *Book) BeginForwarding(ctx context.Context, onlyNew bool, now db.Millis) (begins bool, err error) {
	err = b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		begun, err := lockForwarding(ctx, t)
		if begins = begun == 0; err != nil || !begins {
			return err
		}
		for _, feed := range []string{feedDeposits, feedEvents} {
			if _, err := db.LockFeed(ctx, t, feed); err != nil {
				return err
			}
		}
		if _, err := t.Exec(ctx, beginForwardingSQL, int64(max(1, now))); err != nil {
			return err
		}
		if !onlyNew {
			purged, err := PurgedUpTo(ctx, t)
			if err != nil {
				return err
			}
			if purged > 0 {
				return &db.ConflictError{Reason: fmt.Sprintf(
					"deposits up to number %d were purged and cannot be forwarded", purged)}
			}
			if err := forwardAfter(ctx, t, forwardDepositsSQL, 0); err != nil {
				return err
			}
			if err := forwardAfter(ctx, t, forwardEventsSQL, 0); err != nil {
				return err
			}
			t.Wake(TopicForwards)
		}
		return journal.Add(ctx, t, journal.Record{Kind: journal.ForwardingBegun, At: now,
			Data: journal.Forward{OnlyNew: onlyNew}})
	})
	return begins, err
}

// forwardAfter gives the entries after a number their rows, if forwarding has begun. text is forwardDepositsSQL or
// forwardEventsSQL.
func forwardAfter(ctx context.Context, t *db.Tx, text string, after int64) error {
	n, err := t.Exec(ctx, text, after)
	t.Count(countForwards, n)
	return err
}

// The entries of a feed are recorded in the order of their numbers.
const oldestForwardSQL = `SELECT created FROM forwards WHERE feed = $1 ORDER BY seq LIMIT 1`

// Forwarding returns the state of the forwarding, without the list of failed entries. Its cost does not grow with the
// number of entries.
func (b *Book) Forwarding(ctx context.Context) (client.Forwarding, error) {
	var s client.Forwarding
	counts, err := db.Counts(ctx, b)
	if err != nil {
		return s, err
	}
	s.Waiting = counts[countForwards]
	oldest := func(r db.Rows) error {
		var at db.Millis
		err := r.Scan(&at)
		if s.Oldest == 0 || at < s.Oldest {
			s.Oldest = at
		}
		return err
	}
	return s, b.Batch(ctx, []db.Statement{
		{SQL: begunSQL, Row: func(r db.Rows) error { return r.Scan(&s.Begun) }},
		{SQL: oldestForwardSQL, Args: []any{feedDeposits}, Row: oldest},
		{SQL: oldestForwardSQL, Args: []any{feedEvents}, Row: oldest},
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
		var seq int64
		err = r.Scan(&feed, &seq, &f.Attempts, db.Bool(&f.Sending), &f.Due, &f.Created, &f.LastError)
		f.ID = ForwardID(feed, seq)
		return f, err
	})
}

// RetryForwards makes all failed entries due and returns their number.
func (b *Book) RetryForwards(ctx context.Context, now db.Millis) (n int64, err error) {
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		// Without the lock, two retries that change the same rows at once could wait for each other.
		if _, err := lockForwarding(ctx, t); err != nil {
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
