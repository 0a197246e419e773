package book

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

const (
	anyHeldSQL = `SELECT 1 FROM deposits WHERE state <> 'taken' AND state = 'held' LIMIT 1`

	usersHeldSQL = `SELECT DISTINCT tenant_user_id FROM addresses WHERE state = 'held' AND tenant_user_id {in}$1{end}`

	// It reads at most three entries, because an outage may have left millions.
	failedForwardsNowSQL = `
SELECT COUNT(*), COALESCE(MAX(attempts), 0), COALESCE(MIN(created), 0), COALESCE(MAX(reason), '')
FROM (SELECT attempts, created, reason FROM forwards WHERE reason <> '' ORDER BY feed, seq LIMIT 3) AS failed`

	reasonsOpenSQL = `SELECT DISTINCT reason FROM refused WHERE state = 'open' AND (type = 1 OR type <> 0 AND reason = 'malformed')`
)

// The bounds of AlarmForwardFailing.
const (
	forwardFailures           = 3
	forwardWaits    db.Millis = 60_000
)

// LookAtForwards raises AlarmForwardFailing when the application does not take forwarded entries. It ends the alarm
// when the application has taken every entry that had failed.
func (b *Book) LookAtForwards(ctx context.Context, now db.Millis) error {
	var entries, attempts int64
	var oldest db.Millis
	var reason string
	if _, err := db.One(ctx, b, failedForwardsNowSQL, nil, &entries, &attempts, &oldest, &reason); err != nil {
		return err
	}
	standing, err := b.StandingAlarms(ctx, client.AlarmForwardFailing)
	switch {
	case err != nil:
		return err
	case entries == 0:
		return b.EndStanding(ctx, standing, now)
	case len(standing) == 0 && (entries >= forwardFailures || attempts >= forwardFailures || now-oldest >= forwardWaits):
		return b.RaiseAlarm(ctx, client.Alarm{Kind: client.AlarmForwardFailing, Subject: reason, First: now})
	}
	return nil
}

// EndAlarms ends the alarms whose cause is over. It reads the alarms before it looks at the causes, so that an alarm
// that is raised meanwhile stays open.
func (b *Book) EndAlarms(ctx context.Context, now db.Millis) error {
	standing, err := b.StandingAlarms(ctx, client.AlarmPossibleDuplicate, client.AlarmAddressChanged, client.AlarmAllRefused, client.AlarmDepositRefused)
	if err != nil || len(standing) == 0 {
		return err
	}
	var is int64
	held, err := db.One(ctx, b, anyHeldSQL, nil, &is)
	if err != nil {
		return err
	}
	taken, err := b.LastTaken(ctx)
	if err != nil {
		return err
	}
	var users []string
	for _, a := range standing {
		if a.Kind == client.AlarmAddressChanged {
			users = append(users, a.Subject)
		}
	}
	going := map[string]bool{}
	note := func(kind client.AlarmKind) func(db.Rows) error {
		return func(r db.Rows) error {
			var subject string
			err := r.Scan(&subject)
			going[string(kind)+" "+subject] = true
			return err
		}
	}
	if err := db.Each(ctx, b, usersHeldSQL, []any{b.Dialect().List(users)}, note(client.AlarmAddressChanged)); err != nil {
		return err
	}
	if err := db.Each(ctx, b, reasonsOpenSQL, nil, note(client.AlarmDepositRefused)); err != nil {
		return err
	}
	var over []client.Alarm
	for _, a := range standing {
		ends := false
		switch a.Kind {
		case client.AlarmPossibleDuplicate:
			ends = !held
		case client.AlarmAddressChanged, client.AlarmDepositRefused:
			ends = !going[string(a.Kind)+" "+a.Subject]
		case client.AlarmAllRefused:
			ends = taken > a.Last
		}
		if ends {
			over = append(over, a)
		}
	}
	return b.EndStanding(ctx, over, now)
}
