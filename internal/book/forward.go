package book

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"countersign/internal/db"
)

// Entries of the feeds are handed to the forwarding in their order: the table
// forwarding has the number of the last one of each feed. From then on an entry has a
// row in forwards, until the application has it. The first claim makes that row, so
// that recording an entry costs nothing for it, and nothing is missing whether or not
// a gateway forwarded at the time.
const (
	// handOverSQL keeps other nodes from the entries after the last ones.
	handOverSQL = `SELECT 1 FROM forwarding ORDER BY feed{lock}`

	handedOverSQL = `UPDATE forwarding SET seq = $2 WHERE feed = $1`

	freshDepositsSQL = `SELECT ` + depositColumns + ` FROM deposits
WHERE seq > (SELECT seq FROM forwarding WHERE feed = 0 AND begun > 0) ORDER BY seq LIMIT CAST($1 AS BIGINT)`

	freshEventsSQL = `SELECT ` + eventColumns + ` FROM events
WHERE seq > (SELECT seq FROM forwarding WHERE feed = 1 AND begun > 0) ORDER BY seq LIMIT CAST($1 AS BIGINT)`

	dueForwardsSQL = `SELECT feed, seq, due FROM forwards WHERE due <= $1 ORDER BY due, feed, seq LIMIT CAST($2 AS BIGINT){skip}`

	// anyForwardSQL finds out whether a claim would find something.
	anyForwardSQL = `
SELECT 1 WHERE EXISTS (SELECT 1 FROM forwards WHERE due <= $1)
	OR EXISTS (SELECT 1 FROM deposits WHERE seq > (SELECT seq FROM forwarding WHERE feed = 0 AND begun > 0))
	OR EXISTS (SELECT 1 FROM events WHERE seq > (SELECT seq FROM forwarding WHERE feed = 1 AND begun > 0))`

	claimForwardSQL = `
UPDATE forwards SET due = $3, attempts = attempts + 1, sending = 1 WHERE feed = $1 AND seq = $2 RETURNING attempts`

	// insertForwardSQL leaves out an entry that has its row already: where
	// --forward-from went back over entries that still wait.
	insertForwardSQL = `
INSERT INTO forwards (feed, seq, due, attempts, sending, created) VALUES ($1, $2, $3, 1, 1, $4)
ON CONFLICT (feed, seq) DO NOTHING RETURNING feed, seq`

	forwardDoneSQL = `DELETE FROM forwards WHERE feed = $1 AND seq = $2 RETURNING skipped`

	forwardAgainSQL = `
UPDATE forwards SET due = $3, reason = $4, sending = 0 WHERE feed = $1 AND seq = $2 AND attempts = $5 AND skipped = 0`

	nextForwardSQL = `SELECT due FROM forwards ORDER BY due LIMIT 1`

	readEventSQL = `SELECT ` + eventColumns + ` FROM events WHERE seq = $1`
)

var insertForwards = db.NewInsert(insertForwardSQL, 8)

// forwardable is an entry that could be claimed.
type forwardable struct {
	Forward
	at    db.Millis // since when it waits
	fresh bool      // it has no row yet
}

// ClaimForwards takes at most limit entries that are due, those first that wait
// longest. No other claim gets them until lease ends; entries that are not settled by
// then are due again.
func (b *Book) ClaimForwards(ctx context.Context, now db.Millis, lease time.Duration, limit int) ([]Forward, error) {
	for {
		// Most looks find nothing. They need no transaction and no lock.
		var is int
		if any, err := db.One(ctx, b, anyForwardSQL, []any{int64(now)}, &is); err != nil || !any {
			return nil, err
		}
		var list []Forward
		handed := 0
		err := b.Write(ctx, func(ctx context.Context, t *db.Tx) (err error) {
			list, handed, err = claimForwards(ctx, t, now, now+db.Millis(lease.Milliseconds()), limit)
			return err
		})
		if err != nil || len(list) > 0 || handed == 0 {
			return list, err
		}
	}
}

