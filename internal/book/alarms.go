package book

import (
	"context"
	"slices"

	"countersign/client"
	"countersign/internal/db"
)

const (
	anyHeldSQL = `SELECT 1 FROM deposits WHERE state <> 'taken' AND state = 'held' LIMIT 1`

	// goingSQL reads the subjects whose alarm goes on.
	goingSQL = `
SELECT DISTINCT 'address_changed', tenant_user_id FROM addresses WHERE state = 'held'
UNION ALL SELECT DISTINCT 'deposit_refused', reason FROM refused WHERE state = 'open' AND (type = 1 OR type <> 0 AND reason = 'malformed')`
)

// The bounds of AlarmForwardFailing.
const (
	forwardFailures           = 3
	forwardWaits    db.Millis = 60_000
)

// LookAtForwards raises AlarmForwardFailing when the application does not take the first entry that failed, or has
// failed several. It ends the alarm when the application has taken every entry that had failed.
func (b *Book) LookAtForwards(ctx context.Context, now db.Millis) error {
	failed, err := b.FailedForwards(ctx, forwardFailures)
	if err != nil {
		return err
	}
	standing, err := b.StandingAlarms(ctx, client.AlarmForwardFailing)
	switch {
	case err != nil:
		return err
	case len(failed) == 0:
		return b.EndStanding(ctx, standing, now)
	case len(standing) == 0 && (len(failed) == forwardFailures || failed[0].Attempts >= forwardFailures ||
		now-failed[0].Created >= forwardWaits):
		return b.RaiseAlarm(ctx, client.Alarm{Kind: client.AlarmForwardFailing, Subject: failed[0].LastError, First: now})
	}
	return nil
}

// EndAlarms ends the alarms whose cause is over. It reads the alarms before it looks at the causes, so that an alarm
// that is raised meanwhile stays open.
func (b *Book) EndAlarms(ctx context.Context, now db.Millis) error {
	standing, err := b.StandingAlarms(ctx, client.AlarmPossibleDuplicate, client.AlarmAddressChanged,
		client.AlarmAllRefused, client.AlarmDepositRefused)
	if err != nil || len(standing) == 0 {
		return err
	}
	held, err := db.One(ctx, b, anyHeldSQL, nil)
	if err != nil {
		return err
	}
	taken, err := b.LastTaken(ctx)
	if err != nil {
		return err
	}
	going := map[[2]string]bool{}
	err = db.Each(ctx, b, goingSQL, nil, func(r db.Rows) error {
		var kind, subject string
		err := r.Scan(&kind, &subject)
		going[[2]string{kind, subject}] = true
		return err
	})
	if err != nil {
		return err
	}
	over := slices.DeleteFunc(standing, func(a client.Alarm) bool { // those that go on
		switch a.Kind {
		case client.AlarmPossibleDuplicate:
			return held
		case client.AlarmAllRefused:
			return taken <= a.Last
		}
		return going[[2]string{string(a.Kind), a.Subject}]
	})
	return b.EndStanding(ctx, over, now)
}

const lastTakenSQL = `SELECT created FROM inbox ORDER BY seq DESC LIMIT 1`

// LastTaken returns when any node last took a new callback into the inbox. It returns 0 if none did.
func (b *Book) LastTaken(ctx context.Context) (at db.Millis, err error) {
	_, err = db.One(ctx, b, lastTakenSQL, nil, &at)
	return at, err
}

// RaiseAlarms raises alarms in one transaction.
func (b *Book) RaiseAlarms(ctx context.Context, alarms []client.Alarm) error {
	return b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error { return db.RaiseAlarms(ctx, t, alarms) })
}
