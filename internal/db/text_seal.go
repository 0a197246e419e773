package db

import (
	"context"
	"encoding/binary"
	"errors"
)

var errSealedText = errors.New("a sealed text is cut off")

// SealText seals one text that is not kept in the database, with its data key. Every node
// of the database can open it.
func (d *DB) SealText(ctx context.Context, r Record, purpose string, plain []byte) ([]byte, error) {
	key, sealed, err := d.Seal(ctx, r, []string{purpose}, [][]byte{plain})
	if err != nil {
		return nil, err
	}
	out := binary.BigEndian.AppendUint16(nil, uint16(len(key)))
	return append(append(out, key...), sealed[0]...), nil
}

// OpenText inverts SealText.
func (d *DB) OpenText(ctx context.Context, r Record, purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < 2 {
		return nil, errSealedText
	}
	n := int(binary.BigEndian.Uint16(sealed))
	sealed = sealed[2:]
	if len(sealed) < n {
		return nil, errSealedText
	}
	plain, err := d.Unseal(ctx, r, []string{purpose}, sealed[:n], [][]byte{sealed[n:]})
	if err != nil {
		return nil, err
	}
	return plain[0], nil
}
