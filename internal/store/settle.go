package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"countersign"
)

// Reasons and outcomes that the store itself writes.
const (
	// OutcomeLost is the outcome and reason of an attempt whose node let the
	// lease end without settling it.
	OutcomeLost = "lost"
	// ReasonDeadline is why a withdrawal expired, or a callback was exhausted,
	// without an attempt of its own.
	ReasonDeadline = "deadline"
	// ReasonCancelled is why a withdrawal's callback ended when the service
	// cancelled it.
	ReasonCancelled = "cancelled"

	// AlarmAnswerDiffers: a merchant answered otherwise than was decided.
	AlarmAnswerDiffers = "answer_differs"
	// AlarmOpenFailures: a merchant was paused for opening failures.
	AlarmOpenFailures = "open_failures"

	pausedForOpenFailures = "open failures"
)

// openFailureWindow is how long an opening failure counts.
const openFailureWindow Millis = 3_600_000

// settling is one settlement on its way.
type settling struct {
	Settlement
	out      *Settled
	id       string // the part after the merchant
	state    CallbackState
	found    bool // the callback was sending this attempt
	lane     Lane
	failed   int // attempts that count, this one included
	deadline Millis

	fresh    bool // the attempt was not known before: raise its alarms
	decided  countersign.Decision
	awaiting int64 // 1: the withdrawal was awaiting
	now      Millis
}

