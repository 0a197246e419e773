package book

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Entries of a feed are handed over to forwarding in their order. The table forwarding has the number of the last one
// of each feed. From then on an entry has a row in forwards, until the application has taken it. The first claim
// inserts that row. So recording an entry costs nothing extra, and no entry is missing if no gateway was forwarding
// at the time.
const (
	// handOverSQL locks the handing over, so that no other node takes the next entries.
	handOverSQL = `SELECT 1 FROM forwarding ORDER BY feed{lock}`

	handedOverSQL = `UPDATE forwarding SET seq = $2 WHERE feed = $1`

	dueForwardsSQL = `SELECT feed, seq, due FROM forwards WHERE due <= $1 ORDER BY due, feed, seq LIMIT CAST($2 AS BIGINT){skip}`

	claimForwardSQL = `
UPDATE forwards SET due = $3, attempts = attempts + 1, sending = 1 WHERE feed = $1 AND seq = $2 RETURNING attempts`

	insertForwardSQL = `INSERT INTO forwards (feed, seq, due, attempts, sending, created) VALUES ($1, $2, $3, 1, 1, $4)`

	forwardDoneSQL = `DELETE FROM forwards WHERE feed = $1 AND seq = $2`

	forwardAgainSQL = `
UPDATE forwards SET due = $3, reason = $4, sending = 0 WHERE feed = $1 AND seq = $2 AND attempts = $5`

	// What was not handed over yet, in the order of the numbers.
	freshDeposits    = `FROM deposits WHERE seq > (SELECT seq FROM forwarding WHERE feed = 'deposits' AND begun > 0)`
	freshDepositsSQL = `SELECT 'deposits', seq, taken ` + freshDeposits + ` ORDER BY seq LIMIT CAST($1 AS BIGINT)`
	freshEvents      = `FROM events WHERE seq > (SELECT seq FROM forwarding WHERE feed = 'events' AND begun > 0)`
	freshEventsSQL   = `SELECT 'events', seq, at ` + freshEvents + ` ORDER BY seq LIMIT CAST($1 AS BIGINT)`

	// anyForwardSQL reports whether a claim would find anything.
	anyForwardSQL = `
SELECT 1 WHERE EXISTS (SELECT 1 FROM forwards WHERE due <= $1) OR EXISTS (SELECT 1 ` + freshDeposits +
		`) OR EXISTS (SELECT 1 ` + freshEvents + `)`
)

var insertForwards = db.NewInsert(insertForwardSQL, 8)

// Forward is one entry of a feed. Until its lease ends, only this node may send it to the merchant's application.
type Forward struct {
	Feed     client.FeedName
	Seq      int64
	Attempts int // attempts that were started, including this one

	at    db.Millis // when it began to wait
	fresh bool      // it has no row yet
}

// ClaimForwards leases at most limit due entries. Those that have waited longest come first. No other claim gets them
// until the lease ends. Entries that are not settled by then are due again.
func (b *Book) ClaimForwards(ctx context.Context, now db.Millis, lease time.Duration,
	limit int) (list []Forward, err error) {
	// Most claims would find nothing. This query shows that without a transaction and without a lock.
	var is int
	if any, err := db.One(ctx, b, anyForwardSQL, []any{int64(now)}, &is); err != nil || !any {
		return nil, err
	}
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) (err error) {
		if list, err = findForwards(ctx, t, now, limit); err == nil {
			err = claimForwards(ctx, t, list, now+db.Millis(lease.Milliseconds()))
		}
		return err
	})
	return list, err
}

// claimForwards leases what findForwards found, until due.
func claimForwards(ctx context.Context, t *db.Tx, list []Forward, due db.Millis) error {
	var statements []db.Statement
	var rows []any
	last := map[client.FeedName]int64{}
	for i := range list {
		f := &list[i]
		if f.fresh {
			rows = append(rows, string(f.Feed), f.Seq, int64(due), int64(f.at))
			last[f.Feed] = f.Seq
			continue
		}
		statements = append(statements, db.Statement{SQL: claimForwardSQL, Args: []any{string(f.Feed), f.Seq, int64(due)},
			Row: func(r db.Rows) error { return r.Scan(&f.Attempts) }})
	}
	statements = append(statements, insertForwards.Statements(rows, nil)...)
	for feed, seq := range last {
		statements = append(statements, db.Statement{SQL: handedOverSQL, Args: []any{string(feed), seq}})
	}
	if err := t.Batch(ctx, statements); err != nil {
		return err
	}
	return t.Count(ctx, countForwards, int64(len(rows)/4))
}

// lockForwarding prevents others from handing over entries and from beginning to forward.
func lockForwarding(ctx context.Context, t *db.Tx) error {
	return db.Each(ctx, t, handOverSQL, nil, func(db.Rows) error { return nil })
}

// findForwards returns the entries to claim. It locks their rows and the handing over.
func findForwards(ctx context.Context, t *db.Tx, now db.Millis, limit int) (list []Forward, err error) {
	latest := map[client.FeedName]db.Millis{}
	scan := func(fresh bool) func(db.Rows) error {
		return func(r db.Rows) error {
			f := Forward{fresh: fresh}
			err := r.Scan(&f.Feed, &f.Seq, &f.at)
			if fresh {
				// The clocks of nodes differ, but no entry may be handed over before its predecessor.
				f.at = max(f.at, latest[f.Feed])
				latest[f.Feed], f.Attempts = f.at, 1
			}
			list = append(list, f)
			return err
		}
	}
	err = t.Batch(ctx, []db.Statement{
		{SQL: handOverSQL, Row: func(db.Rows) error { return nil }},
		{SQL: dueForwardsSQL, Args: []any{int64(now), limit}, Row: scan(false)},
		{SQL: freshDepositsSQL, Args: []any{limit}, Row: scan(true)},
		{SQL: freshEventsSQL, Args: []any{limit}, Row: scan(true)},
	})
	slices.SortStableFunc(list, func(a, b Forward) int { return cmp.Compare(a.at, b.at) })
	return list[:min(limit, len(list))], err
}

// ForwardDone records that the application has the entry, even if the attempt has lost its lease.
func (b *Book) ForwardDone(ctx context.Context, f Forward) error {
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, forwardDoneSQL, string(f.Feed), f.Seq)
		if err != nil {
			return err
		}
		return t.Count(ctx, countForwards, -n)
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
