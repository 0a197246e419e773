package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// The statements that replace the master key of a database.
const (
	replaceKeySQL = `UPDATE master_keys SET replaced = $2, next = $3, self = $4 WHERE fingerprint = $1 AND replaced = 0`

	addKeySQL = `
INSERT INTO master_keys (number, fingerprint, since, next, self)
SELECT number + 1, $2, $3, $4, $5 FROM master_keys WHERE fingerprint = $1`
)

// ErrRekeying means that a master key is being replaced already.
var ErrRekeying = errors.New("a master key is being replaced already: finish that first")

// ReplaceMasterKey makes the new master key of n the one that seals, in one transaction, in which
// also runs. Afterwards both keys open the database. Repeating it changes nothing and is no
// error.
func ReplaceMasterKey(ctx context.Context, d *DB, n Next, now Millis, also func(context.Context, *Tx) error) error {
	if err := d.ReloadKeys(ctx); err != nil {
		return err
	}
	rows := d.MasterKeys()
	last := rows[len(rows)-1]
	if last.Fingerprint == n.New && len(rows) > 1 && rows[len(rows)-2].Fingerprint == n.Old {
		return nil
	}
	for _, r := range rows {
		switch {
		case r.Fingerprint == n.New:
			return fmt.Errorf("the key %s was in use before: make another", n.New)
		case r.Replaced != 0 && r.Ended == 0:
			return fmt.Errorf("%w: %s has not ended", ErrRekeying, r.Fingerprint)
		}
	}
	if last.Fingerprint != n.Old {
		return fmt.Errorf("%w: the key of the database is %s, and %s is to be replaced", ErrMasterKey, last.Fingerprint, n.Old)
	}
	// A damaged key must not replace one that works: what opens here opens everywhere.
	given := d.MasterKey()
	next := append(rows, MasterKeyRow{Fingerprint: n.New})
	next[len(rows)-1].Next, next[len(rows)-1].Self = n.Next, n.Self
	keys, err := MasterKeyChain(given, next)
	if err != nil {
		return err
	}
	if fresh := keys[len(keys)-1]; fresh.Fingerprint() != n.New {
		return fmt.Errorf("%w: the new key has the fingerprint %s, not %s", ErrMasterKey, fresh.Fingerprint(), n.New)
	} else if _, err := MasterKeyChain(fresh, next); err != nil {
		return err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		changed, err := t.Exec(ctx, replaceKeySQL, n.Old, int64(now), n.Next, n.Self)
		if err != nil {
			return err
		}
		if changed == 0 {
			return ErrRekeying
		}
		if _, err := t.Exec(ctx, addKeySQL, n.Old, n.New, int64(now), []byte{}, []byte{}); err != nil || also == nil {
			return err
		}
		return also(ctx, t)
	})
	return errors.Join(err, d.ReloadKeys(ctx))
}

// rewrapRows is how many rows a transaction of RewrapKeys changes.
const rewrapRows = 200

// RewrapKeys seals every data key under the present master key and gives how many it
// changed. Each step is a guarded statement, so it may be interrupted anywhere and may run on
// several nodes at once.
func RewrapKeys(ctx context.Context, d *DB, now Millis) (changed int64, err error) {
	if err := d.ReloadKeys(ctx); err != nil {
		return 0, err
	}
	for found := true; found; {
		var n int64
		found, n, err = rewrapOnce(ctx, d)
		changed += n
		if err != nil {
			return changed, err
		}
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		_, err := t.Exec(ctx, rewrappedSQL, int64(now))
		return err
	})
	return changed, errors.Join(err, d.ReloadKeys(ctx))
}

const (
	rewrappedSQL = `UPDATE master_keys SET rewrapped = $1 WHERE replaced > 0 AND rewrapped = 0`
	endKeysSQL   = `UPDATE master_keys SET ended = $1, next = $2 WHERE replaced > 0 AND ended = 0`
	setCanarySQL = `UPDATE meta SET value = $1 WHERE name = 'canary' AND value = $2`
)

// EndMasterKeys ends the earlier master keys once every value is sealed under the present one:
// from then on a start with an earlier key fails. If a node that stood still seals something
// under an earlier key meanwhile, the present key still opens it.
func EndMasterKeys(ctx context.Context, d *DB, now Millis, also func(context.Context, *Tx) error) error {
	if _, err := RewrapKeys(ctx, d, now); err != nil {
		return err
	}
	err := d.Write(ctx, func(ctx context.Context, t *Tx) error {
		n, err := t.Exec(ctx, endKeysSQL, int64(now), []byte{})
		if err != nil || n == 0 || also == nil {
			return err
		}
		return also(ctx, t)
	})
	return errors.Join(err, d.ReloadKeys(ctx))
}

