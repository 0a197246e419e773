package api

import (
	"context"
	"slices"

	"countersign/client"
	"countersign/internal/db"
)

// Keys holds the keys of an end that are not in a merchant's row. Make it with NewKeys.
type Keys struct {
	d   *db.DB
	own []client.Key
}

const (
	noteKeySQL = `INSERT INTO known_keys (kind, fingerprint, since) VALUES ($1, $2, $3) ON CONFLICT (kind, fingerprint) DO NOTHING`

	keySinceSQL = `SELECT since FROM known_keys WHERE kind = $1 AND fingerprint = $2`
)

// NewKeys returns own and the master key of d, each with the date since when d has known it. A key that d has not
// known gets the date now. The keys of own need no Since.
func NewKeys(ctx context.Context, d *db.DB, now db.Millis, own ...client.Key) (*Keys, error) {
	k := &Keys{d: d, own: append(slices.Clone(own), client.Key{Kind: client.KeyMaster, Fingerprint: d.MasterKey().Fingerprint()})}
	for i := range k.own {
		key := &k.own[i]
		err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			if _, err := t.Exec(ctx, noteKeySQL, string(key.Kind), key.Fingerprint, int64(now)); err != nil {
				return err
			}
			var since db.Millis
			_, err := db.One(ctx, t, keySinceSQL, []any{string(key.Kind), key.Fingerprint}, &since)
			key.Since = TimeOf(since)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return k, nil
}

// All returns the keys of the process and the master key. A nil k has none.
func (k *Keys) All() []client.Key {
	if k == nil {
		return []client.Key{}
	}
	return slices.Clone(k.own)
}

const oldestTokenSQL = `SELECT COALESCE(MIN(created), 0) FROM tokens WHERE revoked = 0 AND (expires = 0 OR expires > $1)`

// Oldest returns the date of the oldest key of each kind. Valid tokens count as keys.
func (k *Keys) Oldest(ctx context.Context, now db.Millis) (map[client.KeyKind]db.Millis, error) {
	oldest := map[client.KeyKind]db.Millis{}
	note := func(kind client.KeyKind, since db.Millis) {
		if was := oldest[kind]; since != 0 && (was == 0 || since < was) {
			oldest[kind] = since
		}
	}
	for _, key := range k.All() {
		note(key.Kind, db.Millis(key.Since))
	}
	var token db.Millis
	_, err := db.One(ctx, k.d, oldestTokenSQL, []any{int64(now)}, &token)
	note(client.KeyToken, token)
	return oldest, err
}
