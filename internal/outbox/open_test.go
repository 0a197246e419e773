package outbox

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

func TestMasterKey(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			s := openAt(t, url)
			addMerchants(t, s, 1, nil)
			s.Close()
			wrong, err := db.Open(ctx, db.Config{URL: url, Keys: db.NewMasterKey([32]byte{8})}, End())
			if !errors.Is(err, db.ErrMasterKey) {
				t.Fatalf("another key opens it: %v, %v", wrong, err)
			}
			// The refused one has let go of the file, and the right key still opens.
			s = openAt(t, url)
			if m := must(s.Merchant(ctx, "m0"))(t); m.APIKey.Reveal() != "api-key-of-m0" {
				t.Error("the secrets came back changed")
			}
		})
	}
	for verb := range strings.SplitSeq("v +v #v s x d q", " ") {
		if got := fmt.Sprintf("%"+verb, db.NewMasterKey([32]byte{7, 7, 7})); got != "master key" {
			t.Errorf("%%%s prints %s", verb, got)
		}
	}
}

// TestNodesMigrateTogether: nodes that start at the same time do it once.
func TestNodesMigrateTogether(t *testing.T) {
	url := dbtest.Postgres(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := db.Open(ctx, db.Config{URL: url, Keys: testKeys}, End())
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestSecretsAreSealed(t *testing.T) {
	pem := must(testPair().PrivatePEM())(t)
	secrets := map[string][]byte{
		"API key": []byte("api-key-of-m0"), "callback API key": []byte("very-secret-callback-key"),
		"private key (PEM)": pem[40:80], "public key": []byte(testPair().PublicBase64()[20:60]), "data key seal": []byte("countersign data key"),
	}
	check := func(t *testing.T, where string, data []byte) {
		for name, secret := range secrets {
			if bytes.Contains(data, secret) || bytes.Contains(data, []byte(hex.EncodeToString(secret))) {
				t.Errorf("%s holds the %s in clear", where, name)
			}
		}
	}
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			s := openAt(t, url)
			addMerchants(t, s, 1, func(m *Merchant) { m.CallbackAPIKey, m.ResponseKey = "very-secret-callback-key", testPair() })
			must(s.UpdateMerchant(ctx, "m0", 5, func(m *Merchant) error { m.Name = "renamed"; return nil }))(t)
			if d.name == "postgres" {
				err := db.Each(ctx, s, `SELECT CAST(m AS TEXT) FROM merchants m UNION ALL SELECT CAST(m AS TEXT) FROM meta m`, nil, func(r db.Rows) error {
					var text string
					err := r.Scan(&text)
					check(t, "a row", []byte(text))
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			s.Close()
			files := must(filepath.Glob(url + "*"))(t)
			for _, f := range files {
				check(t, filepath.Base(f), must(os.ReadFile(f))(t))
			}
			if len(files) == 0 {
				t.Error("no files")
			}
		})
	}
}

// TestReopenAfterKill copies the files of a database in use, as a crash would
// leave them, and finds in the copy everything that was answered.
func TestReopenAfterKill(t *testing.T) {
	url := dbtest.SQLite(t)
	s := openAt(t, url)
	addMerchants(t, s, 1, nil)
	w, _ := confirmedWithdrawal(t, s, "cb", 50)
	must(s.Release(ctx, w.ID, Holder{Claim: "claim", Origin: "core"}, "permit", 60))(t)
	one := claimOne(t, s, "sending", 100)
	var mu sync.Mutex
	answered := []string{one.ID}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for c := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				got, err := s.Ingest(ctx, []NewCallback{deposit("m0", fmt.Sprint(c, "-", i), 200)}, 200)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				answered = append(answered, got[0].ID)
				mu.Unlock()
			}
		})
	}
	for round := range 5 {
		for { // let some come in
			mu.Lock()
			n := len(answered)
			mu.Unlock()
			if n > 20*(round+1) {
				break
			}
		}
		mu.Lock()
		must := append([]string(nil), answered...)
		mu.Unlock()
		copied := filepath.Join(t.TempDir(), "copy.db")
		copyInUse(t, url, copied)
		again := openAt(t, copied)
		for _, id := range must {
			if _, err := again.Callback(ctx, id); err != nil {
				t.Fatalf("%s was answered and is gone: %v", id, err)
			}
		}
		if n, err := again.ReclaimAll(ctx, 300); err != nil || n != 1 {
			t.Errorf("reclaimed %d, %v", n, err)
		}
		if p, err := again.Release(ctx, w.ID, Holder{Claim: "claim", Origin: "core"}, "other", 400); err != nil || p.Permit != "permit" {
			t.Errorf("the permit is %q, %v", p.Permit, err)
		}
		again.Close()
	}
	close(stop)
	wg.Wait()
}

func TestClosed(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			s := openAt(t, d.url(t))
			addMerchants(t, s, 1, nil)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1)}, 1); !errors.Is(err, db.ErrClosed) {
				t.Errorf("ingest gives %v", err)
			}
			if err := s.Ping(ctx); err == nil {
				t.Error("it answers")
			}
			if err := s.Close(); err != nil {
				t.Errorf("closing again: %v", err)
			}
		})
	}
}

// copyInUse copies a database that is in use, with its log. While the file stays as it is, no
// checkpoint has moved rows from the log, which is read in between; the tail of the log may be torn.
func copyInUse(t *testing.T, from, to string) {
	t.Helper()
	read := func(name string) []byte { return must(os.ReadFile(name))(t) }
	file := read(from)
	for {
		log, after := read(from+"-wal"), read(from)
		if !bytes.Equal(file, after) {
			file = after
			continue
		}
		if err := errors.Join(os.WriteFile(to, file, 0o600), os.WriteFile(to+"-wal", log, 0o600)); err != nil {
			t.Fatal(err)
		}
		return
	}
}
