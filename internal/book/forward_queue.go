package book

import (
	"context"
	"fmt"

	"countersign/internal/db"
	"countersign/internal/journal"
)

const (
	positionsSQL = `SELECT feed, seq, begun, asked FROM forwarding ORDER BY feed`

	lockPositionsSQL = positionsSQL + `{lock}`

	beginForwardingSQL = `UPDATE forwarding SET seq = $2, begun = $3, asked = $4 WHERE feed = $1`
)

// position is a row of forwarding.
type position struct {
	Forwarding
	asked  string
	epochs db.Epochs
}

// count counts what is still to be handed over.
func (p *position) count() {
	if p.Fresh = 0; p.Begun != 0 {
		p.Fresh = p.epochs.Between(p.Feed.String(), p.Seq, p.Last)
	}
}

// positions reads the rows of forwarding, by feed.
func positions(ctx context.Context, q db.Querier, text string) (list [2]position, err error) {
	last, err := db.LastSeqs(ctx, q)
	if err != nil {
		return list, err
	}
	epochs, err := db.ReadEpochs(ctx, q)
	if err != nil {
		return list, err
	}
	err = db.Each(ctx, q, text, nil, func(r db.Rows) error {
		p := position{epochs: epochs}
		err := r.Scan(&p.Feed, &p.Seq, &p.Begun, &p.asked)
		// A row that was read later may be ahead of the numbers.
		p.Last = max(last[p.Feed.String()], p.Seq)
		p.count()
		list[p.Feed] = p
		return err
	})
	return list, err
}

// BeginForwarding sets where forwarding starts. A value that is Set is applied once:
// the same one changes nothing until another was given, so that a gateway that is
// started again with the same settings goes on where it was. It gives both feeds, and
// of each whether this call has begun or moved it. A number beyond the end of its feed
// is a *ConflictError.
func (b *Book) BeginForwarding(ctx context.Context, from ForwardFrom, now db.Millis) (feeds [2]Forwarding, moved [2]bool, err error) {
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		list, err := positions(ctx, t, lockPositionsSQL)
		if err != nil {
			return err
		}
		purged, err := purgedUpTo(ctx, t)
		if err != nil {
			return err
		}
		for i, start := range []ForwardStart{FeedDeposits: from.Deposits, FeedEvents: from.Events} {
			p := list[i]
			feeds[i] = p.Forwarding
			fresh := start.Set && start.String() != p.asked
			switch {
			case fresh && start.From > p.Last:
				return &db.ConflictError{Reason: fmt.Sprintf("the feed of %s ends at %d, and %d was given", p.Feed, p.Last, start.From)}
			case fresh && start.Now:
				p.Seq = p.Last
			case fresh:
				p.Seq = max(start.From-1, 0)
			}
			if moved[i] = fresh || p.Begun == 0; !moved[i] {
				continue
			}
			if p.Feed == FeedDeposits && p.Seq < purged {
				return &db.ConflictError{Reason: fmt.Sprintf("deposits up to number %d were purged, and the first to be forwarded would be %d: begin with a later one", purged, p.Seq+1)}
			}
			if fresh {
				p.asked = start.String()
			}
			p.Begun = max(p.Begun, 1, now)
			p.count()
			feeds[i] = p.Forwarding
			if _, err := t.Exec(ctx, beginForwardingSQL, i, p.Seq, int64(p.Begun), p.asked); err != nil {
				return err
			}
			if err := journal.Add(ctx, t, journal.Record{Kind: journal.ForwardingBegun, At: now, Data: journal.Forward{Feed: p.Feed.String(), Seq: p.Seq + 1}}); err != nil {
				return err
			}
		}
		return nil
	})
	return feeds, moved, err
}

const (
	// A feed's entries are recorded in the order of their numbers.
	oldestForwardSQL = `SELECT created FROM forwards WHERE feed = $1 AND skipped = 0 ORDER BY seq LIMIT 1`

	oldestFreshDepositSQL = `SELECT taken FROM deposits WHERE seq > (SELECT seq FROM forwarding WHERE feed = 0 AND begun > 0) ORDER BY seq LIMIT 1`
	oldestFreshEventSQL   = `SELECT at FROM events WHERE seq > (SELECT seq FROM forwarding WHERE feed = 1 AND begun > 0) ORDER BY seq LIMIT 1`
)

// forwardStats fills in what s says of the forwarding.
func forwardStats(ctx context.Context, q db.Querier, s *Stats, list [2]position, counts map[string]int64) error {
	s.Retrying, s.Skipped = counts[countForwards], counts[countSkipped]
	s.Forwards = s.Retrying
	for i, p := range list {
		s.Forwarding[i] = p.Forwarding
		s.Forwards += p.Fresh
	}
	oldest := func(r db.Rows) error {
		var at db.Millis
		err := r.Scan(&at)
		s.ForwardOldest = min(s.ForwardOldest, at)
		return err
	}
	return q.Batch(ctx, []db.Statement{
		{SQL: oldestForwardSQL, Args: []any{int64(FeedDeposits)}, Row: oldest},
		{SQL: oldestForwardSQL, Args: []any{int64(FeedEvents)}, Row: oldest},
		{SQL: oldestFreshDepositSQL, Row: oldest},
		{SQL: oldestFreshEventSQL, Row: oldest},
	})
}

