package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"countersign/internal/db"
	"countersign/internal/journal"
)

// ErrMerchantDeleted means that a merchant was deleted: it is not changed, and nothing is added for
// it or sent to it.
var ErrMerchantDeleted = errors.New("the merchant was deleted")

// ErrVersion means that a merchant has another version than the caller has seen.
var ErrVersion = errors.New("the merchant was changed meanwhile")

// Whoever adds work looks whether its merchant was deleted, after taking a lock that they
// all share. A deletion takes it alone before it looks for work. So it finds the work that
// was added before, and nothing is added once it has returned, on any node. SQLite has one
// writer and needs no lock.
const (
	shareSQL = `LOCK TABLE merchants IN ROW SHARE MODE`
	aloneSQL = `LOCK TABLE merchants IN EXCLUSIVE MODE`

	deletedOfSQL = `SELECT id FROM merchants WHERE id {in}$1{end} AND state = 'deleted'`
)

// lookDeleted returns the statements that add to deleted those of ids that were deleted.
// Transactions that add work run them before their commit.
func lookDeleted(d *db.Dialect, ids []string, deleted map[string]bool) []db.Statement {
	look := db.Statement{SQL: deletedOfSQL, Args: []any{d.List(ids)}, Row: func(r db.Rows) error {
		var id string
		err := r.Scan(&id)
		deleted[id] = true
		return err
	}}
	if d.ConcurrentWriters {
		return []db.Statement{{SQL: shareSQL}, look}
	}
	return []db.Statement{look}
}

// refuseDeleted names, as a *db.ItemError, the first of n new items that is of a deleted
// merchant. of gives the merchant of each and its place in the request; a place below 0 is a
// repetition, which is acknowledged as ever.
func refuseDeleted(deleted map[string]bool, n int, of func(i int) (merchant string, place int)) error {
	first := -1
	for i := range n {
		if m, at := of(i); at >= 0 && deleted[m] && (first < 0 || at < first) {
			first = at
		}
	}
	if first < 0 {
		return nil
	}
	return &db.ItemError{Item: first, Member: "merchant", Err: ErrMerchantDeleted}
}

// noneDeleted fails with ErrMerchantDeleted if one of ids was deleted. It precedes what adds work
// for them in t.
func noneDeleted(ctx context.Context, t *db.Tx, d *db.Dialect, ids ...string) error {
	deleted := map[string]bool{}
	if err := t.Batch(ctx, lookDeleted(d, ids, deleted)); err != nil {
		return err
	}
	if len(deleted) > 0 {
		return ErrMerchantDeleted
	}
	return nil
}

const (
	// Literal states: SQLite and PostgreSQL then use the index by state.
	openWithdrawalsSQL = `
SELECT * FROM (SELECT state, id FROM withdrawals WHERE merchant = $1 AND state = 'awaiting' ORDER BY id LIMIT 1) awaiting
UNION ALL
SELECT * FROM (SELECT state, id FROM withdrawals WHERE merchant = $1 AND state = 'confirmed' ORDER BY id LIMIT 1) confirmed
UNION ALL
SELECT * FROM (SELECT state, id FROM withdrawals WHERE merchant = $1 AND state = 'released' ORDER BY id LIMIT 1) released`

	sendingSQL = `SELECT COALESCE(SUM(in_flight), 0) FROM lanes WHERE merchant = $1`
)

// WorkLeft fails with a *db.ConflictError while there is work because of which a merchant
// cannot be deleted: callbacks that wait or are being sent, withdrawals that are not decided,
// or are confirmed and have not ended. While a restored database is not reconciled, nobody
// knows what is left.
func (o *Outbox) WorkLeft(ctx context.Context, id string) error { return workLeft(ctx, o, id) }

