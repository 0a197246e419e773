package daemon

import (
	"context"
	"errors"

	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// RekeyedSigning is the state of the replacement of an end's pair of the signed link.
type RekeyedSigning struct {
	State   string          `json:"state"`             // "one key" or "both keys"
	Key     *SigningKeyPart `json:"key,omitempty"`     // the pair that signs; absent: the database was not started yet
	NextKey *SigningKeyPart `json:"nextKey,omitempty"` // the pair that will sign
	Next    []string        `json:"next,omitempty"`    // what is to be done now
}

// SigningKeyPart is the public part of a pair.
type SigningKeyPart struct {
	Fingerprint string `json:"fingerprint"`
	PublicKey   string `json:"publicKey"` // Base64 of its SubjectPublicKeyInfo
}

func signingKeyPart(k *envelope.SigningKey) *SigningKeyPart {
	if k == nil {
		return nil
	}
	return &SigningKeyPart{k.Fingerprint(), k.PublicBase64()}
}

// RekeySigning makes the pair that will replace the end's own and, with finish, puts it in place. Between the two the
// other end is given both public parts, so that it refuses nothing signed with either pair. Processes may use a
// PostgreSQL database meanwhile; they sign with the older pair until they restart. A SQLite database must not be open.
// RekeySigning may be interrupted at any point and run again.
func (p Place) RekeySigning(ctx context.Context, finish bool) (RekeyedSigning, error) {
	before, err := p.signingKeys(ctx)
	if err == nil && before.Key == nil {
		err = errors.New("the database has no signing key yet: start it first")
	}
	if err != nil {
		return before, err
	}
	err = p.change(ctx, "rekey", func(ctx context.Context, d *db.DB, now db.Millis) error {
		record := func(kind string, t *db.Tx, data rekeyedRecord) error {
			return journal.Add(ctx, t, journal.Record{Kind: kind, At: now, Data: data})
		}
		if finish {
			return activateSigningKey(ctx, d, func(_ context.Context, t *db.Tx, key, old *envelope.SigningKey) error {
				return record("signingkey.replaced", t, rekeyedRecord{key.Fingerprint(), old.Fingerprint()})
			})
		}
		_, err := stageSigningKey(ctx, d, func(_ context.Context, t *db.Tx, key *envelope.SigningKey) error {
			return record("signingkey.made", t, rekeyedRecord{Key: key.Fingerprint()})
		})
		return err
	})
	if err != nil {
		return before, err
	}
	return p.signingKeys(ctx)
}

// signingKeys reads the public parts.
func (p Place) signingKeys(ctx context.Context) (r RekeyedSigning, err error) {
	err = p.lookToRekey(ctx, func(l db.Seen) error {
		key, err := p.keyOf(ctx, l)
		if err != nil {
			return err
		}
		present, next, err := lookAtSigningKeys(ctx, l, key)
		r.State, r.Key, r.NextKey = "one key", signingKeyPart(present), signingKeyPart(next)
		return err
	})
	if err == nil && r.NextKey != nil {
		other := "have each merchant's gateway take both: --service-signing-key twice"
		if p.Gateway {
			other = "have the service take both: merchants edit ID answerKey=" + r.Key.PublicKey + "," + r.NextKey.PublicKey
		}
		r.State = "both keys"
		r.Next = []string{other, "then run countersign rekey --signing --finish, start the daemons again, and have the other end take the new key alone"}
	}
	return r, err
}
