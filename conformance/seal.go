package conformance

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"

	"countersign/envelope"
)

// rawKey is the service's part of a key as numbers, for blocks that package envelope refuses to make. Its operations
// need not take constant time: the key belongs to the person who runs the cases.
type rawKey struct {
	n, exp *big.Int
	size   int
	kind   byte // of its blocks: 1 where the private part seals, 2 where the public part does
}

func newRawKey(key *envelope.Key) (rawKey, error) {
	armoured, parse := key.PublicPEM(), x509.ParsePKIXPublicKey
	if key.HasPrivate() {
		var err error
		if armoured, err = key.PrivatePEM(); err != nil {
			return rawKey{}, err
		}
		parse = x509.ParsePKCS8PrivateKey
	}
	block, _ := pem.Decode(armoured)
	parsed, err := parse(block.Bytes)
	if err != nil {
		return rawKey{}, err
	}
	if p, private := parsed.(*rsa.PrivateKey); private {
		return rawKey{p.N, p.D, key.Size(), 1}, nil
	}
	p := parsed.(*rsa.PublicKey)
	return rawKey{p.N, big.NewInt(int64(p.E)), key.Size(), 2}, nil
}

// block makes a block of data: 00, the type, FF repeated, 00, data, damaged before it is raised to the exponent.
// start is where data begins.
func (r rawKey) block(data []byte, damage func(padded []byte, start int)) []byte {
	b := bytes.Repeat([]byte{0xff}, r.size)
	start := r.size - len(data)
	b[0], b[1], b[start-1] = 0, r.kind, 0
	copy(b[start:], data)
	damage(b, start)
	v := new(big.Int).SetBytes(b)
	return v.Exp(v, r.exp, r.n).FillBytes(b)
}

// beyond returns block plus the modulus, if the sum has no more bytes. An opener that does not check the range opens it
// like block.
func (r rawKey) beyond(block []byte) ([]byte, bool) {
	v := new(big.Int).Add(new(big.Int).SetBytes(block), r.n)
	if v.BitLen() > 8*r.size {
		return nil, false
	}
	return v.FillBytes(make([]byte, r.size)), true
}

// join returns the body of blocks.
func join(blocks [][]byte) []byte {
	return base64.StdEncoding.AppendEncode(nil, bytes.Join(blocks, nil))
}

// cutAt cuts plain before each of the marks, which stand in it in that order.
func cutAt(plain []byte, marks ...string) (chunks [][]byte) {
	for _, mark := range marks {
		i := bytes.Index(plain, []byte(mark))
		chunks, plain = append(chunks, plain[:i]), plain[i:]
	}
	return append(chunks, plain)
}
