package store

import (
	"context"
	"time"

	"countersign"
)

const insertAttemptSQL = `
INSERT INTO attempts (merchant, callback, number, request_uuid, started, duration, http_status, err_code, outcome, reason,
	node, request_hash, response_hash, late, accepted, settled, failed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`

var insertAttempts = newInsert(insertAttemptSQL, 17)

// A late result takes the place of the note that its lease was lost, and of
// nothing else.
const keepLateAttemptSQL = insertAttemptSQL + `
ON CONFLICT (merchant, callback, number) DO UPDATE SET request_uuid = $4, started = $5, duration = $6, http_status = $7,
	err_code = $8, outcome = $9, reason = $10, node = $11, request_hash = $12, response_hash = $13, late = $14, settled = $16
WHERE attempts.outcome = 'lost'`

const sameAttemptSQL = `
SELECT request_uuid, late FROM attempts WHERE merchant = $1 AND callback = $2 AND number = $3 AND outcome <> 'lost'`

const hasCallbackSQL = `SELECT 1 FROM callbacks WHERE merchant = $1 AND id = $2`

// settleAttempts keeps the attempts. It finds settlements that were made
// before: their call failed, but was done.
func (s *Store) settleAttempts(ctx context.Context, t *tx, batch []*settling) error {
	var looks []statement
	known := make([]bool, len(batch))
	for i, b := range batch {
		if b.found {
			continue
		}
		key := []any{b.Merchant, b.id, b.Attempt.Number}
		looks = append(looks, statement{sql: hasCallbackSQL, args: key[:2], row: func(r rows) error {
			var is int
			b.fresh = true
			return r.Scan(&is)
		}}, statement{sql: sameAttemptSQL, args: key, row: func(r rows) error {
			var uuid string
			var late int64
			err := r.Scan(&uuid, &late)
			known[i] = true
			b.out.Applied = late == 0 && uuid == clean(b.Attempt.RequestUUID)
			return err
		}})
	}
	if err := t.batch(ctx, looks); err != nil {
		return err
	}
	var late []statement
	args := make([]any, 0, insertAttempts.n*len(batch))
	for i, b := range batch {
		if known[i] {
			b.fresh = false
			continue
		}
		switch {
		case b.found:
			b.fresh = true
			args = b.attempt(args, false)
		case b.fresh:
			late = append(late, statement{sql: keepLateAttemptSQL, args: b.attempt(nil, true)})
		}
	}
	return t.batch(ctx, append(insertAttempts.statements(args, nil), late...))
}

// attempt appends the values of insertAttemptSQL.
func (b *settling) attempt(to []any, late bool) []any {
	a := &b.Attempt
	var code any
	if a.ErrCode != nil {
		code = *a.ErrCode
	}
	return append(to, b.Merchant, b.id, a.Number, clean(a.RequestUUID), int64(a.Started), int64(a.Duration/time.Microsecond), a.HTTPStatus,
		code, clean(a.Outcome), clean(a.Reason), clean(a.Node), unhex(a.RequestHash), unhex(a.ResponseHash),
		flag(late), flag(!late && b.state == CallbackAccepted), int64(b.now), b.failed)
}

// settleLate compares answers that came after the decision with it. The first
// decision stands.
func (s *Store) settleLate(ctx context.Context, t *tx, batch []*settling, feed *feedEntries) error {
	var reads []statement
	for _, b := range batch {
		if b.Decision == countersign.DecisionNone || !b.fresh || b.awaiting == 1 && b.decided == b.Decision {
			continue
		}
		reads = append(reads, statement{sql: readWithdrawalSQL, args: []any{b.Merchant, b.id}, row: func(r rows) error {
			w, err := scanWithdrawal(r)
			if err != nil || w.Decision == countersign.DecisionNone {
				return err // awaiting: somebody else's attempt will decide
			}
			b.out.Late = true
			b.out.Differs = w.Decision != b.Decision ||
				b.Decision == countersign.DecisionConfirmed && (w.Details == nil || b.Details.Differs(*w.Details) != "")
			if b.out.Differs {
				feed.alarm(b.Merchant, AlarmAnswerDiffers, w.ID, b.now)
			}
			return nil
		}})
	}
	return t.batch(ctx, reads)
}

const lockMerchantSQL = `SELECT 1 FROM merchants WHERE id = $1{lock}`

const keepOpenFailureSQL = `
INSERT INTO open_failures (merchant, callback, number, at) VALUES ($1, $2, $3, $4)
ON CONFLICT (merchant, callback, number) DO NOTHING`

const dropOpenFailuresSQL = `DELETE FROM open_failures WHERE merchant = $1 AND at <= $2`

const countOpenFailuresSQL = `SELECT COUNT(*) FROM open_failures WHERE merchant = $1`

// settleOpenFailures counts opening failures and pauses a merchant that has too
// many: somebody may be trying keys or padding on us.
func (s *Store) settleOpenFailures(ctx context.Context, t *tx, batch []*settling, feed *feedEntries, now Millis) error {
	for _, b := range batch {
		if !b.OpenFailure || !b.fresh {
			continue
		}
		var n int64
		// The lock makes nodes count one after the other.
		if _, err := one(ctx, t, lockMerchantSQL, []any{b.Merchant}, &n); err != nil {
			return err
		}
		if _, err := t.exec(ctx, dropOpenFailuresSQL, b.Merchant, int64(now-openFailureWindow)); err != nil {
			return err
		}
		if _, err := t.exec(ctx, keepOpenFailureSQL, b.Merchant, b.id, b.Attempt.Number, int64(now)); err != nil {
			return err
		}
		if _, err := one(ctx, t, countOpenFailuresSQL, []any{b.Merchant}, &n); err != nil {
			return err
		}
		if n < OpenFailureLimit {
			continue
		}
		paused, err := s.pause(ctx, t, b.Merchant, now)
		if err != nil {
			return err
		}
		if paused {
			b.out.Paused = true
			feed.alarm(b.Merchant, AlarmOpenFailures, b.CallbackID, now)
		}
	}
	return nil
}
