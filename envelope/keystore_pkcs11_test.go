//go:build pkcs11 && cgo

package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/pkcs11"
)

const testPIN = "7316-of-the-test"

// softModule finds the module of softhsm2.
func softModule(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("softhsm2 is missing: apt-get install softhsm2")
	}
	t.Skip("softhsm2 is missing: apt-get install softhsm2")
	return ""
}

// softToken is a token of softhsm2 in a directory of the test.
type softToken struct {
	tokens, pin, uri string
}

func newSoftToken(t testing.TB) softToken {
	t.Helper()
	module, dir := softModule(t), t.TempDir()
	s := softToken{tokens: filepath.Join(dir, "tokens"), pin: filepath.Join(dir, "pin")}
	s.uri = "pkcs11:token=shop%20keys?module-path=" + module + "&pin-source=file:" + s.pin
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(s.tokens, 0o700); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "softhsm2.conf")
	write(conf, "directories.tokendir = "+s.tokens+"\nobjectstore.backend = file\nlog.level = ERROR\n")
	t.Setenv("SOFTHSM2_CONF", conf)
	s.setPIN(t, testPIN+"\n")
	out, err := exec.Command("softhsm2-util", "--init-token", "--free", "--label", "shop keys", "--so-pin", "so-pin-of-the-test", "--pin", testPIN).CombinedOutput()
	if err != nil {
		t.Fatalf("softhsm2-util: %v\n%s", err, out)
	}
	return s
}

