package db

import (
	"bytes"
	"context"
	"errors"
)

const (
	readMetaSQL  = `SELECT value FROM meta WHERE name = $1`
	writeMetaSQL = `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
)

// canary is sealed in every database, so that a wrong master key fails at the start
// and not at the first secret.
const canary = "countersign"

// checkKeys seals the canary in a new database and opens it in any. find gives the
// keys if there are none.
func (d *DB) checkKeys(ctx context.Context, find func(newDatabase bool) (KeyWrapper, error)) error {
	place := Record{Table: "meta", Row: "canary", Version: 1}
	read := func(q Querier, value *[]byte) (bool, error) {
		return One(ctx, q, readMetaSQL, []any{"canary"}, value)
	}
	var kept []byte
	found, err := read(d, &kept)
	if err != nil {
		return err
	}
	if d.keys == nil {
		if d.keys, err = find(!found); err != nil {
			return err
		}
	}
	if !found {
		dataKey, sealed, err := d.Seal(ctx, place, []string{"canary"}, [][]byte{[]byte(canary)})
		if err != nil {
			return err
		}
		value := append([]byte{byte(len(dataKey) >> 8), byte(len(dataKey))}, dataKey...)
		value = append(value, sealed[0]...)
		err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
			if _, err := t.Exec(ctx, writeMetaSQL, "canary", value); err != nil {
				return err
			}
			_, err := read(t, &kept) // another node may have been first
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(kept) < 2 {
		return ErrMasterKey
	}
	n := int(kept[0])<<8 | int(kept[1])
	if len(kept) < 2+n {
		return ErrMasterKey
	}
	plain, err := d.Unseal(ctx, place, []string{"canary"}, kept[2:2+n], [][]byte{kept[2+n:]})
	switch {
	case err == nil && bytes.Equal(plain[0], []byte(canary)):
		return nil
	case err == nil || errors.Is(err, errSealBroken):
		return ErrMasterKey
	}
	return err // such as a key management service that cannot be reached
}
