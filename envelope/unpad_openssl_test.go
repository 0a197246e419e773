//go:build openssl

package envelope

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// TestUnpadAsCryptoRSA returns both paddings encoded blocks of all kinds, most of them
// wrong in one byte, and asks for what crypto/rsa says of the same block.
func TestUnpadAsCryptoRSA(t *testing.T) {
	for _, key := range []*Key{key1024(t), oddBitsKey(t)} {
		private := rsaOf(t, key)
		rapid.Check(t, func(rt *rapid.T) {
			padding := rapid.SampledFrom([]Padding{PKCS1v15, OAEP}).Draw(rt, "padding")
			data := rapid.SliceOfN(rapid.Byte(), 0, key.MaxChunk(padding)).Draw(rt, "data")
			encoded := encoded(key, 2, 0x55, -1, data)
			if padding == OAEP {
				block := must(rsa.EncryptOAEP(sha256.New(), rand.Reader, &private.PublicKey, data, nil))(rt)
				encoded = rawPrivate(t, key, block)
				if rapid.Bool().Draw(rt, "unmasked") {
					// A change of what the masks cover, which a change of the block would not make.
					unmask(encoded[1:33], encoded[33:])
					unmask(encoded[33:], encoded[1:33])
					change(rt, encoded[33:])
					unmask(encoded[33:], encoded[1:33])
					unmask(encoded[1:33], encoded[33:])
				}
			}
			if rapid.Bool().Draw(rt, "change") {
				change(rt, encoded)
			}
			if !inRange(encoded, key.p().n) {
				rt.Skip("not below the modulus")
			}
			block := rawPublic(t, key, encoded)
			var want []byte
			var wantErr error
			if padding == OAEP {
				want, wantErr = rsa.DecryptOAEP(sha256.New(), nil, private, block, nil)
			} else {
				//lint:ignore SA1019 the oracle of this test
				want, wantErr = rsa.DecryptPKCS1v15(nil, private, block)
			}
			got, err := key.p().openPrivate(padding, block)
			if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
				rt.Fatalf("%x, %v; crypto/rsa says %x, %v", got, err, want, wantErr)
			}
		})
	}
}

func change(rt *rapid.T, b []byte) {
	at := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, len(b)-1)).Draw(rt, "at")
	b[at] = rapid.OneOf(rapid.SampledFrom([]byte{0, 1, 2}), rapid.Byte()).Draw(rt, "byte")
}

// TestFaultySeal has a private part seal for another pair: what a fault in the
// machine would make. Such a block must not leave.
func TestFaultySeal(t *testing.T) {
	key, other := key1024(t), other1024(t)
	faulty := &privatePart{key: other.p().private.(*privatePart).key, parts: key.p()}
	if block, err := faulty.Sign(nil, []byte("chunk"), crypto.Hash(0)); err == nil || block != nil {
		t.Fatalf("%x, %v", block, err)
	}
	broken := *key.p()
	broken.private = faulty
	if _, err := Seal(broken.key(), PKCS1v15, []byte("chunk")); !errors.Is(err, ErrSeal) {
		t.Fatalf("%v; want ErrSeal", err)
	}
}

// TestGoForgetsThePrivatePart looks at what crypto/rsa held when a key moved to
// OpenSSL.
func TestGoForgetsThePrivatePart(t *testing.T) {
	key := key1024(t)
	private := rsaOf(t, key)
	numbers := [][]byte{private.D.Bytes(), private.Primes[0].Bytes()}
	again := must(newKey(&rsa.PublicKey{N: private.N, E: private.E}, private))(t)
	for _, w := range private.D.Bits() {
		if w != 0 {
			t.Error("the exponent is still there")
			break
		}
	}
	back := rsaOf(t, again)
	if !bytes.Equal(back.D.Bytes(), numbers[0]) || !bytes.Equal(back.Primes[0].Bytes(), numbers[1]) {
		t.Error("OpenSSL gives other numbers back")
	}
}
