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

// ownKey is the key pair that signs checkpoints: both parts, each on a line.
var ownKey = db.OwnKey{Table: "audit_key", ID: 1, Purpose: "audit signing key"}

// key is the key pair that signs checkpoints.
type key struct {
	signer   note.Signer // nil: there is none
	verifier string      // its public part, in the form that note.NewVerifier reads
}

// openKey returns the key of the log in d. The first start makes it; all nodes of one database have the same.
func openKey(ctx context.Context, d *db.DB, end string) (key, error) {
	return parseKey(ownKey.Open(ctx, d, func() ([]byte, error) {
		var random [4]byte
		_, _ = rand.Read(random[:]) // never fails
		private, public, err := note.GenerateKey(rand.Reader, "countersign-"+end+"-"+hex.EncodeToString(random[:]))
		return []byte(private + "\n" + public), err
	}, nil))
}

// readKey returns the stored key. Its signer is nil if there is none.
func readKey(ctx context.Context, d *db.DB) (key, error) {
	return parseKey(ownKey.Read(ctx, d, d.MasterKey()))
}

func parseKey(text []byte, err error) (key, error) {
	if err != nil || text == nil {
		return key{}, err
	}
	private, public, _ := strings.Cut(string(text), "\n")
	signer, err := note.NewSigner(private)
	if err != nil {
		return key{}, errors.New("the signing key is malformed") // the cause may repeat it
	}
	return key{signer, public}, nil
}