func (s softToken) setPIN(t testing.TB, text string) {
	t.Helper()
	if err := os.WriteFile(s.pin, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s softToken) open(t testing.TB, sessions int) *KeyStore {
	t.Helper()
	store, err := OpenKeyStore(KeyStoreConfig{URI: s.uri, Sessions: sessions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// take takes the token away, until the function that it gives is called.
func (s softToken) take(t testing.TB) (back func()) {
	t.Helper()
	list, err := os.ReadDir(s.tokens)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d tokens, %v", len(list), err)
	}
	here, there := filepath.Join(s.tokens, list[0].Name()), s.tokens+".away"
	if err := os.Rename(here, there); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Rename(there, here); err != nil {
			t.Fatal(err)
		}
	}
}

// TestToken: a pair that is made in a token seals and opens there, as OpenSSL and this package
// do, from many goroutines at once; it cannot be read, and is gone after Destroy.
func TestToken(t *testing.T) {
	soft := newSoftToken(t)
	store := soft.open(t, 3)
	key := must(store.Generate(2048, "countersign shop request"))(t)
	if key.Bits() != 2048 {
		t.Error(key)
	}
	row := must(key.StoredPEM())(t)
	key = must(ParseStoredKey(row))(t).In(store)
	plain := sample(1000)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 5 {
				body, err := Seal(key, PKCS1v15, plain)
				if err == nil {
					var got []byte
					if got, err = Open(key.Public(), PKCS1v15, body); err == nil && !bytes.Equal(got, plain) {
						err = errors.New("it opens to something else")
					}
				}
				if err != nil {
					t.Errorf("%d: sealing: %v", i, err)
				}
				for _, p := range []Padding{PKCS1v15, OAEP} {
					body, err := Seal(key.Public(), p, plain)
					if err == nil {
						var got []byte
						if got, err = Open(key, p, body); err == nil && !bytes.Equal(got, plain) {
							err = errors.New("it opens to something else")
						}
					}
					if err != nil {
						t.Errorf("%d: opening %v: %v", i, p, err)
					}
				}
			}
		})
	}
	all.Wait()
	if _, err := Open(key, PKCS1v15, must(Seal(must(GenerateKey(2048))(t), PKCS1v15, plain))(t)); err != ErrOpen {
		t.Errorf("a body of another key: %v; want ErrOpen itself", err)
	}

	d := store.d.(*token)
	err := d.run(tokenTimeout, func(l *tokenLink, session pkcs11.SessionHandle) error {
		handle, err := d.object(l, session, key.stored().id, key.p().n)
		if err != nil {
			return err
		}
		if got, err := d.module.GetAttributeValue(session, handle, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_PRIVATE_EXPONENT, nil)}); err == nil {
			t.Errorf("the token gives the private exponent: %d bytes", len(got[0].Value))
		}
		got, err := d.module.GetAttributeValue(session, handle, []*pkcs11.Attribute{
			pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, nil), pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, nil), pkcs11.NewAttribute(pkcs11.CKA_TOKEN, nil), pkcs11.NewAttribute(pkcs11.CKA_NEVER_EXTRACTABLE, nil)})
		if err == nil && (got[0].Value[0] != 0 || got[1].Value[0] != 1 || got[2].Value[0] != 1 || got[3].Value[0] != 1) {
			t.Errorf("extractable, sensitive, token, never extractable: %v", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	signer := must(ParseStoredSigningKey(must(must(store.GenerateSigningKey("countersign signed link"))(t).StoredPEM())(t)))(t).In(store)
	for range 3 { // Sign verifies with the public part
		must(signer.Sign(plain))(t)
	}
	err = d.run(tokenTimeout, func(l *tokenLink, session pkcs11.SessionHandle) error {
		handle, err := d.signer(l, session, signer.parts().store.id)
		if err != nil {
			return err
		}
		if got, err := d.module.GetAttributeValue(session, handle, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_VALUE, nil)}); err == nil {
			t.Errorf("the token gives the private part of Ed25519: %d bytes", len(got[0].Value))
		}
		got, err := d.module.GetAttributeValue(session, handle, []*pkcs11.Attribute{
			pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, nil), pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, nil), pkcs11.NewAttribute(pkcs11.CKA_TOKEN, nil), pkcs11.NewAttribute(pkcs11.CKA_NEVER_EXTRACTABLE, nil)})
		if err == nil && (got[0].Value[0] != 0 || got[1].Value[0] != 1 || got[2].Value[0] != 1 || got[3].Value[0] != 1) {
			t.Errorf("Ed25519: extractable, sensitive, token, never extractable: %v", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := errors.Join(store.DestroySigningKey(signer), store.DestroySigningKey(signer)); err != nil {
		t.Error(err)
	}
	if _, err := signer.Sign(plain); !errors.Is(err, ErrKeyNotInStore) {
		t.Errorf("after DestroySigningKey: %v", err)
	}

	other := *key.stored()
	other.parts = key1024(t).p()
	if _, err := other.raise(make([]byte, 128)); !errors.Is(err, ErrKeyNotInStore) {
		t.Errorf("the id with another modulus: %v", err)
	}
	if err := errors.Join(store.Destroy(key), store.Destroy(key)); err != nil {
		t.Error(err)
	}
	if _, err := Seal(key, PKCS1v15, plain); !errors.Is(err, ErrKeyNotInStore) {
		t.Errorf("after Destroy: %v", err)
	}
	made := d.link.made
	for range 5 { // each ends its session; the end of the last one would log out
		if _, err := Seal(key, PKCS1v15, plain); !errors.Is(err, ErrKeyNotInStore) {
			t.Errorf("once more after Destroy: %v", err)
		}
	}
	if err := store.Probe(); err != nil || d.link == nil || d.link.made != made {
		t.Errorf("a missing key is the token's fault: %v", err)
	}
}

// TestTokenPIN: a wrong PIN is told, and not tried again until the file has another one. A token that would
// lock after one more is not tried at all.
func TestTokenPIN(t *testing.T) {
	soft := newSoftToken(t)
	soft.setPIN(t, "")
	if _, err := OpenKeyStore(KeyStoreConfig{URI: soft.uri}); !errors.Is(err, ErrPIN) {
		t.Errorf("an empty file: %v", err)
	}
	soft.setPIN(t, "wrong-s3cret")
	store := soft.open(t, 2)
	d := store.d.(*token)
	err := store.Probe()
	if !errors.Is(err, ErrPIN) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), testPIN) {
		t.Fatalf("a wrong PIN: %v", err)
	}
	again := func() error { // at once, without the pause
		d.mu.Lock()
		d.next = time.Time{}
		d.mu.Unlock()
		return store.Probe()
	}
	// The right PIN becomes that one, so a try would succeed.
	setTokenPIN(t, d, testPIN, "wrong-s3cret")
	for range 3 {
		if err := again(); !errors.Is(err, ErrPIN) || !strings.Contains(err.Error(), "not tried again") {
			t.Errorf("again: %v", err)
		}
	}
	setTokenPIN(t, d, "wrong-s3cret", testPIN)
	soft.setPIN(t, testPIN)
	if err := again(); err != nil {
		t.Errorf("the right PIN: %v", err)
	}
	if _, err := store.Generate(1024, "x"); err != nil {
		t.Error(err)
	}
}

