package envelope

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plaintexts draws from nothing but a byte up to about six blocks of key,
// favouring the ends of blocks.
func plaintexts(key *Key, p Padding) *rapid.Generator[[]byte] {
	chunk := key.MaxChunk(p)
	return rapid.Custom(func(t *rapid.T) []byte {
		n := rapid.OneOf(
			rapid.IntRange(1, 6*chunk),
			rapid.Map(rapid.IntRange(1, 5), func(blocks int) int { return blocks*chunk - 1 }),
			rapid.Map(rapid.IntRange(1, 5), func(blocks int) int { return blocks * chunk }),
			rapid.Map(rapid.IntRange(1, 5), func(blocks int) int { return blocks*chunk + 1 }),
		).Draw(t, "length")
		return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "plaintext")
	})
}

func TestOpenSealIsIdentity(t *testing.T) {
	key := key1024(t)
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]Padding{PKCS1v15, OAEP}).Draw(t, "padding")
		sealer, opener := key.Public(), key
		if p == PKCS1v15 && rapid.Bool().Draw(t, "private part seals") {
			sealer, opener = key, key.Public()
		}
		plain := plaintexts(key, p).Draw(t, "")
		body := must(Seal(sealer, p, plain))(t)
		inner, form, err := Unwrap(body)
		if err != nil || form != FormBare || !bytes.Equal(inner, body) {
			t.Fatalf("a sealed body is taken for %v, %v", form, err)
		}
		got, err := Open(opener, p, inner)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("opened %d of %d bytes, %v", len(got), len(plain), err)
		}
	})
}

// TestOpenedWasSealed: what the public part opens, the private part sealed. So
// whatever happens to blocks, each one that is left is one that was made; and
// where every chunk but the last is full, sealing the plaintext again gives the
// body again.
func TestOpenedWasSealed(t *testing.T) {
	key := key1024(t)
	k := key.Size()
	rapid.Check(t, func(t *rapid.T) {
		plain := plaintexts(key, PKCS1v15).Draw(t, "")
		body := must(Seal(key, PKCS1v15, plain))(t)
		sealed := must(decodeBody(body))(t)
		made := map[string]bool{}
		for b := range slices.Chunk(sealed, k) {
			made[string(b)] = true
		}
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			if len(sealed) == 0 {
				break
			}
			at := rapid.IntRange(0, len(sealed)-1).Draw(t, "at")
			to := rapid.IntRange(at, len(sealed)).Draw(t, "to")
			switch rapid.IntRange(0, 4).Draw(t, "change") {
			case 0: // a bit
				sealed[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			case 1: // a piece lost
				sealed = slices.Delete(sealed, at, to)
			case 2: // whole blocks lost
				sealed = slices.Delete(sealed, at/k*k, to/k*k)
			case 3: // a piece repeated
				sealed = slices.Insert(sealed, at, slices.Clone(sealed[at:to])...)
			case 4: // whole blocks repeated
				sealed = slices.Insert(sealed, at/k*k, slices.Clone(sealed[at/k*k:to/k*k])...)
			}
		}
		changed := b64(sealed)
		got, err := Open(key.Public(), PKCS1v15, changed)
		if err != nil {
			if got != nil {
				t.Fatal("plaintext came with the error")
			}
			if !errors.Is(err, ErrBlock) && !errors.Is(err, ErrLength) && !errors.Is(err, ErrEmpty) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("an error of no known kind: %v", err)
			}
			return
		}
		full := true
		step := key.MaxChunk(PKCS1v15)
		blocks := slices.Collect(slices.Chunk(sealed, k))
		for i, b := range blocks {
			if !made[string(b)] {
				t.Fatalf("block %d opened and was never made", i)
			}
			data, _ := type1Data(newPublicOperation(key.p()).raise(b))
			full = full && (i == len(blocks)-1 || len(data) == step)
		}
		again := must(Seal(key, PKCS1v15, got))(t)
		if bytes.Equal(again, changed) != full {
			t.Fatalf("full chunks: %v, sealed again to the same body: %v", full, !full)
		}
	})
}

// TestBothPublicOperations compares the two ways to raise a block on the same key.
func TestBothPublicOperations(t *testing.T) {
	for _, key := range []*Key{key1024(t), testKey(t, "1032", 1032), oddBitsKey(t), key2048(t)} {
		fast := newPublicOperation(key.p())
		copied := *key.p()
		copied.modulus = nil
		plainBig := newPublicOperation(&copied)
		if fast.p.modulus == nil {
			t.Fatal("there is nothing to compare")
		}
		rapid.Check(t, func(t *rapid.T) {
			block := rapid.SliceOfN(rapid.Byte(), key.Size(), key.Size()).Draw(t, "block")
			if len(block) > 0 && rapid.Bool().Draw(t, "small") {
				clear(block[:len(block)/2])
			}
			if !fast.inRange(block) {
				block[0] = 0
			}
			if a, b := fast.raise(block), plainBig.raise(block); !bytes.Equal(a, b) {
				t.Fatalf("bigmod gives % x, math/big % x", a, b)
			}
		})
	}
}
