package api

import (
	"context"
	"errors"

	"countersign/envelope"
	"countersign/internal/db"
)

const (
	readSigningKeySQL = `SELECT data_key, private FROM signing_key WHERE id = 1`

	keepSigningKeySQL = `INSERT INTO signing_key (id, data_key, private) VALUES (1, $1, $2) ON CONFLICT (id) DO NOTHING`
)

var (
	signingKeyRecord  = db.Record{Table: "signing_key", Row: "1", Version: 1}
	signingKeyPurpose = []string{"pair of the signed link"}
)

// OpenSigningKey gives the end's pair of the signed link (PROTOCOL.md, L1). The first start
// makes it; all nodes of one database have the same.
func OpenSigningKey(ctx context.Context, d *db.DB) (*envelope.SigningKey, error) {
	key, err := readSigningKey(ctx, d, d)
	if key != nil || err != nil {
		return key, err
	}
	text, err := envelope.GenerateSigningKey().PrivatePEM()
	if err != nil {
		return nil, err
	}
	dataKey, sealed, err := d.Seal(ctx, signingKeyRecord, signingKeyPurpose, [][]byte{text})
	if err != nil {
		return nil, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if _, err := t.Exec(ctx, keepSigningKeySQL, dataKey, sealed[0]); err != nil {
			return err
		}
		key, err = readSigningKey(ctx, d, t) // another node may have been first
		return err
	})
	if err == nil && key == nil {
		err = errors.New("the signing key was not kept")
	}
	return key, err
}

// readSigningKey gives nil if there is no key.
func readSigningKey(ctx context.Context, d *db.DB, q db.Querier) (*envelope.SigningKey, error) {
	return lookAtSigningKey(ctx, q, func(dataKey, sealed []byte) ([][]byte, error) {
		return d.Unseal(ctx, signingKeyRecord, signingKeyPurpose, dataKey, [][]byte{sealed})
	})
}

// LookAtSigningKey gives the public part of a database that is not open, nil if it has none
// yet. keys are those of db.LookAtMasterKeys.
func LookAtSigningKey(ctx context.Context, q db.Querier, given *db.MasterKey) (*envelope.SigningKey, error) {
	key, err := lookAtSigningKey(ctx, q, func(dataKey, sealed []byte) ([][]byte, error) {
		return db.UnsealWith(ctx, q, given, signingKeyRecord, signingKeyPurpose, dataKey, [][]byte{sealed})
	})
	if key == nil || err != nil {
		return nil, err
	}
	return key.Public(), nil
}

func lookAtSigningKey(ctx context.Context, q db.Querier, unseal func(dataKey, sealed []byte) ([][]byte, error)) (*envelope.SigningKey, error) {
	var dataKey, sealed []byte
	found, err := db.One(ctx, q, readSigningKeySQL, nil, &dataKey, &sealed)
	if err != nil || !found {
		return nil, err
	}
	plain, err := unseal(dataKey, sealed)
	if err != nil {
		return nil, err
	}
	key, err := envelope.ParseSigningKey(plain[0])
	if err != nil || !key.HasPrivate() {
		return nil, errors.New("the signing key is malformed") // the cause may repeat it
	}
	return key, nil
}
