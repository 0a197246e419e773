package journal

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"countersign/envelope"
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

// openKey gives the key of the log in d. The first start makes it, in store if that is not nil and
// has such keys; all nodes of one database have the same.
func openKey(ctx context.Context, d *db.DB, end string, store *envelope.KeyStore) (key, error) {
	text, err := readKey(ctx, d, d)
	if err != nil {
		return key{}, err
	}
	if text == "" {
		if text, err = makeKey(ctx, d, end, store); err != nil {
			return key{}, err
		}
	}
	return parseKey(text, store)
}

func parseKey(text string, store *envelope.KeyStore) (key, error) {
	if !strings.HasPrefix(text, ownKey) {
		return storedKey(text, store)
	}
	signer, err := note.NewSigner(text)
	if err != nil {
		return key{}, errors.New("the signing key is malformed") // the cause may repeat it
	}
	verifier, err := verifierOf(signer.Name(), text)
	return key{signer, verifier}, err
}

// ownKey begins a private key of package note. A key whose private part is in a key store is kept as
// its name, a line feed, and what envelope.SigningKey.StoredPEM gives.
const ownKey = "PRIVATE+KEY+"

// storedSigner is a note.Signer whose private part is in a key store.
type storedSigner struct {
	name string
	hash uint32
	key  *envelope.SigningKey
}

func (s storedSigner) Name() string                    { return s.name }
func (s storedSigner) KeyHash() uint32                 { return s.hash }
func (s storedSigner) Sign(msg []byte) ([]byte, error) { return s.key.Sign(msg) }

// canSign asks the store, and does not sign for nothing.
func (s storedSigner) canSign(store *envelope.KeyStore) error {
	if store == nil {
		_, err := s.key.Sign(nil) // says what is missing
		return err
	}
	return store.Probe()
}

func storedKey(text string, store *envelope.KeyStore) (key, error) {
	malformed := errors.New("the signing key is malformed")
	name, stored, _ := strings.Cut(text, "\n")
	k, err := envelope.ParseStoredSigningKey([]byte(stored))
	if err != nil || k.InKeyStore() == "" {
		return key{}, malformed
	}
	der, err := base64.StdEncoding.DecodeString(k.PublicBase64())
	if err != nil {
		return key{}, malformed
	}
	public, err := x509.ParsePKIXPublicKey(der)
	ed, ok := public.(ed25519.PublicKey)
	if err != nil || !ok {
		return key{}, malformed
	}
	text, err = note.NewEd25519VerifierKey(name, ed)
	if err != nil {
		return key{}, malformed
	}
	verifier, err := note.NewVerifier(text)
	if err != nil {
		return key{}, malformed
	}
	return key{storedSigner{name, verifier.KeyHash(), k.In(store)}, text}, nil
}

// readKey gives the empty text if there is no key.
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
func makeKey(ctx context.Context, d *db.DB, end string, store *envelope.KeyStore) (string, error) {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	name := "countersign-" + end + "-" + hex.EncodeToString(random[:])
	made, err := store.NewSigningKey(name + " audit log and permits")
	if err != nil {
		return "", err
	}
	var private string
	if made.InKeyStore() != "" {
		stored, err := made.StoredPEM()
		if err != nil {
			return "", err
		}
		private = name + "\n" + string(stored)
	} else if private, _, err = note.GenerateKey(rand.Reader, name); err != nil {
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
	if err == nil && store != nil && kept != private {
		_ = store.DestroySigningKey(made) // nobody has it
	}
	return kept, err
}

// verifierOf gives the public part of a private key in the form of package note, which
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
