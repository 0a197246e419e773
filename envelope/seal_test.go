package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// TestEveryLength seals and opens every length of one block, and lengths around
// the ends of blocks, in every direction.
func TestEveryLength(t *testing.T) {
	key := key1024(t)
	for _, d := range []struct {
		name         string
		sealer, open *Key
		p            Padding
	}{
		{"private seals", key, key.Public(), PKCS1v15},
		{"public seals", key.Public(), key, PKCS1v15},
		{"OAEP", key.Public(), key, OAEP},
	} {
		t.Run(d.name, func(t *testing.T) {
			chunk := key.MaxChunk(d.p)
			var lengths []int
			for n := 1; n <= chunk; n++ {
				lengths = append(lengths, n)
			}
			lengths = append(lengths, chunk+1, 2*chunk-1, 2*chunk, 2*chunk+1, 450, 5*chunk)
			for _, n := range lengths {
				plain := sample(n)
				body := mustSeal(t, d.sealer, d.p, plain)
				if got, want := len(unb64(t, body)), key.Size()*key.Blocks(d.p, n); got != want {
					t.Fatalf("%d bytes were sealed in %d bytes, want %d", n, got, want)
				}
				got, err := Open(d.open, d.p, body)
				if err != nil || !bytes.Equal(got, plain) {
					t.Fatalf("%d bytes: opened %d bytes, %v", n, len(got), err)
				}
			}
		})
	}
}

// TestSizes covers moduli that are no power of two, or no whole number of bytes,
// and both ways to compute the public operation.
func TestSizes(t *testing.T) {
	for _, bits := range []int{1024, 1032, 1536, 2048, 2056, 3072} {
		t.Run(fmt.Sprint(bits), func(t *testing.T) {
			key := testKey(t, fmt.Sprint(bits), bits)
			for _, n := range []int{1, key.MaxChunk(PKCS1v15), 2*key.MaxChunk(PKCS1v15) + 1} {
				roundTrips(t, key, n)
			}
		})
	}
	t.Run("1027", func(t *testing.T) {
		key := oddBitsKey(t)
		if key.Bits() != 1027 || key.Size() != 129 {
			t.Fatalf("the key has %d bits and %d bytes", key.Bits(), key.Size())
		}
		for n := 1; n <= 2*key.MaxChunk(PKCS1v15)+1; n += 59 {
			roundTrips(t, key, n)
		}
	})
}

func roundTrips(t *testing.T, key *Key, n int) {
	t.Helper()
	plain := sample(n)
	if got, err := Open(key.Public(), PKCS1v15, mustSeal(t, key, PKCS1v15, plain)); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("%d bytes, private part seals: %v", n, err)
	}
	for _, p := range []Padding{PKCS1v15, OAEP} {
		if got, err := Open(key, p, mustSeal(t, key.Public(), p, plain)); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes, public part seals with %v: %v", n, p, err)
		}
	}
}

// TestBlockAsSpecified compares the block that the private part makes with
// PROTOCOL.md, Sealing byte by byte.
func TestBlockAsSpecified(t *testing.T) {
	key := key1024(t)
	plain := []byte("the sample")
	block := unb64(t, mustSeal(t, key, PKCS1v15, plain))
	want := encoded(key, 1, 0xFF, -1, plain)
	if got := rawPublic(t, key, block); !bytes.Equal(got, want) {
		t.Errorf("the block holds % x, want % x", got, want)
	}
	block = unb64(t, mustSeal(t, key.Public(), PKCS1v15, plain))
	got := rawPrivate(t, key, block)
	pad, data, _ := bytes.Cut(got[2:], []byte{0})
	if got[0] != 0 || got[1] != 2 || len(pad) != key.Size()-3-len(plain) || !bytes.Equal(data, plain) {
		t.Errorf("the block of the public part holds % x", got)
	}
}

func TestSealIsRepeatableOnlyWithPrivatePart(t *testing.T) {
	key := key1024(t)
	plain := sample(200)
	if !bytes.Equal(mustSeal(t, key, PKCS1v15, plain), mustSeal(t, key, PKCS1v15, plain)) {
		t.Error("the private part sealed the same plaintext in two ways")
	}
	for _, p := range []Padding{PKCS1v15, OAEP} {
		if bytes.Equal(mustSeal(t, key.Public(), p, plain), mustSeal(t, key.Public(), p, plain)) {
			t.Errorf("the public part sealed twice alike with %v", p)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	key := key1024(t)
	limit := key.MaxPlaintext(PKCS1v15)
	for _, c := range []struct {
		name  string
		key   *Key
		p     Padding
		plain []byte
		want  error
	}{
		{"nothing", key, PKCS1v15, nil, ErrEmpty},
		{"empty", key.Public(), PKCS1v15, []byte{}, ErrEmpty},
		{"too much", key, PKCS1v15, make([]byte, limit+1), ErrTooLarge},
		{"OAEP with the private part", key, OAEP, []byte("x"), ErrDirection},
		{"unknown padding", key, Padding(7), []byte("x"), ErrPadding},
		{"nil key", nil, PKCS1v15, []byte("x"), ErrKeyMissing},
		{"zero key", &Key{}, PKCS1v15, []byte("x"), ErrKeyMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			if body, err := Seal(c.key, c.p, c.plain); !errors.Is(err, c.want) || body != nil {
				t.Errorf("Seal gave %d bytes, %v; want %v", len(body), err, c.want)
			}
		})
	}
	body := mustSeal(t, key.Public(), PKCS1v15, make([]byte, limit))
	if len(body) > MaxBody {
		t.Errorf("the largest body has %d bytes", len(body))
	}
	if _, err := Open(key, OAEP, body[:1]); errors.Is(err, ErrTooLarge) {
		t.Error("a short body is too large")
	}
}

// TestSeveralGoroutines is for the race detector: one key, every operation.
func TestSeveralGoroutines(t *testing.T) {
	key := key1024(t)
	plain := sample(200)
	body := mustSeal(t, key, PKCS1v15, plain)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				if got, err := Open(key.Public(), PKCS1v15, body); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("public part: %v", err)
				}
				if got, err := Seal(key, PKCS1v15, plain); err != nil || !bytes.Equal(got, body) {
					t.Errorf("private part: %v", err)
				}
				back, err := Seal(key.Public(), PKCS1v15, plain)
				if err != nil {
					t.Error(err)
				}
				if got, err := Open(key, PKCS1v15, back); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("back: %v", err)
				}
				_ = key.String()
			}
		})
	}
	all.Wait()
}

// TestType2Padding: what stands before the data is random, as long as it must
// be, and never 0, which would end the padding early.
func TestType2Padding(t *testing.T) {
	const size = 128
	seen := map[[8]byte]bool{}
	for n := range size - 10 {
		chunk := bytes.Repeat([]byte{0}, n)
		for range 20 {
			block := type2Block(size, chunk)
			padding := block[2 : size-n-1]
			if len(block) != size || block[0] != 0 || block[1] != 2 || block[size-n-1] != 0 || len(padding) < 8 {
				t.Fatalf("%d bytes of data: % x", n, block)
			}
			if bytes.IndexByte(padding, 0) >= 0 {
				t.Fatalf("%d bytes of data: a 0 in the padding % x", n, padding)
			}
			seen[[8]byte(padding)] = true
		}
	}
	if want := 20 * (size - 10); len(seen) != want {
		t.Errorf("%d different paddings, want %d", len(seen), want)
	}
}
