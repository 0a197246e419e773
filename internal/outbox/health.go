package outbox

import (
	"context"
	"maps"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

const (
	minute       db.Millis = 60_000
	healthPeriod           = 5 * minute // attempts of the previous period count half, earlier ones not at all
	failingAfter           = 10 * minute
	failingShare           = 20 // of at least this many attempts, half failed
	failingAll             = 10 // at least this many failed and none was accepted
	failingNew             = 3  // at least this many failed at a merchant that never accepted one
)

// counts reports whether an attempt counts for its merchant's health, and whether it failed. An attempt does not
// count if it ended because of this node or of our own people.
func (b *settling) counts() (counts, failed bool) {
	switch b.Attempt.Reason {
	case client.ReasonStopped, client.ReasonOpenFiles, client.ReasonInternal, client.ReasonFrozen, client.ReasonPaused,
		client.ReasonOlderVersion,
		client.ReasonKeyRefused, client.ReasonNotOpened:
		return false, false
	case client.ReasonLate:
		if b.Attempt.HTTPStatus == 0 { // it may not have been sent
			return false, false
		}
	case client.ReasonMerchantRefused:
		return true, b.Type.Lane() != countersign.LaneWithdraw
	}
	return true, b.Attempt.Result != client.AttemptAccepted && b.Attempt.Result != client.AttemptHold
}

var keepHealth = db.NewInsert(`
INSERT INTO health (merchant, period, attempts, failures, reached, accepted, failing, failed, callback, reason, facts)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (merchant) DO UPDATE SET period = excluded.period,
	attempts = excluded.attempts + CASE excluded.period - health.period WHEN 0 THEN health.attempts WHEN 1 THEN health.attempts / 2 ELSE 0 END,
	failures = excluded.failures + CASE excluded.period - health.period WHEN 0 THEN health.failures WHEN 1 THEN health.failures / 2 ELSE 0 END,
	reached = CASE WHEN excluded.reached > 0 THEN excluded.reached ELSE health.reached END,
	accepted = CASE WHEN excluded.accepted > 0 THEN excluded.accepted ELSE health.accepted END,
	failing = CASE WHEN excluded.accepted > 0 THEN 0 WHEN health.failing > 0 THEN health.failing ELSE excluded.failing END,
	callback = CASE WHEN excluded.failed > 0 THEN excluded.callback ELSE health.callback END,
	reason = CASE WHEN excluded.failed > 0 THEN excluded.reason ELSE health.reason END,
	facts = CASE WHEN excluded.failed > 0 THEN excluded.facts ELSE health.facts END,
	failed = CASE WHEN excluded.failed > 0 THEN excluded.failed ELSE health.failed END`, 50, 10)

// settleHealth returns the statements that count the attempts of a batch, in the order of merchants. They must run
// after those of the lanes.
func settleHealth(batch []*settling, now db.Millis) []db.Statement {
	type ended struct {
		attempts, failures int64
		reached, accepted  db.Millis
		failed             *settling // the last one
	}
	merchants := map[string]*ended{}
	for _, b := range batch {
		is, failed := b.counts()
		if b.found == 0 || !is {
			continue
		}
		h := merchants[b.Merchant]
		if h == nil {
			h = &ended{}
			merchants[b.Merchant] = h
		}
		h.attempts++
		if b.Reached {
			h.reached = now
		}
		if failed {
			h.failures++
			h.failed = b
		} else {
			h.accepted = now
		}
	}
	var args []any
	for _, m := range slices.Sorted(maps.Keys(merchants)) {
		h := merchants[m]
		callback, reason, facts, failed, failing := "", "", "", db.Millis(0), db.Millis(0)
		if b := h.failed; b != nil {
			callback, reason, facts, failed = b.CallbackID, db.Clean(string(b.Attempt.Reason)), b.Attempt.factsText(), now
			if h.accepted == 0 {
				failing = now
			}
		}
		args = append(args, m, int64(now/healthPeriod), h.attempts, h.failures, int64(h.reached), int64(h.accepted),
			int64(failing), int64(failed), callback, reason, facts)
	}
	return keepHealth.Statements(args, nil)
}

const (
	readHealthSQL = `
SELECT merchant, reached, accepted, failing, failed, callback, reason, facts, alarmed FROM health h WHERE `

	healthOfSQL = readHealthSQL + `merchant {in}$1{end}`

	// A merchant that is not active is not called, so its last failure says nothing about now.
	failingNowSQL = readHealthSQL + `(alarmed = 1 OR $1 = 0 AND failing > 0 AND ` + activeMerchant + `)
ORDER BY CASE WHEN failing > 0 THEN failing ELSE 4611686018427387904 END, merchant`
)

func scanHealth(r db.Rows) (merchant string, h client.MerchantHealth, err error) {
	var facts string
	var f client.FailedAttempt
	err = r.Scan(&merchant, &h.LastReached, &h.LastAccepted, &h.FailingSince, &f.At, &f.Callback, &f.Reason,
		&facts, db.Bool(&h.Failing))
	if f.At != 0 {
		f.Facts, f.Text = factsOf(facts), f.Reason.Text()
		h.LastFailure = &f
	}
	return merchant, h, err
}

// Health returns the health of those merchants of list that have been called.
func (o *Outbox) Health(ctx context.Context, list []string) (map[string]*client.MerchantHealth, error) {
	all := map[string]*client.MerchantHealth{}
	return all, db.Each(ctx, o, healthOfSQL, []any{o.Dialect().List(list)}, func(r db.Rows) error {
		merchant, h, err := scanHealth(r)
		all[merchant] = &h
		return err
	})
}

// FailingMerchants returns the merchants whose last exchange failed or that have an AlarmMerchantFailing. Those that
// have failed longest come first. With alarmed it returns only those with the alarm.
func (o *Outbox) FailingMerchants(ctx context.Context, alarmed bool) ([]client.FailingMerchant, error) {
	return db.List(ctx, o, failingNowSQL, []any{flag(alarmed)}, func(r db.Rows) (client.FailingMerchant, error) {
		merchant, h, err := scanHealth(r)
		f := client.FailingMerchant{Merchant: merchant, Since: h.FailingSince}
		if last := h.LastFailure; last != nil {
			f.Reason, f.Facts = last.Reason, last.Facts
		}
		return f, err
	})
}

const (
	activeMerchant = `EXISTS (SELECT 1 FROM merchants m WHERE m.id = h.merchant AND m.state = 'active')`

	// One lane may fail for long while the other works. It is a time and not a number of failures, because a merchant
	// with few callbacks has few failures.
	laneFailing = `EXISTS (SELECT 1 FROM lanes l WHERE l.merchant = h.merchant AND l.failing > 0 AND l.failing <= $1)`

	// Merchants with no accepted attempt for a time, with too few of them, or with none ever, or with a lane in which
	// no exchange reached them for that time.
	failsSQL = `
UPDATE health AS h SET alarmed = 1 WHERE h.alarmed = 0 AND ` + activeMerchant + `
	AND (h.failing > 0 AND h.failing <= $1 OR ` + laneFailing + ` OR h.period >= $2 AND (h.attempts >= $3 AND 2 * h.failures >= h.attempts
		OR h.failing > 0 AND (h.attempts >= $4 AND h.failures = h.attempts OR h.accepted = 0 AND h.failures >= $5)))
RETURNING merchant, reason, facts`

	// A merchant has recovered if its last answer was accepted and fewer than a quarter of its attempts failed. With
	// a bound of one half the alarm would start and end repeatedly. A merchant that is no longer active has nothing
	// to recover from.
	recoversSQL = `
UPDATE health AS h SET alarmed = 0 WHERE h.alarmed = 1 AND (NOT ` + activeMerchant + `
	OR h.failing = 0 AND NOT ` + laneFailing + ` AND (h.period < $2 OR h.attempts < $3 OR 4 * h.failures < h.attempts))`
)

// sweepHealth raises AlarmMerchantFailing for merchants that fail, and ends the alarms whose cause
// is over.
func (o *Outbox) sweepHealth(ctx context.Context, now db.Millis) error {
	since, period := int64(now-failingAfter), int64(now/healthPeriod)-1
	err := o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		var alarms []client.Alarm
		if err := t.Batch(ctx, []db.Statement{{SQL: failsSQL, Args: []any{since, period, int64(failingShare),
			int64(failingAll), int64(failingNew)}, Row: func(r db.Rows) error {
			a := client.Alarm{Kind: client.AlarmMerchantFailing, First: now}
			var facts string
			err := r.Scan(&a.Merchant, &a.Subject, &facts)
			if f := factsOf(facts); f != nil {
				a.Subject += ": " + f.Text() // so that the reader knows what to fix
			}
			alarms = append(alarms, a)
			return err
		}}, {SQL: recoversSQL, Args: []any{since, period, int64(failingShare)}}}); err != nil {
			return err
		}
		return db.RaiseAlarms(ctx, t, alarms)
	})
	if err != nil {
		return err
	}
	return o.endAlarms(ctx, now)
}
