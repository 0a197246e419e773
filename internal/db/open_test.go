package db

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/internal/lab/dbtest"
)

func TestIncompleteConfig(t *testing.T) {
	url := dbtest.SQLite(t)
	for _, c := range []Config{{URL: url}, {Keys: testKeys}} {
		if _, err := Open(ctx, c, testEnd); err == nil {
			t.Errorf("%+v opens", c)
		}
	}
}

func TestNewerSchema(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		s := openAt(t, url)
		exec(t, s, `INSERT INTO schema_version (number) VALUES (9999)`)
		s.Close()
		dbtest.Fails(Open(ctx, Config{URL: url, Keys: testKeys}, testEnd))(t, ErrNewerSchema, "9999")
	})
}

// TestHalfMigration: a migration that fails leaves nothing half done.
func TestHalfMigration(t *testing.T) {
	s := openAt(t, dbtest.SQLite(t))
	conn := s.backend.(*sqliteDB).conn
	if _, err := migrate(ctx, conn, s.dialect, later(`CREATE TABLE half (a INTEGER); nonsense`)); err == nil || !strings.Contains(err.Error(), "0002_more.sql") {
		t.Errorf("got %v", err)
	}
	if is, err := migrate(ctx, conn, s.dialect, later(`CREATE TABLE half (a INTEGER)`)); err != nil || is != (schema{before: 1, knows: 2}) {
		t.Errorf("then %v, %v", is, err)
	}
}

// TestNodesMigrateTogether: nodes that start at the same time do it once.
func TestNodesMigrateTogether(t *testing.T) {
	url := dbtest.Postgres(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Open(ctx, Config{URL: url, Keys: testKeys}, testEnd)
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

// TestNodesNoteFirstKeyTogether: nodes that note the first master key at the same time do not
// fail each other, and of two keys one is the first.
func TestNodesNoteFirstKeyTogether(t *testing.T) {
	url := dbtest.Postgres(t)
	var nodes []*DB
	for range 8 {
		nodes = append(nodes, openAt(t, url))
	}
	other := NewMasterKey([32]byte{8})
	for range 100 {
		exec(t, nodes[0], `DELETE FROM meta WHERE name = 'master_key'`)
		var wg sync.WaitGroup
		var errs [8]error
		for i, d := range nodes {
			wg.Go(func() { errs[i] = d.setKey(ctx, []*MasterKey{testKeys, other}[i%2], nil) })
		}
		wg.Wait()
		is := must(KeyOf(ctx, nodes[0]))(t)
		for i, d := range nodes {
			if first := d.MasterKey().Fingerprint() == is; first != (errs[i] == nil) || !first && !errors.Is(errs[i], ErrMasterKey) {
				t.Fatalf("node %d: %v", i, errs[i])
			}
		}
	}
}

// TestOtherEnd: a database belongs to the end that opened it first.
func TestOtherEnd(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		openAt(t, url).Close()
		other := testEnd
		other.Name = "other"
		dbtest.Fails(Open(ctx, Config{URL: url, Keys: testKeys}, other))(t, ErrOtherEnd, "belongs to the test")
		openAt(t, url)
	})
}

func TestFileModes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "with space & 100%#.db")
	ok(t, os.WriteFile(path, nil, 0o644))
	s := openAt(t, path)
	keep(t, s, "a")
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

func TestBadURL(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{"mysql://user:hunter2@host/db", "http://x", "file:///tmp/x", "Postgres://host/db"} {
		_, err := Open(ctx, Config{URL: url, Keys: testKeys}, testEnd)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "is not taken: give a postgres:// URL") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) != 0 {
		t.Errorf("%v, %v", made, err)
	}
	for _, url := range []string{"postgres://user:hunter2@/?port=x", "postgres://user:hunter2@127.0.0.1:1/db?connect_timeout=1"} {
		_, err := Open(ctx, Config{URL: url, Keys: testKeys}, testEnd)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
