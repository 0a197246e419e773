package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/internal/store/storetest"
)

func TestMasterKey(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			s := openAt(t, url)
			addMerchants(t, s, 1, nil)
			s.Close()
			wrong, err := Open(ctx, Config{URL: url, Keys: NewMasterKey([32]byte{8})})
			if !errors.Is(err, ErrMasterKey) {
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
		if got := fmt.Sprintf("%"+verb, NewMasterKey([32]byte{7, 7, 7})); got != "master key" {
			t.Errorf("%%%s prints %s", verb, got)
		}
	}
}

// brokenKeys is a key management service that can't be reached.
type brokenKeys struct{}

var errUnreachable = errors.New("unreachable")

func (brokenKeys) Wrap(context.Context, []byte) ([]byte, error)   { return nil, errUnreachable }
func (brokenKeys) Unwrap(context.Context, []byte) ([]byte, error) { return nil, errUnreachable }

func TestKeysOutOfReach(t *testing.T) {
	url := storetest.SQLite(t)
	for range 2 { // a new database, then one that is there
		if _, err := Open(ctx, Config{URL: url, Keys: brokenKeys{}}); !errors.Is(err, errUnreachable) || errors.Is(err, ErrMasterKey) {
			t.Errorf("got %v", err)
		}
		openAt(t, url).Close()
	}
	for _, c := range []Config{{URL: url}, {Keys: testKeys}} {
		if _, err := Open(ctx, c); err == nil {
			t.Errorf("%+v opens", c)
		}
	}
}

func TestNewerSchema(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			s := openAt(t, url)
			exec(t, s, `INSERT INTO schema_version (number) VALUES (9999)`)
			s.Close()
			if _, err := Open(ctx, Config{URL: url, Keys: testKeys}); !errors.Is(err, ErrNewerSchema) || !strings.Contains(err.Error(), "9999") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMigrations(t *testing.T) {
	sqlite, postgres := must(readMigrations(migrations, "sqlite"))(t), must(readMigrations(migrations, "postgres"))(t)
	if len(sqlite) != len(postgres) || len(sqlite) == 0 {
		t.Fatalf("%d for SQLite, %d for PostgreSQL", len(sqlite), len(postgres))
	}
	for i := range sqlite {
		if sqlite[i].name != postgres[i].name {
			t.Errorf("number %d is %s and %s", i+1, sqlite[i].name, postgres[i].name)
		}
	}
	// What the texts repeat of constants.
	for _, m := range []migration{sqlite[0], postgres[0]} {
		for _, want := range []string{
			fmt.Sprintf("WHEN failures >= %d THEN", BreakerThreshold),
			fmt.Sprintf("DEFAULT %d, -- of rows that are pending", Never),
			fmt.Sprintf("deadline < %d;", Never),
		} {
			if !strings.Contains(m.text, want) {
				t.Errorf("%s lacks %q", m.name, want)
			}
		}
	}
	for _, text := range []string{claimLaneSQL, recheckSQL, nextDueSQL, resendSQL, overlookedSQL, lateCallbacksSQL} {
		if !strings.Contains(text, fmt.Sprint(int64(Never))) {
			t.Errorf("%q lacks Never", text)
		}
	}
	if !strings.Contains(breakersSQL, fmt.Sprintf("failures >= %d", BreakerThreshold)) {
		t.Errorf("%q lacks the threshold", breakersSQL)
	}
	// One that fails leaves nothing half done.
	s := openAt(t, storetest.SQLite(t))
	conn := s.db.(*sqliteDB).conn
	n := len(sqlite)
	bad := append(sqlite, migration{n + 1, "0999_bad.sql", `CREATE TABLE half (a INTEGER); nonsense`})
	if err := migrate(ctx, conn, bad); err == nil || !strings.Contains(err.Error(), "0999_bad.sql") {
		t.Errorf("got %v", err)
	}
	good := append(sqlite, migration{n + 1, "0999_good.sql", `CREATE TABLE half (a INTEGER)`})
	if err := migrate(ctx, conn, good); err != nil {
		t.Errorf("then %v", err)
	}
}

// TestNodesMigrateTogether: nodes that start at the same time do it once.
func TestNodesMigrateTogether(t *testing.T) {
	url := storetest.Postgres(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Open(ctx, Config{URL: url, Keys: testKeys})
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

func TestSecondProcess(t *testing.T) {
	url := storetest.SQLite(t)
	s := openAt(t, url)
	// A lock belongs to the open file: within one process it works alike.
	if _, err := Open(ctx, Config{URL: url, Keys: testKeys}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one gives %v", err)
	}
	addMerchants(t, s, 1, nil) // the first one is not disturbed
	s.Close()
	openAt(t, url)
}

func TestFileModes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "with space & 100%#.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path)
	addMerchants(t, s, 1, nil)
	n := 0
	filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		if e.IsDir() {
			return nil
		}
		n++
		info := must(e.Info())(t)
		if !strings.HasPrefix(e.Name(), filepath.Base(path)) || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
		return nil
	})
	if n < 3 { // the database, its log, the lock
		t.Errorf("%d files", n)
	}
}

func TestSecretsAreSealed(t *testing.T) {
	pem := must(testPair().PrivatePEM())(t)
	secrets := map[string][]byte{
		"API key": []byte("api-key-of-m0"), "callback API key": []byte("very-secret-callback-key"),
		"private key (PEM)": pem[40:80], "public key": []byte(testPair().PublicBase64()[20:60]), "data key seal": []byte(wrapPurpose),
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
				err := each(ctx, s.db, `SELECT CAST(m AS TEXT) FROM merchants m UNION ALL SELECT CAST(m AS TEXT) FROM meta m`, nil, func(r rows) error {
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
	url := storetest.SQLite(t)
	s := openAt(t, url)
	addMerchants(t, s, 1, nil)
	w, _ := confirmedWithdrawal(t, s, "cb", 50)
	must(s.Release(ctx, w.ID, "claim", "permit", 60))(t)
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
		// The log first: what is in the database file by then is in neither
		// only if a checkpoint comes between, and none does this early.
		copied := filepath.Join(t.TempDir(), "copy.db")
		for _, suffix := range []string{"-wal", ""} {
			data, err := os.ReadFile(url + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(copied+suffix, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		again := openAt(t, copied)
		for _, id := range must {
			if _, err := again.Callback(ctx, id); err != nil {
				t.Fatalf("%s was answered and is gone: %v", id, err)
			}
		}
		if n, err := again.ReclaimAll(ctx, 300); err != nil || n != 1 {
			t.Errorf("reclaimed %d, %v", n, err)
		}
		if p, err := again.Release(ctx, w.ID, "claim", "other", 400); err != nil || p.Permit != "permit" {
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
			if _, err := s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1)}, 1); !errors.Is(err, ErrClosed) {
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

func TestBadURL(t *testing.T) {
	for _, url := range []string{"postgres://user:hunter2@/?port=x", "postgres://user:hunter2@127.0.0.1:1/db?connect_timeout=1"} {
		_, err := Open(ctx, Config{URL: url, Keys: testKeys})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
