package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
)

const (
	readMetaSQL  = `SELECT value FROM meta WHERE name = $1`
	writeMetaSQL = `INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
)

// canary is sealed in every database, so that a wrong master key fails at the start
// and not at the first secret. Canary is its row of meta.
const (
	canary = "countersign"
	Canary = "canary"
)

// checkKeys seals the canary in a new database and opens it in every database. If key is
// nil, find gives it.
func (d *DB) checkKeys(ctx context.Context, key *MasterKey, find func(newDatabase bool) (*MasterKey, error)) error {
	place := Record{Table: "meta", Row: "canary", Version: 1}
	read := func(q Querier, value *[]byte) (bool, error) {
		return One(ctx, q, readMetaSQL, []any{Canary}, value)
	}
	var kept []byte
	found, err := read(d, &kept)
	if err != nil {
		return err
	}
	if key == nil {
		if key, err = find(!found); err != nil {
			return err
		}
	}
	d.keys = newKeyRing(key, func(ctx context.Context) ([]MasterKeyRow, error) { return ReadMasterKeys(ctx, d) })
	if err := d.keys.Reload(ctx); err != nil {
		return err
	}
	if !found {
		dataKey, sealed, err := d.Seal(ctx, place, []string{"canary"}, [][]byte{[]byte(canary)})
		if err != nil {
			return err
		}
		value := JoinKey(dataKey, sealed[0])
		err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
			if _, err := t.Exec(ctx, writeMetaSQL, Canary, value); err != nil {
				return err
			}
			_, err := read(t, &kept) // another node may have been first
			return err
		})
		if err != nil {
			return err
		}
	}
	wrapped, rest, ok := CutKey(kept)
	if !ok {
		return ErrMasterKey
	}
	plain, err := d.Unseal(ctx, place, []string{"canary"}, wrapped, [][]byte{rest})
	switch {
	case errors.Is(err, errUnsealable), err == nil && !bytes.Equal(plain[0], []byte(canary)):
		return ErrMasterKey
	case err != nil:
		return err
	}
	return d.firstKey(ctx)
}

// JoinKey joins a sealed data key and the value that it opens; CutKey separates them.
func JoinKey(wrapped, rest []byte) []byte {
	return append(append(binary.BigEndian.AppendUint16(nil, uint16(len(wrapped))), wrapped...), rest...)
}

func CutKey(value []byte) (wrapped, rest []byte, ok bool) {
	if len(value) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(value))
	if value = value[2:]; len(value) < n {
		return nil, nil, false
	}
	return value[:n], value[n:], true
}
