package journal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"countersign/internal/db"
)

const (
	readKeySQL = `SELECT data_key, private FROM audit_key WHERE id = 1`

	keepKeySQL = `INSERT INTO audit_key (id, data_key, private) VALUES (1, $1, $2) ON CONFLICT (id) DO NOTHING`
)

var (
	keyRecord  = db.Record{Table: "audit_key", Row: "1", Version: 1}
	keyPurpose = []string{"audit signing key"}
)

// key is the key pair that signs checkpoints.
type key struct {
	signer   note.Signer // nil: there is none
	verifier string      // its public part, in the form that note.NewVerifier reads
}

// openKey returns the key of the log in d. The first start makes it; all nodes of one database have the same.
func openKey(ctx context.Context, d *db.DB, end string) (key, error) {
	k, err := readKey(ctx, d)
	if err != nil || k.signer != nil {
		return k, err
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	private, public, err := note.GenerateKey(rand.Reader, "countersign-"+end+"-"+hex.EncodeToString(random[:]))
	if err != nil {
		return k, err
	}
	dataKey, sealed := d.Seal(keyRecord, keyPurpose, [][]byte{[]byte(private + "\n" + public)})
	err = d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := t.Exec(ctx, keepKeySQL, dataKey, sealed[0])
		return err
	})
	if err != nil {
		return k, err
	}
	return readKey(ctx, d) // another node may have been first
}

// readKey returns the stored key. Its signer is nil if there is none.
func readKey(ctx context.Context, d *db.DB) (k key, err error) {
	var dataKey, sealed []byte
	found, err := db.One(ctx, d, readKeySQL, nil, &dataKey, &sealed)
	if err != nil || !found {
		return k, err
	}
	plain, err := d.Unseal(keyRecord, keyPurpose, dataKey, [][]byte{sealed})
	if err != nil {
		return k, err
	}
	private, public, _ := strings.Cut(string(plain[0]), "\n")
	if k.signer, err = note.NewSigner(private); err != nil {
		return k, errors.New("the signing key is malformed") // the cause may repeat it
	}
	k.verifier = public
	return k, nil
}