// rewrapOnce reads every data key once. It reports whether it found one to be changed.
func rewrapOnce(ctx context.Context, d *DB) (found bool, changed int64, err error) {
	err = eachSealedKey(ctx, d, d.Sealed(), func(list []sealedKey) error {
		var statements []Statement
		done := make([]int64, len(list))
		for i, k := range list {
			if _, err := d.MasterKey().Unwrap(k.wrapped); err == nil {
				continue
			}
			plain, err := d.UnwrapKey(ctx, k.wrapped)
			if err != nil {
				return fmt.Errorf("unwrapping the data key of %s %v: %w", k.table.Name, k.row, err)
			}
			s := k.change(d.MasterKey().Wrap(plain))
			s.N = &done[i]
			statements = append(statements, s)
		}
		if len(statements) == 0 {
			return nil
		}
		found = true
		err := d.Write(ctx, func(ctx context.Context, t *Tx) error { return t.Batch(ctx, statements) })
		for _, n := range done {
			changed += n
		}
		return err
	})
	return found, changed, err
}

// sealedKey is the sealed data key of one row.
type sealedKey struct {
	table   SealedTable // the zero value: the canary
	row     any
	wrapped []byte
	rest    []byte // of the canary
}

func (k sealedKey) change(wrapped []byte) Statement {
	if k.table.Name == "" {
		return Statement{SQL: setCanarySQL, Args: []any{JoinKey(wrapped, k.rest), JoinKey(k.wrapped, k.rest)}}
	}
	return Statement{SQL: "UPDATE " + k.table.Name + " SET " + k.table.DataKey + " = $1 WHERE " + k.table.Key + " = $2 AND " + k.table.DataKey + " = $3",
		Args: []any{wrapped, k.row, k.wrapped}}
}

// eachSealedKey returns all data keys of a database, a page at a time.
func eachSealedKey(ctx context.Context, q Querier, tables []SealedTable, fn func([]sealedKey) error) error {
	var value []byte
	if found, err := One(ctx, q, readMetaSQL, []any{Canary}, &value); err != nil {
		return err
	} else if found {
		wrapped, rest, ok := CutKey(value)
		if !ok {
			return ErrMasterKey
		}
		if err := fn([]sealedKey{{wrapped: wrapped, rest: rest}}); err != nil {
			return err
		}
	}
	for _, table := range tables {
		head := "SELECT " + table.Key + ", " + table.DataKey + " FROM " + table.Name
		tail := " ORDER BY " + table.Key + " LIMIT CAST($%d AS BIGINT)"
		text, args := head+fmt.Sprintf(tail, 1), []any{int64(rewrapRows)}
		for {
			var list []sealedKey
			n := 0
			var last any
			err := Each(ctx, q, text, args, func(r Rows) error {
				k := sealedKey{table: table}
				if err := r.Scan(&k.row, &k.wrapped); err != nil {
					return err
				}
				n++
				last = k.row
				if len(k.wrapped) > 0 {
					list = append(list, k)
				}
				return nil
			})
			if err == nil && len(list) > 0 {
				err = fn(list)
			}
			if err != nil {
				return err
			}
			if n < rewrapRows {
				break
			}
			text, args = head+" WHERE "+table.Key+" > $1"+fmt.Sprintf(tail, 2), []any{last, int64(rewrapRows)}
		}
	}
	return nil
}

// MasterKeyState says how far the replacement of a master key is.
type MasterKeyState struct {
	Keys   []MasterKeyRow
	Values []int64 // how many are sealed under each key
	Lost   int64   // how many open with none of them
}

// Rekeying reports whether a replacement was begun and is not ended.
func (s MasterKeyState) Rekeying() bool {
	return slices.ContainsFunc(s.Keys, func(r MasterKeyRow) bool { return r.Replaced != 0 && r.Ended == 0 })
}

// Rewrapped reports whether every value was sealed under the present key.
func (s MasterKeyState) Rewrapped() bool { return !slices.ContainsFunc(s.Keys, MasterKeyRow.Waits) }

// LookAtMasterKeys reads how far the replacement of a master key is. It changes nothing, so another
// process may have the database open. With count it counts the values too, which reads all of
// them.
func LookAtMasterKeys(ctx context.Context, q Querier, tables []SealedTable, given *MasterKey, count bool) (s MasterKeyState, err error) {
	if s.Keys, err = ReadMasterKeys(ctx, q); err != nil {
		return s, err
	}
	ring, err := MasterKeyChain(given, s.Keys)
	if err != nil || !count {
		return s, err
	}
	s.Values = make([]int64, len(s.Keys))
	return s, eachSealedKey(ctx, q, tables, func(list []sealedKey) error {
		for _, k := range list {
			i := len(s.Values) - 1
			for ; i >= 0; i-- {
				if _, err := ring[i].Unwrap(k.wrapped); err == nil {
					s.Values[i]++
					break
				}
			}
			if i < 0 {
				s.Lost++
			}
		}
		return nil
	})
}