func workLeft(ctx context.Context, q db.Querier, id string) error {
	var left []string
	first, err := waiting(ctx, q, id)
	if err != nil {
		return err
	}
	for _, f := range first {
		left = append(left, fmt.Sprintf("callbacks that wait in the lane %s (the first is %s)", f.Lane, f.Callback))
	}
	var sending int64
	if _, err := db.One(ctx, q, sendingSQL, []any{id}, &sending); err != nil {
		return err
	}
	restored, err := db.EpochIsOpen(ctx, q)
	if err != nil {
		return err
	}
	if sending > 0 {
		left = append(left, fmt.Sprintf("callbacks that are being sent (%d)", sending))
	}
	err = db.Each(ctx, q, openWithdrawalsSQL, []any{id}, func(r db.Rows) error {
		var state, rest string
		err := r.Scan(&state, &rest)
		left = append(left, fmt.Sprintf("withdrawals that are %s (the first is %s.%s)", state, id, rest))
		return err
	})
	switch {
	case err != nil:
		return err
	case restored:
		return &db.ConflictError{Reason: "the service was restored from a backup and is not reconciled, so the merchant may have work that is not known here"}
	case len(left) > 0:
		return &db.ConflictError{Reason: "the merchant has work left: " + strings.Join(left, "; ")}
	}
	return nil
}

const (
	// The fingerprints stay: they tell which keys the history was sealed with.
	eraseSQL = `
UPDATE merchants SET state = 'deleted', paused_reason = '', version = version + 1, updated = $3,
	request_key_since = 0, response_key_since = 0, api_key_since = 0, callback_api_key_since = 0, secret_version = secret_version + 1,
	data_key = $4, api_key = $4, callback_api_key = $4, request_key = $4, response_key = $4
WHERE id = $1 AND version = $2 AND state <> 'deleted'`

	endLanesSQL = `UPDATE lanes SET active = 0, failures = 0, failing = 0, open_until = 0 WHERE merchant = $1`
)

// DeleteMerchant deletes the merchant at one version for ever: it erases its secrets and keeps what
// happened. Any other version is ErrVersion; WorkLeft says what else refuses it. When it has
// returned, nothing is added for the merchant on any node. also runs in the same transaction,
// at its end; where it fails nothing is done.
func (o *Outbox) DeleteMerchant(ctx context.Context, id string, version int64, now db.Millis, also func(context.Context, *db.Tx) error) (Merchant, error) {
	was, err := readMerchant(ctx, o.DB, id) // outside the transaction: it may call the key wrapper
	switch {
	case err != nil:
		return Merchant{}, err
	case was.State == MerchantDeleted:
		return Merchant{}, ErrMerchantDeleted
	case was.Version != version:
		return Merchant{}, ErrVersion
	}
	is := was
	is.State, is.PausedReason, is.Version, is.Updated, is.Since = MerchantDeleted, "", was.Version+1, now, KeySince{}
	is.APIKey, is.CallbackAPIKey, is.Key, is.ResponseKey, is.Rotation = "", "", nil, nil, nil
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := erase(ctx, t, o.Dialect(), &was, now); err != nil {
			return err
		}
		c := journal.Changed{Version: is.Version, Before: merchantMembers(&was), After: map[string]any{"state": string(MerchantDeleted)}}
		if err := journal.AddAbout(ctx, t, journal.MerchantDeleted, id, now, c); err != nil {
			return err
		}
		return also(ctx, t)
	})
	if err != nil {
		return Merchant{}, err
	}
	return is, nil
}

// erase locks the table, the merchant's row and its lanes, in this order. The lanes' lock
// waits for claims and settlements; behind it, what is being sent is known.
func erase(ctx context.Context, t *db.Tx, d *db.Dialect, was *Merchant, now db.Millis) error {
	if d.ConcurrentWriters {
		if _, err := t.Exec(ctx, aloneSQL); err != nil {
			return err
		}
	}
	n, err := t.Exec(ctx, eraseSQL, was.ID, was.Version, int64(now), []byte{})
	if err == nil && n == 0 {
		err = ErrVersion
	}
	if err != nil {
		return err
	}
	for _, text := range []string{deleteRotationSQL, endLanesSQL, forgetFailuresSQL} {
		if _, err := t.Exec(ctx, text, was.ID); err != nil {
			return err
		}
	}
	return workLeft(ctx, t, was.ID)
}
