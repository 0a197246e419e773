package db

import (
	"context"
	"crypto/rand"
	"strconv"
)

// Seal seals the secrets of a record under a new data key, each for a purpose. It also returns the data key, sealed
// under the master key. Empty secrets are sealed too, so that the database does not show which records have one.
func (d *DB) Seal(r Record, purposes []string, plain [][]byte) (dataKey []byte, sealed [][]byte) {
	key := make([]byte, 32)
	rand.Read(key)
	dataKey = d.key.Wrap(key)
	gcm := newGCM(key)
	for i, purpose := range purposes {
		sealed = append(sealed, sealGCM(gcm, plain[i], r.about(purpose)))
	}
	return dataKey, sealed
}

// Unseal inverts Seal.
func (d *DB) Unseal(r Record, purposes []string, dataKey []byte, sealed [][]byte) ([][]byte, error) {
	return d.key.Unseal(r, purposes, dataKey, sealed)
}

// textPurpose begins the purposes of texts: none of them is that of a data key.
const textPurpose = "countersign text\x00"

// SealText seals a text that is not stored in the database, such as a cookie. Every node of the database can open it,
// for the same purpose only.
func (d *DB) SealText(purpose string, plain []byte) []byte {
	return sealGCM(d.key.gcm, plain, textPurpose+purpose)
}

// OpenText inverts SealText.
func (d *DB) OpenText(purpose string, sealed []byte) ([]byte, error) {
	return openGCM(d.key.gcm, sealed, textPurpose+purpose)
}

// OwnKey is a secret of the end in a table of such secrets, with the columns id, data_key and private.
type OwnKey struct {
	Table   string
	ID      int64
	Purpose string
}

func (k OwnKey) record() Record {
	return Record{Table: k.Table, Row: strconv.FormatInt(k.ID, 10), Version: 1}
}

// Read returns the secret, opened with m. It returns nil if there is none.
func (k OwnKey) Read(ctx context.Context, q Querier, m *MasterKey) ([]byte, error) {
	var dataKey, sealed []byte
	found, err := One(ctx, q, "SELECT data_key, private FROM "+k.Table+" WHERE id = $1", []any{k.ID}, &dataKey, &sealed)
	if err != nil || !found {
		return nil, err
	}
	plain, err := m.Unseal(k.record(), []string{k.Purpose}, dataKey, [][]byte{sealed})
	if err != nil {
		return nil, err
	}
	return plain[0], nil
}

// Keep stores secret, unless there is one, as part of t. It reports whether it did.
func (k OwnKey) Keep(ctx context.Context, t *Tx, d *DB, secret []byte) (bool, error) {
	dataKey, sealed := d.Seal(k.record(), []string{k.Purpose}, [][]byte{secret})
	n, err := t.Exec(ctx, "INSERT INTO "+k.Table+
		" (id, data_key, private) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING", k.ID, dataKey, sealed[0])
	return n == 1, err
}

// Open returns the secret. If there is none, it stores the one that make returns; made then runs in the same
// transaction, unless it is nil. All nodes of a database get the same.
func (k OwnKey) Open(ctx context.Context, d *DB, make func() ([]byte, error),
	made func(context.Context, *Tx) error) ([]byte, error) {
	secret, err := k.Read(ctx, d, d.key)
	if secret != nil || err != nil {
		return secret, err
	}
	fresh, err := make()
	if err != nil {
		return nil, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		kept, err := k.Keep(ctx, t, d, fresh)
		if err == nil {
			secret, err = k.Read(ctx, t, d.key) // another node may have been first
		}
		if err != nil || !kept || made == nil {
			return err
		}
		return made(ctx, t)
	})
	return secret, err
}

// MasterKey returns the key that seals.
func (d *DB) MasterKey() *MasterKey { return d.key }

// setKey sets the master key, and stores its fingerprint in a new database. If key is nil, it calls find for the key.
func (d *DB) setKey(ctx context.Context, key *MasterKey, find func(fingerprint string) (*MasterKey, error)) error {
	is, err := KeyOf(ctx, d)
	if err != nil {
		return err
	}
	if key == nil {
		if key, err = find(is); err != nil {
			return err
		}
	}
	d.key = key
	if is != "" {
		return key.Opens(ctx, d)
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if _, err := t.Exec(ctx, writeMetaSQL, metaKey, []byte(key.Fingerprint())); err != nil {
			return err
		}
		return key.Opens(ctx, t) // another node may have been first
	})
}
