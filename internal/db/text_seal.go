package db

import (
	"context"
	"errors"
)

var errSealedText = errors.New("a sealed text is cut off")

// SealText seals a text that is not kept in the database, together with its data key. Every
// node of the database can open it.
func (d *DB) SealText(ctx context.Context, r Record, purpose string, plain []byte) ([]byte, error) {
	key, sealed, err := d.Seal(ctx, r, []string{purpose}, [][]byte{plain})
	if err != nil {
		return nil, err
	}
	return JoinKey(key, sealed[0]), nil
}

// OpenText inverts SealText.
func (d *DB) OpenText(ctx context.Context, r Record, purpose string, sealed []byte) ([]byte, error) {
	key, rest, ok := CutKey(sealed)
	if !ok {
		return nil, errSealedText
	}
	plain, err := d.Unseal(ctx, r, []string{purpose}, key, [][]byte{rest})
	if err != nil {
		return nil, err
	}
	return plain[0], nil
}
