package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/internal/lab/dbtest"
)

// often has background loops wait for 10 ms.
var often = World{Every: func(time.Duration) time.Duration { return 10 * time.Millisecond }}

// watch runs d.Run until the test ends and gives its error.
func watch(t *testing.T, d *DB) <-chan error {
	ctx, stop := context.WithCancel(ctx)
	ended, result := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		result <- d.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return result
}

// TestFullDisk: writes say that the disk is full, Ready says so as long as it is, and
// all is well when there is room.
func TestFullDisk(t *testing.T) {
	dir := dbtest.SmallDisk(t, 2<<20)
	ballast := filepath.Join(dir, "ballast")
	ok(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600))
	d := openAt(t, filepath.Join(dir, "countersign.db"))
	watch(t, d)
	ready := func() error { return d.Ready(ctx) }
	ok(t, ready())
	kept := 0
	write := func() error {
		return d.Write(ctx, func(ctx context.Context, x *Tx) error {
			_, err := x.Exec(ctx, `INSERT INTO things (name, content) VALUES ($1, $2)`, fmt.Sprint(kept), strings.Repeat("x", 50_000))
			return err
		})
	}
	var err error
	for err = write(); err == nil; err = write() {
		kept++
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("the write says %v, want %v", err, ErrFull)
	}
	dbtest.Until(t, "the small write fails too", func() bool { return errors.Is(ready(), ErrFull) })
	ok(t, os.Remove(ballast))
	dbtest.Until(t, "Ready is well again", func() bool { return ready() == nil })
	if err := write(); err != nil {
		t.Errorf("with room: %v", err)
	}
	var n int
	must(One(ctx, d, `SELECT COUNT(*) FROM things`, nil, &n))(t)
	if n != kept+1 {
		t.Errorf("%d rows, want %d", n, kept+1)
	}
}

// TestFirstStartOnFullDisk: it fails, and the next one is a first start again.
func TestFirstStartOnFullDisk(t *testing.T) {
	dir := dbtest.SmallDisk(t, 512<<10)
	ballast := filepath.Join(dir, "ballast")
	ok(t, os.WriteFile(ballast, make([]byte, 492<<10), 0o600))
	path := filepath.Join(dir, "countersign.db")
	asked := 0
	c := Config{URL: path, FindKeys: func(fingerprint string) (*MasterKey, error) {
		asked++
		if fingerprint != "" {
			t.Error("the database is not new")
		}
		return testKeys, nil
	}}
	if _, err := Open(ctx, c, testEnd); !errors.Is(err, ErrFull) && !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v, want %v", err, ErrFull)
	}
	if asked != 0 {
		t.Error("it asked for keys before there was a database")
	}
	ok(t, os.Remove(ballast))
	d, err := Open(ctx, c, testEnd)
	if err != nil || asked != 1 {
		t.Fatalf("with room: %v; asked for keys %d times", err, asked)
	}
	d.Close()
}

// TestServerRefusesWrites: a PostgreSQL database that takes no writes is not ready,
// although it answers.
func TestServerRefusesWrites(t *testing.T) {
	url := dbtest.Postgres(t)
	d := must(Open(ctx, Config{URL: url, Keys: testKeys, World: often}, testEnd))(t)
	t.Cleanup(func() { d.Close() })
	watch(t, d)
	for code, want := range map[string]error{"53100": ErrFull, "42501": ErrUnavailable} {
		dbtest.Exec(t, url, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '`+code+`'; END $$;
			CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON meta FOR EACH ROW EXECUTE FUNCTION refuse()`)
		dbtest.Until(t, "not ready after "+code, func() bool { return errors.Is(d.Ready(ctx), want) })
		dbtest.Exec(t, url, `DROP TRIGGER refuse ON meta; DROP FUNCTION refuse()`)
		dbtest.Until(t, "ready again", func() bool { return d.Ready(ctx) == nil })
	}
}

// TestGone: a database whose files are no longer where they were ends the process.
func TestGone(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"removed":           func(path string) error { return os.Remove(path) },
		"replaced":          func(path string) error { return replaceWith(path, "") },
		"log removed":       func(path string) error { return os.Remove(path + "-wal") },
		"log replaced":      func(path string) error { return replaceWith(path+"-wal", "") },
		"directory removed": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"directory moved": func(path string) error {
			return os.Rename(filepath.Dir(path), filepath.Dir(path)+".moved")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data", "countersign.db")
			ok(t, os.Mkdir(filepath.Dir(path), 0o700))
			d := must(Open(ctx, Config{URL: path, Keys: testKeys, World: often}, testEnd))(t)
			t.Cleanup(func() { d.Close() })
			ended := watch(t, d)
			keep(t, d, "a")
			ok(t, lose(path))
			if err := <-ended; !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func replaceWith(path, content string) error {
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
