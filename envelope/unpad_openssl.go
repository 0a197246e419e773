//go:build openssl

package envelope

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
)

// The paddings around the raw operation of OpenSSL. Opening takes the same steps whatever
// a block holds, up to the one bit that says whether it is good.

// type1Block pads a chunk, which fits, as block type 1.
func type1Block(size int, chunk []byte) []byte {
	block := bytes.Repeat([]byte{0xFF}, size)
	block[0], block[1] = 0, 1
	block[size-len(chunk)-1] = 0
	copy(block[size-len(chunk):], chunk)
	return block
}

// unpadded returns the data of an encoded block. It may change encoded, in which the data lies.
func unpadded(padding Padding, encoded []byte) ([]byte, error) {
	var data []byte
	good := false
	if padding == OAEP {
		data, good = oaepData(encoded)
	} else {
		data, good = type2Data(encoded)
	}
	if !good {
		return nil, rsa.ErrDecryption
	}
	return data, nil
}

// type2Data returns the data of an encoded block of type 2: 00, 02, eight bytes or
// more that are not 00, 00, the data. The data lies in encoded.
func type2Data(encoded []byte) (data []byte, good bool) {
	looking, end := 1, 0 // for the 00 that ends the padding
	for i := 2; i < len(encoded); i++ {
		zero := subtle.ConstantTimeByteEq(encoded[i], 0)
		end = subtle.ConstantTimeSelect(looking&zero, i, end)
		looking &^= zero
	}
	ok := subtle.ConstantTimeByteEq(encoded[0], 0) &
		subtle.ConstantTimeByteEq(encoded[1], 2) &
		subtle.ConstantTimeLessOrEq(2+8, end)
	return encoded[subtle.ConstantTimeSelect(ok, end+1, len(encoded)):], ok == 1
}

// oaepData returns the data of an encoded block of OAEP with SHA-256 and an empty
// label (RFC 8017, 7.1.2). It changes encoded; the data lies in it.
func oaepData(encoded []byte) (data []byte, good bool) {
	label := sha256.Sum256(nil)
	seed, masked := encoded[1:1+sha256.Size], encoded[1+sha256.Size:]
	unmask(seed, masked)
	unmask(masked, seed)
	rest := masked[sha256.Size:] // zeros, 01, the data
	looking, end, odd := 1, 0, 0
	for i, b := range rest {
		zero, one := subtle.ConstantTimeByteEq(b, 0), subtle.ConstantTimeByteEq(b, 1)
		end = subtle.ConstantTimeSelect(looking&one, i, end)
		looking &^= one
		odd |= looking &^ zero
	}
	ok := subtle.ConstantTimeByteEq(encoded[0], 0) &
		subtle.ConstantTimeCompare(label[:], masked[:sha256.Size]) &
		(1 &^ odd) & (1 &^ looking)
	return rest[subtle.ConstantTimeSelect(ok, end+1, len(rest)):], ok == 1
}

// unmask changes b by the mask MGF1 with SHA-256 of seed (RFC 8017, B.2.1).
func unmask(b, seed []byte) {
	input := append(bytes.Clone(seed), 0, 0, 0, 0)
	for n := uint32(0); len(b) > 0; n++ {
		binary.BigEndian.PutUint32(input[len(seed):], n)
		mask := sha256.Sum256(input)
		b = b[subtle.XORBytes(b, b, mask[:]):]
	}
}
