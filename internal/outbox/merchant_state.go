package outbox

import (
	"context"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const (
	setStateSQL = `
UPDATE merchants SET state = $2, paused_reason = $3, version = version + 1, updated = $4 WHERE id = $1 AND `

	setOtherStateSQL  = setStateSQL + `(state <> $2 OR paused_reason <> $3) RETURNING version`
	setActiveStateSQL = setStateSQL + `state = 'active' RETURNING version`
)

const setLanesActiveSQL = `UPDATE lanes SET active = $2 WHERE merchant = $1`

const forgetFailuresSQL = `DELETE FROM open_failures WHERE merchant = $1`

const closeBreakersSQL = `UPDATE lanes SET failures = 0, failing = 0, open_until = 0 WHERE merchant = $1`

// SetMerchantState pauses or resumes a merchant. When a pause has returned, nothing of
// the merchant is decided or released on any node. Resuming also forgets its
// opening failures, closes its breakers and raises AlarmControlChanged. Repeating it changes nothing.
func (o *Outbox) SetMerchantState(ctx context.Context, id string, state client.MerchantState, reason string, now db.Millis) (Merchant, error) {
	if state != client.MerchantActive && state != client.MerchantPaused {
		return Merchant{}, fmt.Errorf("merchant state is %w", db.ErrInvalid)
	}
	if err := db.CheckText("reason", reason); err != nil {
		return Merchant{}, err
	}
	if state == client.MerchantActive {
		reason = ""
	}
	err := o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.changeStops(ctx, t); err != nil {
			return err
		}
		_, err := o.setState(ctx, t, setOtherStateSQL, id, state, reason, now)
		return err
	})
	if err != nil {
		return Merchant{}, err
	}
	return o.Merchant(ctx, id)
}

// setState sets the state by the statement text, and reports whether anything changed. It locks the
// merchant's row and then its lanes.
func (o *Outbox) setState(ctx context.Context, t *db.Tx, text, id string, state client.MerchantState, reason string, now db.Millis) (bool, error) {
	var version int64
	changed, err := db.One(ctx, t, text, []any{id, string(state), reason, int64(now)}, &version)
	if err != nil || !changed {
		return false, err
	}
	kind := journal.MerchantPaused
	if state == client.MerchantActive {
		kind = journal.MerchantResumed
	}
	if err := journal.AddAbout(ctx, t, kind, id, now, journal.Changed{Version: version, After: map[string]any{"state": string(state), "pausedReason": reason}}); err != nil {
		return false, err
	}
	if _, err := t.Exec(ctx, setLanesActiveSQL, id, active(state)); err != nil {
		return false, err
	}
	if state == client.MerchantPaused {
		return true, nil
	}
	if _, err := t.Exec(ctx, forgetFailuresSQL, id); err != nil {
		return false, err
	}
	if _, err := t.Exec(ctx, closeBreakersSQL, id); err != nil {
		return false, err
	}
	if err := resumed(ctx, t, id, fmt.Sprintf("the pause (version %d)", version), client.AlarmOpenFailures, now); err != nil {
		return false, err
	}
	t.Wake(TopicOf(countersign.LaneNotify))
	t.Wake(TopicOf(countersign.LaneWithdraw))
	return true, nil
}

// pause pauses an active merchant for opening failures. It reports whether the
// merchant was active. It is part of a settlement and cannot wait for others, so a
// decision that is being made beside it can still be kept.
func (o *Outbox) pause(ctx context.Context, t *db.Tx, id string, now db.Millis) (bool, error) {
	return o.setState(ctx, t, setActiveStateSQL, id, client.MerchantPaused, pausedForOpenFailures, now)
}
