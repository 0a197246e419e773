package store

import (
	"context"
	"fmt"
)

const setMerchantStateSQL = `
UPDATE merchants SET state = $2, paused_reason = $3, version = version + 1, updated = $4
WHERE id = $1 AND (state <> $2 OR paused_reason <> $3) RETURNING version`

const setLanesActiveSQL = `UPDATE lanes SET active = $2, version = $3 WHERE merchant = $1`

const forgetFailuresSQL = `DELETE FROM open_failures WHERE merchant = $1`

const closeBreakersSQL = `UPDATE lanes SET failures = 0, open_until = 0 WHERE merchant = $1`

// SetMerchantState pauses or resumes a merchant. Resuming also forgets its
// opening failures and closes its breakers. Repeating it changes nothing.
func (s *Store) SetMerchantState(ctx context.Context, id string, state MerchantState, reason string, now Millis) (Merchant, error) {
	if state != MerchantActive && state != MerchantPaused {
		return Merchant{}, fmt.Errorf("merchant state is %w", ErrInvalid)
	}
	if err := checkText("reason", reason); err != nil {
		return Merchant{}, err
	}
	if state == MerchantActive {
		reason = ""
	}
	err := s.db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := s.setState(ctx, t, id, state, reason, now)
		return err
	})
	if err != nil {
		return Merchant{}, err
	}
	return s.Merchant(ctx, id)
}

// setState reports whether anything changed. It locks the merchant's row and
// then its lanes.
func (s *Store) setState(ctx context.Context, t *tx, id string, state MerchantState, reason string, now Millis) (bool, error) {
	var version int64
	changed, err := one(ctx, t, setMerchantStateSQL, []any{id, string(state), reason, int64(now)}, &version)
	if err != nil || !changed {
		return false, err
	}
	m := Merchant{State: state}
	if _, err := t.exec(ctx, setLanesActiveSQL, id, m.active(), version); err != nil {
		return false, err
	}
	if state == MerchantPaused {
		return true, nil
	}
	if _, err := t.exec(ctx, forgetFailuresSQL, id); err != nil {
		return false, err
	}
	if _, err := t.exec(ctx, closeBreakersSQL, id); err != nil {
		return false, err
	}
	t.wake(TopicNotify)
	t.wake(TopicWithdraw)
	return true, nil
}

const pauseSQL = `
UPDATE merchants SET state = 'paused', paused_reason = $2, version = version + 1, updated = $3
WHERE id = $1 AND state = 'active' RETURNING version`

// pause stops sending to a merchant that is active, for opening failures. It
// reports whether the merchant was.
func (s *Store) pause(ctx context.Context, t *tx, id string, now Millis) (bool, error) {
	var version int64
	changed, err := one(ctx, t, pauseSQL, []any{id, pausedForOpenFailures, int64(now)}, &version)
	if err != nil || !changed {
		return false, err
	}
	_, err = t.exec(ctx, setLanesActiveSQL, id, 0, version)
	return true, err
}
