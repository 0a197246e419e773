package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/client"
	"countersign/internal/db"
)

const (
	cursorSQL     = `SELECT decisions FROM countersign_relay`
	lockCursorSQL = cursorSQL + ` FOR UPDATE`
	moveCursorSQL = `UPDATE countersign_relay SET decisions = $1`

	insertDecisionSQL = `
INSERT INTO countersign_decisions (seq, merchant, call_back_id, withdrawal, decision, body)
VALUES ($1, $2, $3, $4, $5, $6::json) ON CONFLICT (merchant, call_back_id) DO NOTHING`

	earlierDecisionSQL = `SELECT seq, decision, withdrawal FROM countersign_decisions WHERE merchant = $1 AND call_back_id = $2`

	// anewDecisionSQL gives a known decision the withdrawal that the service has now. The number is new too, so that a
	// reader by number learns of it.
	anewDecisionSQL = `
UPDATE countersign_decisions SET seq = $1, withdrawal = $4, body = $5::json WHERE merchant = $2 AND call_back_id = $3`
)

const (
	followFor = 30 * time.Second // one call waits this long for a decision
	page      = 500              // decisions of one call
	// epochGap is the least distance between the numbers of two epochs of a feed.
	epochGap = 1_000_000
)

// decisions writes decisions into the core's database until ctx ends.
func (r *Relay) decisions(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		err := r.writeDecisions(ctx)
		if ctx.Err() != nil {
			return
		}
		r.state.set(partDecisions, err)
		switch {
		case err == nil:
			failures = 0
			r.metrics.stopped.Set(0)
		case errors.Is(err, ErrFeed):
			r.metrics.stopped.Set(1)
			db.Sleep(ctx, r.c.lastPause)
		default:
			failures++
			db.Sleep(ctx, pauseAfter(failures, r.c.lastPause))
		}
	}
}

// before returns the first n entries of a page, n > 0, up to one that stops the relay. They are written first, and the
// next call fails: if the cursor passed that entry, later ones would be lost.
func before(part client.Feed[client.Decision], n int) client.Feed[client.Decision] {
	return client.Feed[client.Decision]{Items: part.Items[:n], Next: part.Items[n-1].Seq}
}

// writeDecisions writes the next decisions, and waits a while for one. No transaction is open meanwhile. The
// transaction that writes them moves the cursor from where it was when they were asked for, so only one of several
// relays writes each decision.
func (r *Relay) writeDecisions(ctx context.Context) error {
	var after int64
	look, cancel := context.WithTimeout(ctx, sqlTimeout)
	err := r.pool.QueryRow(look, cursorSQL).Scan(&after)
	cancel()
	if err != nil {
		return fmt.Errorf("reading the cursor: %w", err)
	}
	asked := time.Now()
	call, cancel := context.WithTimeout(ctx, followFor+callTimeout)
	part, err := ask(call, r, func(ctx context.Context, api *client.Service) (client.Feed[client.Decision], error) {
		return api.Decisions(ctx, client.FeedOptions{After: after, Limit: page, Wait: followFor})
	})
	cancel()
	if errors.Is(err, client.ErrConflict) {
		return fmt.Errorf("%w: after %d: %v", ErrFeed, after, err)
	}
	if err != nil {
		return fmt.Errorf("asking for decisions: %w", err)
	}
	if n, err := r.checkFeed(ctx, after, part.Items); err != nil {
		if n == 0 {
			return err
		}
		part = before(part, n)
	}
	if part.Next == after {
		if time.Since(asked) < time.Second { // a stopping service answers without waiting
			db.Sleep(ctx, min(time.Second, r.c.lastPause))
		}
		return nil
	}
	write, cancel := context.WithTimeout(ctx, sqlTimeout)
	defer cancel()
	return pgx.BeginTxFunc(write, r.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var is int64
		if err := tx.QueryRow(write, lockCursorSQL).Scan(&is); err != nil || is != after {
			return err // another relay was first
		}
		for i, d := range part.Items {
			err := insertDecision(write, tx, d)
			if i > 0 && errors.Is(err, ErrFeed) {
				part = before(part, i)
				break
			}
			if err != nil {
				return err
			}
		}
		if _, err := tx.Exec(write, moveCursorSQL, part.Next); err != nil {
			return err
		}
		if len(part.Items) > 0 {
			r.metrics.decided.Add(float64(len(part.Items)))
			_, err := tx.Exec(write, `NOTIFY countersign_decisions`)
			return err
		}
		return nil
	})
}

// insertDecision keeps a decision, once. A known withdrawal with another decision is ErrFeed. A withdrawal that the
// service lost in a restore and was given again has a new id there, under which alone it can be released: its row gets
// that id.
func insertDecision(ctx context.Context, tx pgx.Tx, d client.Decision) error {
	w := d.Withdrawal
	body, err := json.Marshal(w)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, insertDecisionSQL, d.Seq, w.Merchant, w.CallBackID, w.ID, string(w.Decision), string(body))
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	var seq int64
	var decision, withdrawal string
	if err := tx.QueryRow(ctx, earlierDecisionSQL, w.Merchant, w.CallBackID).Scan(&seq, &decision,
		&withdrawal); err != nil {
		return err
	}
	switch {
	case decision != string(w.Decision):
		return fmt.Errorf("%w: entry %d says %s of %s/%s, and entry %d said %s", ErrFeed, d.Seq, w.Decision, w.Merchant,
			w.CallBackID, seq, decision)
	case withdrawal != w.ID:
		_, err = tx.Exec(ctx, anewDecisionSQL, d.Seq, w.Merchant, w.CallBackID, w.ID, string(body))
	}
	return err
}

// checkFeed returns ErrFeed if a page goes on in another epoch than the cursor's, and the number of entries before that
// place. The feed has no gaps, except for a token that sees some merchants alone.
func (r *Relay) checkFeed(ctx context.Context, after int64, list []client.Decision) (n int, err error) {
	for i, d := range list {
		if d.Seq == after+1 {
			after = d.Seq
			continue
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		self, err := ask(call, r, func(ctx context.Context, api *client.Service) (client.Self, error) {
			return api.Self(ctx)
		})
		cancel()
		switch {
		case err != nil:
			return 0, fmt.Errorf("asking for the token's merchants: %w", err)
		case len(self.Merchants) == 0 || d.Seq-after >= epochGap || d.Seq <= after:
			return i, fmt.Errorf("%w: entry %d follows entry %d", ErrFeed, d.Seq, after)
		}
		after = d.Seq
	}
	return len(list), nil
}
