package envelope

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	mathrand "math/rand/v2"
	"sync"
	"testing"
)

var testKeys = struct {
	sync.Mutex
	byName map[string]*Key
}{byName: map[string]*Key{}}

// testKey makes a pair once per test run. name tells pairs of one size apart.
func testKey(t testing.TB, name string, bits int) *Key {
	t.Helper()
	testKeys.Lock()
	defer testKeys.Unlock()
	if key := testKeys.byName[name]; key != nil && key.Bits() == bits {
		return key
	}
	key, err := GenerateKey(bits)
	if err != nil {
		t.Fatalf("making a %d-bit key: %v", bits, err)
	}
	testKeys.byName[name] = key
	return key
}

func key1024(t testing.TB) *Key   { return testKey(t, "1024", 1024) }
func other1024(t testing.TB) *Key { return testKey(t, "other 1024", 1024) }
func key2048(t testing.TB) *Key   { return testKey(t, "2048", 2048) }

// failer is a test, a benchmark, a fuzz test or a property's run.
type failer interface {
	Helper()
	Fatal(...any)
}

// must returns v of a call that may not fail here.
func must[T any](v T, err error) func(failer) T {
	return func(t failer) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sample is n bytes of text with characters of one to four bytes.
func sample(n int) []byte {
	return bytes.Repeat([]byte(`{"symbol":"USDT","note":"é€𝄞"} `), n/8+1)[:n]
}

// rsaOf returns the private part of key as crypto/rsa knows it.
func rsaOf(t testing.TB, key *Key) *rsa.PrivateKey {
	t.Helper()
	der := must(pkcs8(key.p().private))(t)
	return must(x509.ParsePKCS8PrivateKey(der))(t).(*rsa.PrivateKey)
}

// rawPrivate raises encoded to the private exponent: what a faulty holder of the
// private part can do, whatever the encoding.
func rawPrivate(t testing.TB, key *Key, encoded []byte) []byte {
	t.Helper()
	m := new(big.Int).SetBytes(encoded)
	if len(encoded) != key.Size() || m.Cmp(key.p().public.N) >= 0 {
		t.Fatal("encoded block does not fit the key")
	}
	return m.Exp(m, rsaOf(t, key).D, key.p().public.N).FillBytes(make([]byte, key.Size()))
}

// rawPublic raises encoded to the public exponent.
func rawPublic(t testing.TB, key *Key, encoded []byte) []byte {
	t.Helper()
	m := new(big.Int).SetBytes(encoded)
	if len(encoded) != key.Size() || m.Cmp(key.p().public.N) >= 0 {
		t.Fatal("encoded block does not fit the key")
	}
	return m.Exp(m, key.p().e, key.p().public.N).FillBytes(make([]byte, key.Size()))
}

// encoded builds 00, kind, padding, 00, data. The padding takes what is left, or
// where pad ≥ 0 exactly pad bytes, with zeros after the data.
func encoded(key *Key, kind byte, fill byte, pad int, data []byte) []byte {
	if pad < 0 {
		pad = key.Size() - 3 - len(data)
	}
	b := []byte{0, kind}
	b = append(b, bytes.Repeat([]byte{fill}, pad)...)
	b = append(b, 0)
	b = append(b, data...)
	return append(b, make([]byte, key.Size()-len(b))...)
}

func b64(b ...[]byte) []byte {
	return []byte(base64.StdEncoding.EncodeToString(bytes.Join(b, nil)))
}

func mustSeal(t testing.TB, key *Key, p Padding, plain []byte) []byte {
	t.Helper()
	return must(Seal(key, p, plain))(t)
}

func unb64(t testing.TB, body []byte) []byte {
	t.Helper()
	return must(base64.StdEncoding.DecodeString(string(body)))(t)
}

// oddBitsKey is a pair whose modulus has 1027 bits, no whole number of bytes.
func oddBitsKey(t testing.TB) *Key {
	t.Helper()
	private := must(rsa.GenerateKey(rand.Reader, 1027))(t)
	return must(newKey(&rsa.PublicKey{N: private.N, E: private.E}, private))(t)
}

// fuzzKey is the same pair in every process, because a fuzzing worker gets the
// seeds that another process made, and what it finds must be found again. It is
// made from a fixed stream of numbers and good for nothing else.
func fuzzKey(t testing.TB) *Key {
	t.Helper()
	stream := mathrand.NewChaCha8([32]byte([]byte("countersign envelope fuzzing key")))
	prime := func() *big.Int {
		b := make([]byte, 64)
		_, _ = stream.Read(b)
		b[0] |= 0xC0 // so that the product of two has 1024 bits
		b[63] |= 1
		p := new(big.Int).SetBytes(b)
		for !p.ProbablyPrime(20) {
			p.Add(p, big.NewInt(2))
		}
		return p
	}
	one := big.NewInt(1)
	p, q := prime(), prime()
	phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	private := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: MinExponent},
		D:         new(big.Int).ModInverse(big.NewInt(MinExponent), phi),
		Primes:    []*big.Int{p, q},
	}
	private.Precompute()
	ok(t, private.Validate())
	return must(newKey(&rsa.PublicKey{N: private.N, E: private.E}, private))(t)
}