// Settle ends attempts, in one transaction, and says of each, in the same
// order, what it did. A settlement that has lost its lease changes nothing and
// does not disturb the others; its attempt is kept as late. Repeating a call
// gives Applied as before, Late and Differs only the first time, and changes
// nothing.
//
// A confirmation that arrives at its withdrawal's deadline or after it expires
// the withdrawal instead. One of an attempt that has lost its lease never
// decides.
//
// Rows are locked in one order: callbacks by merchant and id, each with its
// withdrawal, then merchants, lanes, and the feeds last.
func (s *Store) Settle(ctx context.Context, settlements []Settlement, now Millis) ([]Settled, error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	order := sortedByID(len(settlements), func(i int) string { return settlements[i].CallbackID })
	done := make([]Settled, len(settlements))
	err := s.db.write(ctx, func(ctx context.Context, t *tx) error {
		clear(done)
		batch := make([]*settling, 0, len(settlements))
		for _, i := range order {
			b, err := newSettling(settlements[i], &done[i], now)
			if err != nil {
				return &ItemError{Item: i, Err: err}
			}
			batch = append(batch, b)
		}
		return s.settle(ctx, t, batch, now)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

func newSettling(n Settlement, out *Settled, now Millis) (*settling, error) {
	merchant, id, err := splitID(n.CallbackID)
	if err != nil || merchant != n.Merchant {
		return nil, fmt.Errorf("settlement is %w: %q is no callback of merchant %q", ErrInvalid, n.CallbackID, n.Merchant)
	}
	switch n.State {
	case CallbackPending, CallbackAccepted, CallbackRefused, CallbackExhausted:
	default:
		return nil, fmt.Errorf("settlement is %w: state %q", ErrInvalid, n.State)
	}
	switch {
	case n.Decision == countersign.DecisionNone:
	case n.State == CallbackPending || n.Decision == countersign.DecisionCancelled:
		return nil, fmt.Errorf("settlement is %w: decision %q with state %q", ErrInvalid, n.Decision, n.State)
	case n.Decision == countersign.DecisionConfirmed && n.Details.Validate() != nil:
		return nil, fmt.Errorf("settlement is %w: confirmed without valid details", ErrInvalid)
	}
	return &settling{Settlement: n, out: out, id: id, state: n.State, now: now}, nil
}

// settle takes the steps in the order of their locks.
func (s *Store) settle(ctx context.Context, t *tx, batch []*settling, now Millis) error {
	feed := &feedEntries{}
	if err := s.settleCallbacks(ctx, t, batch, feed); err != nil {
		return err
	}
	if err := s.settleAttempts(ctx, t, batch); err != nil {
		return err
	}
	if err := s.settleLate(ctx, t, batch, feed); err != nil {
		return err
	}
	if err := s.settleOpenFailures(ctx, t, batch, feed, now); err != nil {
		return err
	}
	changes := laneChanges{}
	for _, b := range batch {
		if b.fresh && b.Alarm != "" {
			feed.alarm(b.Merchant, b.Alarm, b.CallbackID, now)
		}
		if !b.found {
			continue
		}
		change := changes.of(b.Merchant, b.lane)
		change.freed++
		change.reached = append(change.reached, b.Reached)
		if b.state == CallbackPending {
			change.back(b.Due)
		} else {
			change.ended(b.state)
		}
	}
	if err := s.changeLanes(ctx, t, changes, now); err != nil {
		return err
	}
	return feed.write(ctx, t)
}

const (
	settleAcceptedSQL = `
DELETE FROM outbox WHERE merchant = $1 AND id = $2 AND state = 'sending' AND attempts = $3
RETURNING lane, failed, deadline`

	settleOtherSQL = `
UPDATE outbox SET state = $4, due = $5, failed = failed + $6, lease_until = 0, last_reason = $7, settled = $8
WHERE merchant = $1 AND id = $2 AND state = 'sending' AND attempts = $3
RETURNING lane, failed, deadline`

	// A decision first needs to know the deadline.
	settleDecisionSQL = `
SELECT lane, failed, deadline FROM outbox
WHERE merchant = $1 AND id = $2 AND state = 'sending' AND attempts = $3{lock}`
)

// settleCallbacks ends the attempts that still hold their lease and takes
// their decisions.
func (s *Store) settleCallbacks(ctx context.Context, t *tx, batch []*settling, feed *feedEntries) error {
	statements := make([]statement, 0, len(batch))
	add := func(b *settling, text string, args ...any) {
		statements = append(statements, statement{sql: text, args: append([]any{b.Merchant, b.id, b.Attempt.Number}, args...), row: b.scan})
	}
	// The guarded statements, each once; decisions only look and lock.
	end := func(b *settling) {
		if b.state == CallbackAccepted {
			add(b, settleAcceptedSQL)
			return
		}
		settled := int64(b.now)
		if b.state == CallbackPending {
			settled = 0
		}
		add(b, settleOtherSQL, string(b.state), int64(b.Due), flag(b.Counts), clean(b.Attempt.Reason), settled)
	}
	for _, b := range batch {
		if b.Decision == countersign.DecisionNone {
			end(b)
		} else {
			add(b, settleDecisionSQL)
		}
	}
	if err := t.batch(ctx, statements); err != nil {
		return err
	}
	statements = statements[:0]
	for _, b := range batch {
		if b.found && b.Decision != countersign.DecisionNone {
			b.decided = b.Decision
			if b.decided == countersign.DecisionConfirmed && b.now >= b.deadline {
				b.decided, b.state = countersign.DecisionExpired, CallbackExhausted
			}
			statements = append(statements, b.decide())
			end(b)
		}
	}
	if err := t.batch(ctx, statements); err != nil {
		return err
	}
	for _, b := range batch {
		b.out.Applied = b.found
		if b.state == CallbackAccepted && b.Counts {
			b.failed++ // settleOtherSQL does that for itself
		}
		if b.awaiting == 1 {
			feed.decision(b.Merchant, b.id)
			b.out.Decision = b.decided
		}
	}
	return nil
}

func (b *settling) scan(r rows) error {
	b.found = true
	return r.Scan(&b.lane, &b.failed, &b.deadline)
}

const decideSQL = `
UPDATE withdrawals SET state = $3, decision = $3, reason = $4, decided = $5,
	confirmed_address = $6, confirmed_chain = $7, confirmed_symbol = $8, confirmed_amount = $9
WHERE merchant = $1 AND id = $2 AND state = 'awaiting'`

// decide takes the decision, if none was taken.
func (b *settling) decide() statement {
	reason := clean(b.Attempt.Reason)
	var d countersign.Details
	switch b.decided {
	case countersign.DecisionConfirmed:
		d = b.Details
	case countersign.DecisionExpired:
		reason = ReasonDeadline
	}
	return statement{sql: decideSQL, n: &b.awaiting, args: []any{b.Merchant, b.id, string(b.decided), reason, int64(b.now),
		d.Address, d.ChainName, d.Symbol, d.Amount.String()}}
}

const insertAttemptSQL = `
INSERT INTO attempts (merchant, callback, number, request_uuid, started, duration, http_status, err_code, outcome, reason,
	node, request_hash, response_hash, late, accepted, settled, failed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`

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
	statements := make([]statement, 0, len(batch))
	for i, b := range batch {
		if known[i] {
			b.fresh = false
			continue
		}
		switch {
		case b.found:
			b.fresh = true
			statements = append(statements, statement{sql: insertAttemptSQL, args: b.attempt(false)})
		case b.fresh:
			statements = append(statements, statement{sql: keepLateAttemptSQL, args: b.attempt(true)})
		}
	}
	return t.batch(ctx, statements)
}

func (b *settling) attempt(late bool) []any {
	a := &b.Attempt
	var code any
	if a.ErrCode != nil {
		code = *a.ErrCode
	}
	return []any{b.Merchant, b.id, a.Number, clean(a.RequestUUID), int64(a.Started), int64(a.Duration / time.Microsecond), a.HTTPStatus,
		code, clean(a.Outcome), clean(a.Reason), clean(a.Node), unhex(a.RequestHash), unhex(a.ResponseHash),
		flag(late), flag(!late && b.state == CallbackAccepted), int64(b.now), b.failed}
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

// flag is how a truth is kept: the databases have no boolean in common.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// clean makes any text storable. What dispatch settles must not fail for it.
func clean(text string) string {
	if checkText("", text) == nil {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

func unhex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil || b == nil {
		return []byte{}
	}
	return b
}

// sortedByID gives the indexes of n things in order of their ids, things of one
// id in the order they came.
func sortedByID(n int, id func(int) string) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(id(a), id(b)) })
	return order
}
