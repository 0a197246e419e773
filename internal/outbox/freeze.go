package outbox

import (
	"cmp"
	"context"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Freeze freezes the service and raises AlarmFrozen. Once it has returned, no question is asked and nothing is
// decided or released on any node until Thaw. Deadlines still apply: a withdrawal that reaches its deadline expires.
// Repeating it changes nothing and returns the present freeze.
func (o *Outbox) Freeze(ctx context.Context, reason, by string, now db.Millis) (f client.Freeze, err error) {
	if err := cmp.Or(db.CheckIdentifier("reason", reason), db.CheckIdentifier("by", by)); err != nil {
		return client.Freeze{}, err
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.changeStops(ctx, t); err != nil {
			return err
		}
		if f, err = readFreeze(ctx, t); err != nil || f.At != 0 {
			return err
		}
		f = client.Freeze{Frozen: true, At: now, By: by, Reason: reason}
		if _, err := t.Exec(ctx, changeFreezeSQL, int64(now), by, reason); err != nil {
			return err
		}
		if err := db.RaiseAlarms(ctx, t, []client.Alarm{{Kind: client.AlarmFrozen, Subject: reason,
			First: now}}); err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.ServiceFrozen, journal.AboutFreezes, now, journal.Stopped{Reason: reason})
	})
	return f, err
}

// Thaw ends the freeze and raises AlarmControlChanged. Callbacks that are due are sent at once. Repeating it changes
// nothing.
func (o *Outbox) Thaw(ctx context.Context, now db.Millis) error {
	return o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.changeStops(ctx, t); err != nil {
			return err
		}
		wakeSenders(t)
		f, err := readFreeze(ctx, t)
		if err != nil || f.At == 0 {
			return err
		}
		if _, err := t.Exec(ctx, changeFreezeSQL, 0, "", ""); err != nil {
			return err
		}
		if err := resumed(ctx, t, "", "the freeze of "+f.At.Time().UTC().Format(time.RFC3339), client.AlarmFrozen,
			now); err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.ServiceThawed, journal.AboutFreezes, now, nil)
	})
}

const changeFreezeSQL = `
INSERT INTO frozen (id, at, by_token, reason) VALUES ('service', $1, $2, $3)
ON CONFLICT (id) DO UPDATE SET at = $1, by_token = $2, reason = $3`

// Frozen returns the freeze. It returns the zero Freeze if there is none.
func (o *Outbox) Frozen(ctx context.Context) (client.Freeze, error) { return readFreeze(ctx, o) }
