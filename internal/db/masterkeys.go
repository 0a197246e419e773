package db

import (
	"context"
	"errors"
)

const (
	masterKeysSQL = `SELECT number, fingerprint, since, replaced, rewrapped, ended, next, self FROM master_keys ORDER BY number`

	firstMasterKeySQL = `
INSERT INTO master_keys (number, fingerprint, since, next, self) VALUES (1, $1, $2, $3, $4) ON CONFLICT DO NOTHING`
)

// ReadMasterKeys returns what a database says of its master keys, the oldest first. The last
// one seals.
func ReadMasterKeys(ctx context.Context, q Querier) (rows []MasterKeyRow, err error) {
	err = Each(ctx, q, masterKeysSQL, nil, func(r Rows) error {
		var m MasterKeyRow
		err := r.Scan(&m.Number, &m.Fingerprint, &m.Since, &m.Replaced, &m.Rewrapped, &m.Ended, &m.Next, &m.Self)
		rows = append(rows, m)
		return err
	})
	return rows, err
}

// MasterKeys is ReadMasterKeys as of the last look.
func (d *DB) MasterKeys() []MasterKeyRow { return d.keys.Rows() }

// MasterKey returns the key that seals.
func (d *DB) MasterKey() *MasterKey { return d.keys.Current() }

// UnwrapKey opens a data key.
func (d *DB) UnwrapKey(ctx context.Context, wrapped []byte) ([]byte, error) {
	return d.keys.Unwrap(ctx, wrapped)
}

// Sealed are the tables of this end whose rows hold a data key.
func (d *DB) Sealed() []SealedTable { return d.end.Sealed }

// ReloadKeys reads the master keys anew. Run does so every second.
func (d *DB) ReloadKeys(ctx context.Context) error { return d.keys.Reload(ctx) }

// firstKey notes the key of a database that has noted none.
func (d *DB) firstKey(ctx context.Context) error {
	if len(d.keys.Rows()) > 0 {
		return nil
	}
	now, err := d.serverNow(ctx)
	if err != nil {
		return err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		_, err := t.Exec(ctx, firstMasterKeySQL, d.keys.Given().Fingerprint(), int64(now), []byte{}, []byte{})
		return err
	})
	return errors.Join(err, d.keys.Reload(ctx))
}
