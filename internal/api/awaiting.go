package api

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

// waitsLong is how long something may wait for an approver before approval_waits tells of it.
const waitsLong db.Millis = 3_600_000

// lookEvery is how often it is looked for.
const lookEvery db.Millis = 60_000

// mostWaiting bounds what is told of at once.
const mostWaiting = 200

// Awaited is something that waits for an approver.
type Awaited struct {
	Of      string // the merchant that it is about; empty: none
	Subject string // what it is, and its id
}

// Await says how what waits for an approver is found, beside changes: at most so many of those that
// wait since a time or longer, of which an approval has lost its token, or which those who exist
// cannot approve (Agreed.TellNow). It is said before Run.
func (k *Changes) Await(find func(ctx context.Context, since, now db.Millis, most int) ([]Awaited, error)) {
	k.await = find
}

const whereWaiting = ` WHERE state = 'waiting' ORDER BY id LIMIT 200`

// warnOfWaiting raises approval_waits for what waits too long, and for what nobody can approve or
// has lost an approval at once, once each, and ends it when that does not wait any more.
func (k *Changes) warnOfWaiting(ctx context.Context, now db.Millis) error {
	changes, err := readChanges(ctx, k.c.DB, whereWaiting)
	if err != nil {
		return err
	}
	var list []Awaited
	for _, c := range changes {
		agreed, err := k.agreed(ctx, k.c.DB, &c, now)
		if err != nil {
			return err
		}
		if c.Proposed <= now-waitsLong || agreed.TellNow() {
			list = append(list, Awaited{c.Merchant, "change " + c.ID})
		}
	}
	if k.await != nil {
		more, err := k.await(ctx, now-waitsLong, now, mostWaiting)
		if err != nil {
			return err
		}
		list = append(list, more...)
	}
	standing, err := k.c.DB.StandingAlarms(ctx, client.AlarmApprovalWaits)
	if err != nil {
		return err
	}
	stands := map[Awaited]bool{}
	for _, a := range standing {
		stands[Awaited{a.Of, a.Subject}] = true
	}
	waits := map[Awaited]bool{}
	var fresh []db.Alarm
	for _, w := range list {
		if waits[w] = true; !stands[w] {
			fresh = append(fresh, db.Alarm{Of: w.Of, Kind: client.AlarmApprovalWaits, Subject: w.Subject, At: now})
		}
	}
	var over []db.Alarm
	for _, a := range standing {
		if !waits[Awaited{a.Of, a.Subject}] {
			over = append(over, a)
		}
	}
	if err := k.c.DB.EndStanding(ctx, over, now); err != nil || len(fresh) == 0 {
		return err
	}
	return k.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error { return db.RaiseAlarms(ctx, t, fresh) })
}
