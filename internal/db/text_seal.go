package db

import (
	"encoding/binary"
	"errors"
)

var errSealedText = errors.New("a sealed text is cut off")

// SealText seals a text that is not kept in the database, together with its data key. Every
// node of the database can open it.
func (d *DB) SealText(r Record, purpose string, plain []byte) []byte {
	key, sealed := d.Seal(r, []string{purpose}, [][]byte{plain})
	return joinKey(key, sealed[0])
}

// OpenText inverts SealText.
func (d *DB) OpenText(r Record, purpose string, sealed []byte) ([]byte, error) {
	key, rest, ok := cutKey(sealed)
	if !ok {
		return nil, errSealedText
	}
	plain, err := d.Unseal(r, []string{purpose}, key, [][]byte{rest})
	if err != nil {
		return nil, err
	}
	return plain[0], nil
}

// joinKey joins a sealed data key and the value that it opens; cutKey separates them.
func joinKey(wrapped, rest []byte) []byte {
	return append(append(binary.BigEndian.AppendUint16(nil, uint16(len(wrapped))), wrapped...), rest...)
}

func cutKey(value []byte) (wrapped, rest []byte, ok bool) {
	if len(value) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(value))
	if value = value[2:]; len(value) < n {
		return nil, nil, false
	}
	return value[:n], value[n:], true
}
