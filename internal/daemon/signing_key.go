package daemon

import (
	"context"
	"errors"

	"countersign/envelope"
	"countersign/internal/db"
)

// The pairs of the signed link (PROTOCOL.md, L1) that an end keeps.
var (
	presentSigningKey = db.OwnKey{Table: "signing_key", ID: 1, Purpose: "pair of the signed link"} // signs now
	nextSigningKey    = db.OwnKey{Table: "signing_key", ID: 2, Purpose: "pair of the signed link"} // replaces it later
)

const dropSigningKeySQL = `DELETE FROM signing_key WHERE id = $1`

// openSigningKey returns the end's key pair of the signed link. The first start makes it. All nodes of one database
// have the same pair.
func openSigningKey(ctx context.Context, d *db.DB) (*envelope.SigningKey, error) {
	return keepSigningKey(ctx, d, presentSigningKey, envelope.GenerateSigningKey(), nil)
}

// stageSigningKey returns the pair that will replace the present one. It makes the pair if there is none yet; made
// then runs in the same transaction.
func stageSigningKey(ctx context.Context, d *db.DB,
	made func(context.Context, *db.Tx, *envelope.SigningKey) error) (*envelope.SigningKey, error) {
	key := envelope.GenerateSigningKey()
	return keepSigningKey(ctx, d, nextSigningKey, key,
		func(ctx context.Context, t *db.Tx) error { return made(ctx, t, key) })
}

func keepSigningKey(ctx context.Context, d *db.DB, of db.OwnKey, fresh *envelope.SigningKey,
	made func(context.Context, *db.Tx) error) (*envelope.SigningKey, error) {
	text, err := of.Open(ctx, d, fresh.PrivatePEM, made)
	if err != nil {
		return nil, err
	}
	return parseSigningKey(text)
}

// activateSigningKey replaces the present pair with the pair of stageSigningKey and deletes the old one. Running
// nodes sign with the old pair until they are restarted. done runs in the same transaction. If no pair is staged,
// activateSigningKey does nothing.
func activateSigningKey(ctx context.Context, d *db.DB, done func(ctx context.Context, t *db.Tx, key,
	old *envelope.SigningKey) error) error {
	return d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		next, err := nextSigningKey.Read(ctx, t, d.MasterKey())
		if next == nil || err != nil {
			return err
		}
		old, err := presentSigningKey.Read(ctx, t, d.MasterKey())
		if err != nil {
			return err
		}
		if old == nil {
			return errors.New("the database has no signing key yet: start it first")
		}
		// If two run at once, the second finds no row to delete and changes nothing.
		if n, err := t.Exec(ctx, dropSigningKeySQL, nextSigningKey.ID); err != nil || n == 0 {
			return err
		}
		if _, err := t.Exec(ctx, dropSigningKeySQL, presentSigningKey.ID); err != nil {
			return err
		}
		if _, err := presentSigningKey.Keep(ctx, t, d, next); err != nil {
			return err
		}
		key, err := parseSigningKey(next)
		was, err2 := parseSigningKey(old)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		return done(ctx, t, key, was)
	})
}

// lookAtSigningKeys returns the public keys of a database that is not opened by a daemon. present signs now, and next
// will replace it. Either is nil if it does not exist.
func lookAtSigningKeys(ctx context.Context, q db.Querier,
	master *db.MasterKey) (present, next *envelope.SigningKey, err error) {
	for of, into := range map[db.OwnKey]**envelope.SigningKey{presentSigningKey: &present, nextSigningKey: &next} {
		text, err := of.Read(ctx, q, master)
		if err != nil {
			return nil, nil, err
		}
		if text == nil {
			continue
		}
		key, err := parseSigningKey(text)
		if err != nil {
			return nil, nil, err
		}
		*into = key.Public()
	}
	return present, next, nil
}

func parseSigningKey(text []byte) (*envelope.SigningKey, error) {
	key, err := envelope.ParseSigningKey(text)
	if err != nil || !key.HasPrivate() {
		return nil, errors.New("the signing key is malformed") // the cause could contain the key
	}
	return key, nil
}
