package journal

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
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
	signer   note.Signer
	verifier string // its public part, as note.NewVerifier reads it
}

// openKey returns the key of the log in d. The first start makes it; all nodes of one database have the same.
func openKey(ctx context.Context, d *db.DB, end string) (key, error) {
	text, err := readKey(ctx, d, d)
	if err != nil {
		return key{}, err
	}
	if text == "" {
		if text, err = makeKey(ctx, d, end); err != nil {
			return key{}, err
		}
	}
	return parseKey(text)
}

func parseKey(text string) (key, error) {
	signer, err := note.NewSigner(text)
	if err != nil {
		return key{}, errors.New("the signing key is malformed") // the cause may repeat it
	}
	verifier, err := verifierOf(signer.Name(), text)
	return key{signer, verifier}, err
}

// readKey returns the empty text if there is no key.
func readKey(ctx context.Context, d *db.DB, q db.Querier) (string, error) {
	var dataKey, sealed []byte
	found, err := db.One(ctx, q, readKeySQL, nil, &dataKey, &sealed)
	if err != nil || !found {
		return "", err
	}
	plain, err := d.Unseal(ctx, keyRecord, keyPurpose, dataKey, [][]byte{sealed})
	if err != nil {
		return "", err
	}
	return string(plain[0]), nil
}

// makeKey makes a key and gives the one that is kept: another node may have been first.
func makeKey(ctx context.Context, d *db.DB, end string) (string, error) {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	name := "countersign-" + end + "-" + hex.EncodeToString(random[:])
	private, _, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return "", err
	}
	dataKey, sealed, err := d.Seal(ctx, keyRecord, keyPurpose, [][]byte{[]byte(private)})
	if err != nil {
		return "", err
	}
	var kept string
	err = d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if _, err := t.Exec(ctx, keepKeySQL, dataKey, sealed[0]); err != nil {
			return err
		}
		kept, err = readKey(ctx, d, t)
		return err
	})
	return kept, err
}

// verifierOf returns the public part of a private key in the form of package note, which
// ends with the key's algorithm and seed.
func verifierOf(name, private string) (string, error) {
	parts := strings.SplitN(private, "+", 5) // PRIVATE+KEY+NAME+HASH+KEY
	seed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return "", errors.New("the signing key is malformed")
	}
	public := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	return note.NewEd25519VerifierKey(name, public)
}
