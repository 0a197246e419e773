package envelope

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fakeDevice is a token whose keys this process has.
type fakeDevice struct {
	keys    map[string]*rsa.PrivateKey
	signers map[string]ed25519.PrivateKey
	fail    error // of every operation
	out     func([]byte) []byte
}

func (d *fakeDevice) generate(id []byte, _ string, bits int) (n, e *big.Int, err error) {
	if d.fail != nil {
		return nil, nil, d.fail
	}
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, nil, err
	}
	d.keys[string(id)] = k
	return k.N, big.NewInt(int64(k.E)), nil
}

func (d *fakeDevice) raise(id, _, block []byte) ([]byte, error) {
	if d.fail != nil {
		return nil, d.fail
	}
	k := d.keys[string(id)]
	if k == nil {
		return nil, ErrKeyNotInStore
	}
	out := new(big.Int).Exp(new(big.Int).SetBytes(block), k.D, k.N).FillBytes(make([]byte, len(block)))
	if d.out != nil {
		out = d.out(out)
	}
	return out, nil
}

func (d *fakeDevice) generateSigner(id []byte, _ string) ([]byte, error) {
	if d.fail != nil {
		return nil, d.fail
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	d.signers[string(id)] = private
	return public, err
}

func (d *fakeDevice) sign(id, text []byte) ([]byte, error) {
	if d.fail != nil {
		return nil, d.fail
	}
	k := d.signers[string(id)]
	if k == nil {
		return nil, ErrKeyNotInStore
	}
	out := ed25519.Sign(k, text)
	if d.out != nil {
		out = d.out(out)
	}
	return out, nil
}

func (d *fakeDevice) destroySigner(id []byte) error { delete(d.signers, string(id)); return d.fail }

func (d *fakeDevice) destroy(id, _ []byte) error { delete(d.keys, string(id)); return d.fail }
func (d *fakeDevice) probe() error               { return d.fail }
func (d *fakeDevice) close() error               { return nil }

func newFakeStore() (*KeyStore, *fakeDevice) {
	d := &fakeDevice{keys: map[string]*rsa.PrivateKey{}, signers: map[string]ed25519.PrivateKey{}}
	return &KeyStore{d}, d
}

// TestStoredKey: a pair in a key store seals and opens as any other, its row has no private
// part, and a row without the store can do nothing.
func TestStoredKey(t *testing.T) {
	store, device := newFakeStore()
	key, err := store.Generate(1024, "countersign shop request")
	if err != nil {
		t.Fatal(err)
	}
	if !key.HasPrivate() || key.InKeyStore() == "" || key.Public().HasPrivate() || key.Public().InKeyStore() != "" {
		t.Fatalf("%v, id %q", key, key.InKeyStore())
	}
	plain := sample(300)
	if got := must(Open(key.Public(), PKCS1v15, must(Seal(key, PKCS1v15, plain))(t)))(t); !bytes.Equal(got, plain) {
		t.Error("the public part opens something else")
	}
	for _, p := range []Padding{PKCS1v15, OAEP} {
		if got := must(Open(key, p, must(Seal(key.Public(), p, plain))(t)))(t); !bytes.Equal(got, plain) {
			t.Errorf("%v: the private part opens something else", p)
		}
	}
	if _, err := Open(key, PKCS1v15, must(Seal(key1024(t), PKCS1v15, plain))(t)); err != ErrOpen {
		t.Errorf("a body of another key: %v; want ErrOpen itself", err)
	}
	if pem, err := key.PrivatePEM(); pem != nil || !errors.Is(err, ErrKeyStore) {
		t.Errorf("PrivatePEM: %q, %v", pem, err)
	}

	row := must(key.StoredPEM())(t)
	private := device.keys[string(key.stored().id)]
	for _, secret := range [][]byte{private.D.Bytes(), private.Primes[0].Bytes()} {
		if bytes.Contains(row, secret[4:12]) || strings.Contains(fmt.Sprintf("%v %+v %#v", key, key, key), string(secret[4:12])) {
			t.Error("the row has the private part")
		}
	}
	if _, err := ParseKey(row); !errors.Is(err, ErrKeyFormat) {
		t.Errorf("ParseKey takes a row: %v", err)
	}
	read := must(ParseStoredKey(row))(t)
	if !read.Equal(key) || read.InKeyStore() != key.InKeyStore() || !bytes.Equal(must(read.StoredPEM())(t), row) {
		t.Errorf("%v came back as %v", key, read)
	}
	for what, err := range map[string]error{
		"sealing": second(Seal(read, PKCS1v15, plain)), "opening": second(Open(read, PKCS1v15, must(Seal(key.Public(), PKCS1v15, plain))(t))),
	} {
		if !errors.Is(err, ErrKeyStore) || errors.Is(err, ErrOpen) {
			t.Errorf("%s without the store: %v", what, err)
		}
	}
	if got := must(Open(key.Public(), PKCS1v15, must(Seal(read.In(store), PKCS1v15, plain))(t)))(t); !bytes.Equal(got, plain) {
		t.Error("after In it seals something else")
	}
	for _, k := range []*Key{key1024(t), key1024(t).Public(), nil} {
		if k.In(store) != k {
			t.Errorf("In changed %v", k)
		}
	}
	if err := store.Destroy(read); err != nil || len(device.keys) != 0 {
		t.Errorf("%v, %d keys are left", err, len(device.keys))
	}
	if err := errors.Join(store.Destroy(key1024(t)), store.Destroy(nil)); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestKeyStoreFails: a token that is away is no fault of the peer, whose answers would count
// towards its pause, and a spoiled block does not leave.
func TestKeyStoreFails(t *testing.T) {
	store, device := newFakeStore()
	key := must(store.Generate(1024, ""))(t)
	body := must(Seal(key.Public(), PKCS1v15, sample(300)))(t)
	device.out = func(b []byte) []byte { b[len(b)-1] ^= 1; return b }
	if _, err := Seal(key, PKCS1v15, sample(300)); !errors.Is(err, ErrKeyStore) || !errors.Is(err, ErrSeal) {
		t.Errorf("a spoiled block: %v", err)
	}
	device.out = func(b []byte) []byte { return b[1:] }
	if _, err := Open(key, PKCS1v15, body); !errors.Is(err, ErrKeyStore) {
		t.Errorf("a short answer: %v", err)
	}
	device.out, device.fail = nil, storeError("the token", errors.New("gone"))
	for what, err := range map[string]error{
		"sealing": second(Seal(key, PKCS1v15, sample(10))), "opening": second(Open(key, PKCS1v15, body)), "making": second(store.Generate(1024, "")), "probing": store.Probe(),
	} {
		if !errors.Is(err, ErrKeyStore) || errors.Is(err, ErrOpen) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := store.Generate(1023, ""); !errors.Is(err, ErrKeySize) {
		t.Error(err)
	}
}

func TestParseStoredKeyRefuses(t *testing.T) {
	store, _ := newFakeStore()
	row := string(must(must(store.Generate(1024, ""))(t).StoredPEM())(t))
	for name, text := range map[string]string{
		"no id":      strings.Replace(row, "Id: ", "Ix: ", 1),
		"id no hex":  strings.Replace(row, "Id: ", "Id: zz", 1),
		"id empty":   row[:strings.Index(row, "Id: ")+4] + row[strings.Index(row, "\n\n"):],
		"cut":        row[:len(row)/2],
		"text after": row + "# mine",
		"private":    pemOf(labelStored, must(key1024(t).p().private.pkcs8())(t)),
	} {
		if k, err := ParseStoredKey([]byte(text)); !errors.Is(err, ErrKeyFormat) {
			t.Errorf("%s: %v, %v", name, k, err)
		}
	}
	if k := must(ParseStoredKey(must(key1024(t).PrivatePEM())(t)))(t); !k.Equal(key1024(t)) {
		t.Error("a pair of this process is not read")
	}
}

func TestTokenURI(t *testing.T) {
	const good = "pkcs11:token=the%20shop;serial=00a1?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/etc/countersign/pin"
	u := must(parseTokenURI(good))(t)
	want := tokenURI{module: "/usr/lib/softhsm/libsofthsm2.so", token: "the shop", serial: "00a1", pinSource: "/etc/countersign/pin"}
	if fmt.Sprint(u) != fmt.Sprint(want) {
		t.Errorf("%+v", u)
	}
	for _, c := range []struct{ uri, says string }{
		{"", "must begin"},
		{"file:/x", "must begin"},
		{"pkcs11:token=a?module-path=/m&pin-value=s3cret", "pin-value"},
		{"pkcs11:token=a;pin-value=s3cret?module-path=/m", "pin-value"},
		{"pkcs11:token=a?module-path=/m", "pin-source"},
		{"pkcs11:token=a?module-path=/m&pin-source=|s3cret", "pin-source"},
		{"pkcs11:token=a?module-path=m.so&pin-source=file:/p", "module-path"},
		{"pkcs11:token=a?module-path=/m&pin-source=file:p", "pin-source"},
		{"pkcs11:?module-path=/m&pin-source=file:/p", "names no token"},
		{"pkcs11:token=a;token=s3cret?module-path=/m&pin-source=file:/p", "twice"},
		{"pkcs11:token=%zzs3cret?module-path=/m&pin-source=file:/p", "no readable value"},
		{"pkcs11:token=a;object=s3cret?module-path=/m&pin-source=file:/p", "not known"},
		{"pkcs11:token=a;pin-source=file:/s3cret?module-path=/m", "wrong side"},
	} {
		_, err := parseTokenURI(c.uri)
		if !errors.Is(err, ErrKeyStore) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v; want %q", c.uri, err, c.says)
		}
	}
	if s := fmt.Sprint(u); strings.Contains(s, "pin") {
		t.Error(s)
	}
	if u.is("the shop", "00a2", "", "") || u.is("shop", "00a1", "", "") || !u.is("the shop  ", "00a1\x00", "x", "y") {
		t.Error("another token is the one")
	}
}

// TestStoredSigningKey: a signing key in a key store signs as any other, its row has no private part, and
// neither an absent store nor a spoiled signature is taken.
func TestStoredSigningKey(t *testing.T) {
	store, device := newFakeStore()
	key := must(store.NewSigningKey("countersign signed link"))(t)
	row := must(key.StoredPEM())(t)
	read := must(ParseStoredSigningKey(row))(t)
	if key.InKeyStore() == "" || !read.HasPrivate() || read.InKeyStore() != key.InKeyStore() || read.Fingerprint() != key.Fingerprint() || key.Public().HasPrivate() || key.Public().InKeyStore() != "" {
		t.Fatalf("%v came back as %v", key, read)
	}
	seed := device.signers[string(key.parts().store.id)].Seed()
	if bytes.Contains(row, seed[:8]) || strings.Contains(fmt.Sprintf("%v %+v %#v", key, key, key), string(seed[:8])) {
		t.Error("the row has the private part")
	}
	if pem, err := key.PrivatePEM(); pem != nil || !errors.Is(err, ErrKeyStore) {
		t.Errorf("PrivatePEM: %q, %v", pem, err)
	}
	if _, err := ParseSigningKey(row); !errors.Is(err, ErrSigningKey) {
		t.Errorf("ParseSigningKey takes a row: %v", err)
	}
	r := LinkRequest{Method: "POST", URL: "https://shop.example/x", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte("body")}
	now := time.Unix(1_800_000_000, 0)
	if err := read.SignRequest(r, nil, now); !errors.Is(err, ErrKeyStore) {
		t.Errorf("without the store: %v", err)
	}
	if err := read.In(store).SignRequest(r, nil, now); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyRequest(r, GenerateSigningKey(), key.Public()); err != nil {
		t.Error(err)
	}
	device.out = func(b []byte) []byte { b[0] ^= 1; return b }
	if _, err := key.Sign([]byte("x")); !errors.Is(err, ErrKeyStore) {
		t.Errorf("a spoiled signature: %v", err)
	}
	device.out, device.fail = nil, storeError("the token", errors.New("gone"))
	if _, err := key.Sign([]byte("x")); !errors.Is(err, ErrKeyStore) {
		t.Errorf("away: %v", err)
	}
	if k, err := store.NewSigningKey(""); !errors.Is(err, ErrKeyStore) {
		t.Errorf("a store that is away made %v, %v", k, err) // and not one in this process
	}
	device.fail = ErrNoEd25519
	if k, err := store.NewSigningKey(""); err != nil || k.InKeyStore() != "" || !k.HasPrivate() {
		t.Errorf("a token without Ed25519: %v, %v", k, err)
	}
	device.fail = nil
	if err := errors.Join(store.DestroySigningKey(key), store.DestroySigningKey(GenerateSigningKey()), store.DestroySigningKey(nil)); err != nil || len(device.signers) != 0 {
		t.Errorf("%v, %d are left", err, len(device.signers))
	}
	for name, text := range map[string]string{
		"id no hex": strings.Replace(string(row), "Id: ", "Id: zz", 1), "cut": string(row[:len(row)/2]), "text after": string(row) + "# mine",
		"of RSA": strings.ReplaceAll(string(must(must(store.Generate(1024, ""))(t).StoredPEM())(t)), labelStored, labelStoredSigner),
	} {
		if k, err := ParseStoredSigningKey([]byte(text)); !errors.Is(err, ErrSigningKey) {
			t.Errorf("%s: %v, %v", name, k, err)
		}
	}
	own := GenerateSigningKey()
	if k := must(ParseStoredSigningKey(must(own.StoredPEM())(t)))(t); k.Fingerprint() != own.Fingerprint() || k.In(store).InKeyStore() != "" {
		t.Error("a pair of this process is not read")
	}
}
