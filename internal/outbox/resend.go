package outbox

import (
	"context"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// A deadline in the past is removed, because a person wants the callback sent. A pending callback keeps it, because no
// attempt is wanted after it.
const resendSQL = `
UPDATE outbox SET state = 'pending', due = $4, failed = 0, held = 0, settled = 0,
	deadline = CASE WHEN state <> 'pending' AND deadline <= $4 THEN 4611686018427387904 ELSE deadline END
WHERE merchant = $1 AND id = $2 AND state = $3 AND CASE state WHEN 'pending' THEN due > $4 ELSE lane = 0 END`

// Resend makes a refused, exhausted or pending callback due at once and restarts its schedule. A pending one that is
// already due stays as it is. Resend returns a *ConflictError for any other state; for an accepted callback see
// Repeat. It also returns one for type 2 unless it is pending, because its question is asked once.
func (o *Outbox) Resend(ctx context.Context, id string, now db.Millis) (Callback, error) {
	var c Callback
	err := o.write(ctx, id, func(ctx context.Context, t *db.Tx, merchant, rest string) error {
		var was client.CallbackState
		var attempts int
		if _, err := db.One(ctx, t, lockQuestionSQL, []any{merchant, rest}, &was, &attempts); err != nil {
			return err
		}
		var err error
		if c, err = findCallback(ctx, t, merchant, rest); err != nil {
			return err
		}
		switch {
		case was == client.CallbackPending:
		case was == client.CallbackSending:
			return &db.ConflictError{Reason: "the callback is " + string(was)}
		case c.Type == countersign.TypeRequestWithdraw:
			return errAskedOnce
		case was != client.CallbackRefused && was != client.CallbackExhausted:
			return &db.ConflictError{Reason: "the callback is " + string(c.State)}
		}
		if _, err := o.resend(ctx, t, []swept{{merchant: merchant, id: rest, lane: c.Type.Lane()}}, was, now); err != nil {
			return err
		}
		c, err = findCallback(ctx, t, merchant, rest)
		return err
	})
	return c, err
}

const (
	// The attempt numbers continue after the accepted attempt.
	repeatSQL = `
INSERT INTO outbox (merchant, id, lane, state, due, attempts, deadline, last_reason, repeated)
SELECT c.merchant, c.id, 0, 'pending', CAST($3 AS BIGINT), a.number, 4611686018427387904, a.reason, 1
FROM callbacks c JOIN attempts a ON a.merchant = '' || c.merchant AND a.callback = c.id AND a.accepted = 1
WHERE c.merchant = $1 AND c.id = $2 AND c.type <> 2
ON CONFLICT (merchant, id) DO NOTHING`

	unacceptSQL = `UPDATE attempts SET accepted = 0 WHERE merchant = $1 AND callback = $2 AND accepted = 1`
)

// Repeat sends an accepted callback once more, for a merchant that has lost it. A merchant that still has it answers
// as to any repetition, because the trackingId is the same. Repeat reports whether the callback was accepted and is
// sent again. It returns ErrNotFound if the callback is unknown, and a *ConflictError for type 2, because its
// question is asked once.
func (o *Outbox) Repeat(ctx context.Context, id string, now db.Millis) (repeated bool, err error) {
	err = o.write(ctx, id, func(ctx context.Context, t *db.Tx, merchant, rest string) error {
		var typ countersign.Type
		switch found, err := db.One(ctx, t, typeOfSQL, []any{merchant, rest}, &typ); {
		case err != nil:
			return err
		case !found:
			return notKept(ctx, t, rest)
		case typ == countersign.TypeRequestWithdraw:
			return errAskedOnce
		}
		again, err := o.changeRows(ctx, t, []swept{{merchant: merchant, id: rest}}, now, repeatSQL,
			func(swept) []any { return []any{merchant, rest, int64(now)} },
			func(_ swept, c laneChanges, _ *feedEntries) []db.Statement {
				t.Count(countOfEnded(countersign.LaneNotify, client.CallbackAccepted), -1)
				c.back(merchant, countersign.LaneNotify, now)
				t.Wake(TopicOf(countersign.LaneNotify))
				return []db.Statement{{SQL: unacceptSQL, Args: []any{merchant, rest}}}
			})
		if repeated = len(again) == 1; err != nil || !repeated {
			return err
		}
		return recordResends(ctx, t, journal.CallbacksSentAgain, again, now)
	})
	return repeated, err
}

// typeOfSQL locks the callback, so that it cannot be purged meanwhile.
const typeOfSQL = `SELECT type FROM callbacks WHERE merchant = $1 AND id = $2{lock}`

var errAskedOnce = &db.ConflictError{Reason: "a withdrawal's question is asked once; its withdrawal is decided or still awaiting"}

// resend makes the callbacks of list due that are in state was. It returns how many it changed.
func (o *Outbox) resend(ctx context.Context, t *db.Tx, list []swept, was client.CallbackState,
	now db.Millis) (int64, error) {
	resent, err := o.changeRows(ctx, t, list, now, resendSQL,
		func(f swept) []any { return []any{f.merchant, f.id, string(was), int64(now)} },
		func(f swept, c laneChanges, _ *feedEntries) []db.Statement {
			if was != client.CallbackPending {
				t.Count(countOfEnded(f.lane, was), -1)
			}
			c.back(f.merchant, f.lane, now)
			t.Wake(TopicOf(f.lane))
			return nil
		})
	if err != nil || len(resent) == 0 {
		return 0, err
	}
	return int64(len(resent)), recordResends(ctx, t, journal.CallbacksResent, resent, now)
}

// ResendMatching does what Resend does for all callbacks that of and f select, as in Callbacks, and returns their
// number. With dryRun it only counts. It skips callbacks that Resend would refuse or that are already due. It works
// in bounded steps, so that other transactions do not wait long. If it fails, it returns the number resent until
// then.
func (o *Outbox) ResendMatching(ctx context.Context, of []string, f client.CallbackFilter, dryRun bool,
	now db.Millis) (int64, error) {
	total := int64(0)
	for _, state := range []client.CallbackState{client.CallbackRefused, client.CallbackExhausted,
		client.CallbackPending} {
		if f.State != "" && f.State != state {
			continue
		}
		f := f
		f.State = state
		for cursor := ""; ; {
			list, next, err := o.matching(ctx, of, f, cursor, now)
			if err != nil {
				return total, err
			}
			n := int64(len(list))
			if !dryRun && n > 0 {
				err := o.Write(ctx, func(ctx context.Context, t *db.Tx) (err error) {
					n, err = o.resend(ctx, t, inOrder(list), state, now)
					return err
				})
				if err != nil {
					return total, err
				}
			}
			total += n
			if next == "" {
				break
			}
			cursor = next
		}
	}
	return total, nil
}

// matching returns the callbacks of one step of ResendMatching.
func (o *Outbox) matching(ctx context.Context, of []string, f client.CallbackFilter, cursor string,
	now db.Millis) (list []swept, next string, err error) {
	ls, err := callbackListings(of, f, cursor)
	if err != nil {
		return nil, "", err
	}
	for i := range ls {
		if f.State == client.CallbackPending {
			ls[i].Add("COALESCE(o.due, 0) > ?", int64(now))
		} else {
			// A callback that the merchant had accepted before is sent again only if it is named.
			ls[i].Add("COALESCE(o.lane, 0) = 0 AND COALESCE(o.repeated, 0) = 0")
		}
	}
	return readPage(ctx, o, `c.merchant, c.id, 0, COALESCE(o.lane, 0)`, ls, sweepMost, swept.callback, scanSwept)
}