const (
	forwardColumns = `feed, seq, attempts, sending, due, created, reason, skipped, skipped_by, skip_reason`

	failedForwardsSQL = `SELECT ` + forwardColumns + ` FROM forwards
WHERE (feed, seq) > ($1, $2) AND skipped = 0 AND reason <> '' ORDER BY feed, seq LIMIT CAST($3 AS BIGINT)`

	skippedForwardsSQL = `SELECT ` + forwardColumns + ` FROM forwards
WHERE (feed, seq) > ($1, $2) AND skipped > 0 ORDER BY feed, seq LIMIT CAST($3 AS BIGINT)`

	readForwardSQL = `SELECT ` + forwardColumns + ` FROM forwards WHERE feed = $1 AND seq = $2{lock}`
)

// ForwardRows returns the entries after number seq of a feed, deposits before events,
// that the application does not have: those that were sent in vain, or those that a
// person gave up.
func (b *Book) ForwardRows(ctx context.Context, skipped bool, feed Feed, seq int64, limit int) ([]ForwardRow, error) {
	text := failedForwardsSQL
	if skipped {
		text = skippedForwardsSQL
	}
	return forwardRows(ctx, b, text, int64(feed), seq, limit)
}

func forwardRows(ctx context.Context, q db.Querier, text string, args ...any) ([]ForwardRow, error) {
	return db.List(ctx, q, text, args, func(r db.Rows) (f ForwardRow, err error) {
		var sending int64
		err = r.Scan(&f.Feed, &f.Seq, &f.Attempts, &sending, &f.Due, &f.Created, &f.Reason, &f.Skipped, &f.SkippedBy, &f.SkipReason)
		f.Sending = sending != 0
		return f, err
	})
}

const (
	retryForwardsSQL = `UPDATE forwards SET due = $1 WHERE skipped = 0 AND sending = 0 AND due > $1`

	retryForwardSQL = `
UPDATE forwards SET due = $3, sending = 0, skipped = 0, skipped_by = '', skip_reason = ''
WHERE feed = $1 AND seq = $2 AND (skipped > 0 OR sending = 0)`

	skipForwardSQL = `UPDATE forwards SET due = $3, skipped = $4, skipped_by = $5, skip_reason = $6 WHERE feed = $1 AND seq = $2 AND skipped = 0`
)

// RetryForwards makes all entries due that were sent in vain, and gives their number.
func (b *Book) RetryForwards(ctx context.Context, now db.Millis) (n int64, err error) {
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		// Two that change the same rows at once could wait for each other.
		if _, err := positions(ctx, t, lockPositionsSQL); err != nil {
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

// RetryForward makes one entry due, also one that was given up. While an attempt is
// under way it changes nothing.
func (b *Book) RetryForward(ctx context.Context, feed Feed, seq int64, now db.Millis) (ForwardRow, error) {
	return b.changeForward(ctx, feed, seq, func(ctx context.Context, t *db.Tx, f ForwardRow) error {
		n, err := t.Exec(ctx, retryForwardSQL, int64(feed), seq, int64(now))
		if err != nil || n == 0 {
			return err
		}
		t.Wake(TopicForwards)
		if err := journal.Add(ctx, t, journal.Record{Kind: journal.ForwardRetried, At: now, Data: journal.Forward{Feed: feed.String(), Seq: seq}}); err != nil || f.Skipped == 0 {
			return err
		}
		return t.Batch(ctx, t.Counted(t.Counted(nil, countSkipped, -n), countForwards, n))
	})
}

// SkipForward gives an entry up: it is not sent again. An attempt that is under way
// may still bring it to the application, and then it is no longer listed. Repeating
// it changes nothing.
func (b *Book) SkipForward(ctx context.Context, feed Feed, seq int64, by, reason string, now db.Millis) (ForwardRow, error) {
	if err := db.CheckText("reason", reason); err != nil {
		return ForwardRow{}, &db.ItemError{Member: "reason", Err: err}
	}
	return b.changeForward(ctx, feed, seq, func(ctx context.Context, t *db.Tx, f ForwardRow) error {
		n, err := t.Exec(ctx, skipForwardSQL, int64(feed), seq, int64(db.Never), int64(now), by, reason)
		if err != nil || n == 0 {
			return err
		}
		err = journal.Add(ctx, t, journal.Record{Kind: journal.ForwardSkipped, At: now, Data: journal.Forward{Feed: feed.String(), Seq: seq, Reason: reason}})
		if err != nil {
			return err
		}
		return t.Batch(ctx, t.Counted(t.Counted(nil, countSkipped, n), countForwards, -n))
	})
}

// changeForward changes the row of an entry, which it locks, and gives the row as it
// is then.
func (b *Book) changeForward(ctx context.Context, feed Feed, seq int64, change func(context.Context, *db.Tx, ForwardRow) error) (f ForwardRow, err error) {
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		list, err := forwardRows(ctx, t, readForwardSQL, int64(feed), seq)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return noForward(ctx, t, feed, seq)
		}
		if err := change(ctx, t, list[0]); err != nil {
			return err
		}
		list, err = forwardRows(ctx, t, readForwardSQL, int64(feed), seq)
		if err == nil {
			f = list[0]
		}
		return err
	})
	return f, err
}

// noForward says why an entry has no row.
func noForward(ctx context.Context, t *db.Tx, feed Feed, seq int64) error {
	list, err := positions(ctx, t, positionsSQL)
	p := list[feed]
	switch {
	case err != nil:
		return err
	case seq > p.Last:
		return db.ErrNotFound
	case seq > p.Seq || p.Begun == 0:
		return &db.ConflictError{Reason: "the entry was not sent yet"}
	}
	return &db.ConflictError{Reason: "the entry does not wait: the application has it, or forwarding began after it"}
}
