package api

import (
	"context"
	"errors"
	"strconv"

	"countersign/envelope"
	"countersign/internal/db"
)

const (
	readSigningKeySQL = `SELECT data_key, private FROM signing_key WHERE id = $1`

	keepSigningKeySQL = `INSERT INTO signing_key (id, data_key, private) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`

	replaceSigningKeySQL = `UPDATE signing_key SET data_key = $1, private = $2 WHERE id = 1`

	dropNextSigningKeySQL = `DELETE FROM signing_key WHERE id = 2`
)

// The rows of signing_key.
const (
	presentSigningKey = 1 // signs now
	nextSigningKey    = 2 // replaces it later
)

func signingKeyRecord(row int) db.Record {
	return db.Record{Table: "signing_key", Row: strconv.Itoa(row), Version: 1}
}

var signingKeyPurpose = []string{"pair of the signed link"}

// OpenSigningKey returns the end's key pair of the signed link (PROTOCOL.md, L1). The first start makes it. All nodes
// of one database have the same pair.
func OpenSigningKey(ctx context.Context, d *db.DB) (*envelope.SigningKey, error) {
	return openSigningKey(ctx, d, presentSigningKey, nil)
}

// StageSigningKey returns the pair that will replace the present one. It makes the pair if there is none yet; made
// then runs in the same transaction.
func StageSigningKey(ctx context.Context, d *db.DB, made func(context.Context, *db.Tx, *envelope.SigningKey) error) (*envelope.SigningKey, error) {
	return openSigningKey(ctx, d, nextSigningKey, made)
}

// ActivateSigningKey replaces the present pair with the pair of StageSigningKey and deletes the old one. Running
// nodes sign with the old pair until they are restarted. done runs in the same transaction. If no pair is staged,
// ActivateSigningKey does nothing.
func ActivateSigningKey(ctx context.Context, d *db.DB, done func(ctx context.Context, t *db.Tx, key, old *envelope.SigningKey) error) error {
	return d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		next, err := readSigningKey(ctx, t, nextSigningKey, d.Unseal)
		if next == nil || err != nil {
			return err
		}
		old, err := readSigningKey(ctx, t, presentSigningKey, d.Unseal)
		if err != nil {
			return err
		}
		if old == nil {
			return errors.New("the database has no signing key yet: start it first")
		}
		dataKey, sealed, err := sealSigningKey(d, presentSigningKey, next)
		if err != nil {
			return err
		}
		// If two run at once, the second finds no row to delete and changes nothing.
		n, err := t.Exec(ctx, dropNextSigningKeySQL)
		if err != nil || n == 0 {
			return err
		}
		if _, err := t.Exec(ctx, replaceSigningKeySQL, dataKey, sealed); err != nil {
			return err
		}
		return done(ctx, t, next, old)
	})
}

func sealSigningKey(d *db.DB, row int, key *envelope.SigningKey) (dataKey, sealed []byte, err error) {
	text, err := key.PrivatePEM()
	if err != nil {
		return nil, nil, err
	}
	dataKey, all := d.Seal(signingKeyRecord(row), signingKeyPurpose, [][]byte{text})
	return dataKey, all[0], nil
}

// openSigningKey returns the pair of a row. It makes the pair if there is none, and then calls made unless that is
// nil.
func openSigningKey(ctx context.Context, d *db.DB, row int, made func(context.Context, *db.Tx, *envelope.SigningKey) error) (*envelope.SigningKey, error) {
	key, err := readSigningKey(ctx, d, row, d.Unseal)
	if key != nil || err != nil {
		return key, err
	}
	dataKey, sealed, err := sealSigningKey(d, row, envelope.GenerateSigningKey())
	if err != nil {
		return nil, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, keepSigningKeySQL, row, dataKey, sealed)
		if err != nil {
			return err
		}
		key, err = readSigningKey(ctx, t, row, d.Unseal) // another process may have been first
		if err != nil || n == 0 || made == nil {
			return err
		}
		return made(ctx, t, key)
	})
	if err == nil && key == nil {
		err = errors.New("the signing key was not kept")
	}
	return key, err
}

// LookAtSigningKeys returns the public keys of a database that is not opened by a daemon. present signs now, and next
// will replace it. Either is nil if it does not exist.
func LookAtSigningKeys(ctx context.Context, q db.Querier, master *db.MasterKey) (present, next *envelope.SigningKey, err error) {
	for row, into := range map[int]**envelope.SigningKey{presentSigningKey: &present, nextSigningKey: &next} {
		key, err := readSigningKey(ctx, q, row, master.Unseal)
		if err != nil {
			return nil, nil, err
		}
		if key != nil {
			*into = key.Public()
		}
	}
	return present, next, nil
}

// unsealer is DB.Unseal or MasterKey.Unseal.
type unsealer func(r db.Record, purposes []string, dataKey []byte, sealed [][]byte) ([][]byte, error)

// readSigningKey returns the pair of a row. It returns nil if there is none.
func readSigningKey(ctx context.Context, q db.Querier, row int, unseal unsealer) (*envelope.SigningKey, error) {
	var dataKey, sealed []byte
	found, err := db.One(ctx, q, readSigningKeySQL, []any{row}, &dataKey, &sealed)
	if err != nil || !found {
		return nil, err
	}
	plain, err := unseal(signingKeyRecord(row), signingKeyPurpose, dataKey, [][]byte{sealed})
	if err != nil {
		return nil, err
	}
	key, err := envelope.ParseSigningKey(plain[0])
	if err != nil || !key.HasPrivate() {
		return nil, errors.New("the signing key is malformed") // the cause could contain the key
	}
	return key, nil
}
