package journal

import (
	"context"
	"fmt"

	"countersign/client"
	"countersign/internal/db"
)

// Restore is what BeginEpoch needs of an end.
type Restore struct {
	Kind    string   // of the record. Required
	Feeds   []string // that readers follow by their numbers. Required
	Least   int64    // the number of the last epoch that is known from elsewhere, or 0
	At      db.Millis
	MarkSQL string // marks what had not ended in the backup. Required
}

// restored is the record of an epoch's beginning. Ends are the last numbers of the feeds.
type restored struct {
	Epoch int64            `json:"epoch"`
	Ends  map[string]int64 `json:"ends,omitempty"`
}

// BeginEpoch begins an epoch of d after a restore, with its alarm and its record.
func BeginEpoch(ctx context.Context, d *db.DB, r Restore) (db.Epoch, error) {
	var marked int64
	e, err := d.BeginEpoch(ctx, r.Feeds, r.Least, r.At, func(ctx context.Context, t *db.Tx, e db.Epoch) error {
		var err error
		if marked, err = t.Exec(ctx, r.MarkSQL); err != nil {
			return err
		}
		if err := db.RaiseAlarms(ctx, t, []client.Alarm{{Kind: client.AlarmRestored, Subject: fmt.Sprint("epoch ", e.Number),
			First: r.At}}); err != nil {
			return err
		}
		return Add(ctx, t, Record{Kind: r.Kind, At: r.At, Data: restored{e.Number, e.Ends}})
	})
	e.Undecided = marked
	return e, err
}

// EndEpoch releases what the open epoch of d holds back, with a record of that kind. first, which may be nil, runs
// before that in the same transaction, if an epoch is open. It reports whether one was.
func EndEpoch(ctx context.Context, d *db.DB, kind string, now db.Millis,
	first func(context.Context, *db.Tx) error) (open bool, err error) {
	err = d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		e, err := db.LastEpoch(ctx, t)
		if open = e.Open(); err != nil || !open {
			return err
		}
		// Before first, which may append to feeds that are locked after the alarms.
		if err := db.EndAlarms(ctx, t, []client.Alarm{{Kind: client.AlarmRestored, Ended: now}}); err != nil {
			return err
		}
		if first != nil {
			if err := first(ctx, t); err != nil {
				return err
			}
		}
		if open, err = db.Reconcile(ctx, t, now); err != nil || !open {
			return err
		}
		return Add(ctx, t, Record{Kind: kind, At: now, Data: restored{Epoch: e.Number}})
	})
	return open, err
}