// setTokenPIN replaces the PIN of the one token of the module of d.
func setTokenPIN(t *testing.T, d *token, was, is string) {
	t.Helper()
	slot, _, err := d.find()
	if err != nil {
		t.Fatal(err)
	}
	session, err := d.module.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	if err == nil {
		err = d.module.Login(session, pkcs11.CKU_USER, was)
	}
	if err == nil {
		err = d.module.SetPIN(session, was, is)
	}
	if err == nil {
		err = errors.Join(d.module.Logout(session), d.module.CloseSession(session))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTokenOfTwo: two processes with one token. What one makes, the other uses at once, and the end of one
// ends nothing of the other.
func TestTokenOfTwo(t *testing.T) {
	if uri := os.Getenv("TEST_TOKEN_OF"); uri != "" {
		store, err := OpenKeyStore(KeyStoreConfig{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		key := must(store.Generate(1024, "countersign other request"))(t)
		fmt.Printf("%s", must(key.StoredPEM())(t))
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		os.Exit(0) // without what the test writes at its end
	}
	soft := newSoftToken(t)
	store := soft.open(t, 2)
	own := must(store.Generate(1024, "countersign shop request"))(t)
	must(Seal(own, PKCS1v15, sample(50)))(t)
	for range 2 {
		c := exec.Command(os.Args[0], "-test.run=^TestTokenOfTwo$")
		c.Env = append(os.Environ(), "TEST_TOKEN_OF="+soft.uri)
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, key := range []*Key{must(ParseStoredKey(out))(t).In(store), own} {
			got := must(Open(key.Public(), PKCS1v15, must(Seal(key, PKCS1v15, sample(50)))(t)))(t)
			if !bytes.Equal(got, sample(50)) {
				t.Errorf("%v opens to something else", key)
			}
		}
	}
}

// TestTokenAway takes the token away and brings it back.
func TestTokenAway(t *testing.T) {
	soft := newSoftToken(t)
	store := soft.open(t, 4)
	key := must(store.Generate(1024, "countersign shop request"))(t)
	must(Seal(key, PKCS1v15, sample(50)))(t)
	d := store.d.(*token)
	now := func() { // without the pauses
		d.mu.Lock()
		d.next = time.Time{}
		if d.link != nil {
			d.link.made = time.Now().Add(-2 * youngLink)
		}
		d.mu.Unlock()
	}
	for range 3 {
		away := soft.take(t)
		d.mu.Lock()
		err := d.module.Finalize() // what a module does that lost its device: no handle holds any more
		d.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		now()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := Seal(key, PKCS1v15, sample(50)); !errors.Is(err, ErrKeyStore) {
					t.Errorf("sealing without the token: %v", err)
				}
			})
		}
		all.Wait()
		if err := store.Probe(); err == nil || !strings.Contains(err.Error(), "there is no token") {
			t.Errorf("Probe: %v", err)
		}
		away()
		now()
		if err := store.Probe(); err != nil {
			t.Fatalf("the token is back: %v", err)
		}
		if _, err := Seal(key, PKCS1v15, sample(50)); err != nil {
			t.Fatalf("the token is back: %v", err)
		}
	}
	// A session that the token has ended costs no operation.
	if err := d.module.CloseAllSessions(d.link.slot); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := Seal(key, PKCS1v15, sample(50)); err != nil {
			t.Errorf("after the sessions were closed: %v", err)
		}
	}
}

func TestTokenNotThere(t *testing.T) {
	soft := newSoftToken(t)
	for uri, says := range map[string]string{
		strings.Replace(soft.uri, "libsofthsm2.so", "libnone.so", 1): "cannot be loaded",
		strings.Replace(soft.uri, soft.pin, soft.pin+".no", 1):       "cannot be read",
	} {
		if _, err := OpenKeyStore(KeyStoreConfig{URI: uri}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	other := soft
	other.uri = strings.Replace(soft.uri, "shop%20keys", "another", 1)
	if err := other.open(t, 1).Probe(); err == nil || !strings.Contains(err.Error(), `there is no token "another"`) {
		t.Error(err)
	}
}

// BenchmarkToken measures private operations of softhsm2, in one session and in sixteen.
func BenchmarkToken(b *testing.B) {
	for _, sessions := range []int{1, 16} {
		b.Run(fmt.Sprintf("%d_sessions", sessions), func(b *testing.B) {
			soft := newSoftToken(b)
			store := soft.open(b, sessions)
			for _, bits := range []int{2048} {
				key := must(store.Generate(bits, "bench"))(b)
				chunk := sample(key.MaxChunk(PKCS1v15))
				body := must(Seal(key.Public(), PKCS1v15, chunk))(b)
				signer := must(store.GenerateSigningKey("bench"))(b)
				for what, f := range map[string]func() error{
					"seal": func() error { return second(Seal(key, PKCS1v15, chunk)) },
					"open": func() error { return second(Open(key, PKCS1v15, body)) },
					"sign": func() error { return second(signer.Sign(chunk)) },
				} {
					b.Run(fmt.Sprintf("%s/%d", what, bits), func(b *testing.B) {
						var all sync.WaitGroup
						work := make(chan struct{})
						for range sessions {
							all.Go(func() {
								for range work {
									if err := f(); err != nil {
										b.Error(err)
									}
								}
							})
						}
						for b.Loop() {
							work <- struct{}{}
						}
						close(work)
						all.Wait()
						b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "operations/s")
					})
				}
			}
		})
	}
}