// claimForwards returns what it claimed, and how many entries were handed over: one
// that already had a row was, and was not claimed.
func claimForwards(ctx context.Context, t *db.Tx, now, due db.Millis, limit int) (list []Forward, handed int, err error) {
	found, err := findForwards(ctx, t, now, limit)
	if err != nil {
		return nil, 0, err
	}
	var statements []db.Statement
	var rows []any
	last := map[Feed]int64{}
	for i := range found {
		f := &found[i]
		if f.fresh {
			rows = append(rows, int64(f.Feed), f.Seq, int64(due), int64(f.at))
			last[f.Feed] = f.Seq
			handed++
			continue
		}
		statements = append(statements, db.Statement{SQL: claimForwardSQL, Args: []any{int64(f.Feed), f.Seq, int64(due)},
			Row: func(r db.Rows) error { return r.Scan(&f.Attempts) }}, f.read())
	}
	inserted := int64(0)
	statements = append(statements, insertForwards.Statements(rows, func(r db.Rows) error {
		var feed Feed
		var seq int64
		err := r.Scan(&feed, &seq)
		for i := range found {
			if f := &found[i]; f.fresh && f.Feed == feed && f.Seq == seq {
				f.Attempts = 1
				inserted++
			}
		}
		return err
	})...)
	for feed, seq := range last {
		statements = append(statements, db.Statement{SQL: handedOverSQL, Args: []any{int64(feed), seq}})
	}
	if err := t.Batch(ctx, statements); err != nil {
		return nil, 0, err
	}
	for _, f := range found {
		if f.Attempts > 0 { // else its row was there, or is no more
			list = append(list, f.Forward)
		}
	}
	return list, handed, t.Count(ctx, countForwards, inserted)
}

// findForwards returns the entries to claim, and locks the rows that they have and the
// handing over.
func findForwards(ctx context.Context, t *db.Tx, now db.Millis, limit int) (list []forwardable, err error) {
	latest := map[Feed]db.Millis{}
	fresh := func(f Forward, at db.Millis) {
		// Clocks of nodes differ, and none may be handed over before its predecessor.
		at = max(at, latest[f.Feed])
		latest[f.Feed] = at
		list = append(list, forwardable{Forward: f, at: at, fresh: true})
	}
	err = t.Batch(ctx, []db.Statement{
		{SQL: handOverSQL, Row: func(db.Rows) error { return nil }},
		{SQL: dueForwardsSQL, Args: []any{int64(now), limit}, Row: func(r db.Rows) error {
			var f forwardable
			err := r.Scan(&f.Feed, &f.Seq, &f.at)
			list = append(list, f)
			return err
		}},
		{SQL: freshDepositsSQL, Args: []any{limit}, Row: func(r db.Rows) error {
			d, err := scanDeposit(r)
			fresh(Forward{Feed: FeedDeposits, Seq: d.Seq, Deposit: d}, d.Taken)
			return err
		}},
		{SQL: freshEventsSQL, Args: []any{limit}, Row: func(r db.Rows) error {
			e, err := scanEvent(r)
			fresh(Forward{Feed: FeedEvents, Seq: e.Seq, Event: e}, e.At)
			return err
		}},
	})
	slices.SortStableFunc(list, func(a, b forwardable) int { return cmp.Compare(a.at, b.at) })
	return list[:min(limit, len(list))], err
}

// read is the statement that reads the entry itself.
func (f *forwardable) read() db.Statement {
	if f.Feed == FeedEvents {
		return db.Statement{SQL: readEventSQL, Args: []any{f.Seq}, Row: func(r db.Rows) (err error) {
			f.Event, err = scanEvent(r)
			return err
		}}
	}
	return db.Statement{SQL: readDepositSQL, Args: []any{f.Seq}, Row: func(r db.Rows) (err error) {
		f.Deposit, err = scanDeposit(r)
		return err
	}}
}

// SettleForwards ends attempts. An attempt that has lost its lease changes nothing
// unless it is Done: then the application has the entry, also where a person has
// given it up meanwhile.
func (b *Book) SettleForwards(ctx context.Context, list []Forwarded) error {
	var waited, given int64 // of those that are done
	statements := make([]db.Statement, len(list))
	for i, f := range list {
		if f.Done {
			statements[i] = db.Statement{SQL: forwardDoneSQL, Args: []any{int64(f.Feed), f.Seq}, Row: func(r db.Rows) error {
				var skipped int64
				err := r.Scan(&skipped)
				if skipped > 0 {
					given++
				} else {
					waited++
				}
				return err
			}}
			continue
		}
		if err := db.CheckText("reason", f.Reason); err != nil {
			return err
		}
		statements[i] = db.Statement{SQL: forwardAgainSQL, Args: []any{int64(f.Feed), f.Seq, int64(f.Due), f.Reason, f.Attempts}}
	}
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		waited, given = 0, 0
		if err := t.Batch(ctx, statements); err != nil {
			return err
		}
		return t.Batch(ctx, t.Counted(t.Counted(nil, countForwards, -waited), countSkipped, -given))
	})
}

// NextForward is when the next entry is due that was forwarded in vain before; Never
// if none is.
func (b *Book) NextForward(ctx context.Context) (db.Millis, error) {
	due := db.Never
	if _, err := db.One(ctx, b, nextForwardSQL, nil, &due); err != nil {
		return db.Never, fmt.Errorf("finding the next entry to forward: %w", err)
	}
	return due, nil
}
