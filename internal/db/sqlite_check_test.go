package db

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/lab/dbtest"
)

// filled returns a database with many pages that was closed.
func filled(t *testing.T) (path string) {
	t.Helper()
	path = dbtest.SQLite(t)
	d := openAt(t, path)
	fill(t, d, 0)
	ok(t, d.Close())
	return path
}

const fillRows = 200

func fill(t *testing.T, d *DB, from int) {
	t.Helper()
	for i := range fillRows {
		exec(t, d, `INSERT INTO things (name, content) VALUES ($1, $2)`, fmt.Sprint(from+i), strings.Repeat("x", 1000))
	}
}

// openUsed opens a database that was used before.
func openUsed(t *testing.T, path string) error {
	t.Helper()
	d, err := Open(ctx, Config{URL: path, Keys: testKeys, Used: true}, testEnd)
	if err == nil {
		d.Close()
	}
	return err
}

// A database that was used and is not whole is refused, and nothing is made in its
// place.
func TestNotWhole(t *testing.T) {
	truncate := func(to int64) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			ok(t, os.Truncate(path, to))
		}
	}
	for name, tt := range map[string]struct {
		spoil func(*testing.T, string)
		want  string
	}{
		"missing": {func(t *testing.T, path string) {
			ok(t, os.Remove(path))
		}, "is missing"},
		"empty": {truncate(0), "is empty"},
		"without its log": {func(t *testing.T, path string) {
			ok(t, os.Remove(path))
			fresh := dbtest.SQLite(t)
			d := openAt(t, fresh) // all it has is in its log
			copyFile(t, fresh, path)
			d.Close()
		}, "was copied while it was in use, without its log"},
		"cut off":       {truncate(10 * 4096), "malformed"},
		"cut off early": {truncate(50), "malformed"},
		"another file": {func(t *testing.T, path string) {
			ok(t, os.WriteFile(path, []byte(strings.Repeat("text ", 1000)), 0o600))
		}, "file is not a database"},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := map[string]bool{"cut off": true, "cut off early": true, "another file": true, "without its log": true} // what a look sees
			path := filled(t)
			tt.spoil(t, path)
			before, _ := os.ReadFile(path)
			for range 2 {
				if err := openUsed(t, path); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
					t.Fatalf("got %v, want %q", err, tt.want)
				}
			}
			look := Look(ctx, path, testEnd, slog.New(slog.DiscardHandler), func(s Seen) error {
				if s.Made {
					t.Error("a look finds tables")
				}
				return nil
			})
			if is := errors.Is(look, ErrBroken); is != damaged[name] || is && !strings.Contains(look.Error(), path) {
				t.Errorf("a look says %v", look)
			}
			after, err := os.ReadFile(path)
			if string(before) != string(after) || (name == "missing") != errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file was changed, %v", err)
			}
		})
	}
	openAt(t, dbtest.SQLite(t)) // one that was never used is made
}

// copyFile copies what is at path now.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	ok(t, os.WriteFile(to, must(os.ReadFile(from))(t), 0o600))
}

// copied returns a copy of a database with its log.
func copied(t *testing.T, path string) (to string) {
	t.Helper()
	to = dbtest.SQLite(t)
	for _, part := range []string{"", "-wal"} {
		copyFile(t, path+part, to+part)
	}
	return to
}

// A process that dies while the log is copied leaves a file that is shorter than its
// header says, and a log with the rest.
func TestCutOffAmidCheckpoint(t *testing.T) {
	path, left := dbtest.SQLite(t), dbtest.SQLite(t)
	d := openAt(t, path)
	fill(t, d, 0)
	copyFile(t, path+"-wal", left+"-wal")
	info := must(os.Stat(path))(t)
	ok(t, d.Close()) // copies the log
	copyFile(t, path, left)
	ok(t, os.Truncate(left, info.Size()))
	ok(t, openUsed(t, left))
	var n int
	must(One(ctx, openAt(t, left), `SELECT COUNT(*) FROM things`, nil, &n))(t)
	if n != fillRows {
		t.Errorf("%d rows, want %d", n, fillRows)
	}
}

// After an unclean end the database is read, and a page that is damaged is named with its table.
func TestDamagedPage(t *testing.T) {
	path := filled(t)
	d := openAt(t, path)
	fill(t, d, fillRows)
	left := copied(t, path)
	if err := openUsed(t, left); err != nil {
		t.Fatalf("undamaged: %v", err)
	}
	left = copied(t, path)
	var page int64 // of a table that neither opening reads nor the log has
	must(One(ctx, d, `SELECT rootpage FROM sqlite_schema WHERE name = 'votes'`, nil, &page))(t)
	spoilPage(t, left, page)
	want := fmt.Sprintf("Tree %d page %[1]d", page)
	err := Look(ctx, left, testEnd, d.Log(), func(s Seen) error { return s.CheckPages(ctx) })
	if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), want) {
		t.Errorf("a look says %v, want %s", err, want)
	}
	if err := openUsed(t, left); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func spoilPage(t *testing.T, path string, page int64) {
	t.Helper()
	f := must(os.OpenFile(path, os.O_WRONLY, 0))(t)
	defer f.Close()
	must(f.WriteAt([]byte(strings.Repeat("\xff", 4096)), (page-1)*4096))(t)
}

// Random bytes over half of the pages of an open database make it unready for good once a read
// meets one: it takes nothing in any more, not even on pages that are whole, and reading goes on.
func TestDamagedWhileOpen(t *testing.T) {
	path := filled(t)
	d := openAt(t, path)
	f := must(os.OpenFile(path, os.O_RDWR, 0))(t)
	pages := must(f.Stat())(t).Size() / 4096
	for n := pages / 2; n < pages; n++ { // the table of things is among them
		noise := make([]byte, 4096)
		_, _ = rand.Read(noise)
		must(f.WriteAt(noise, n*4096))(t)
	}
	ok(t, f.Close())
	if err := d.Ready(ctx); err != nil {
		t.Fatalf("before anything met the page: %v", err)
	}
	_, err := List(ctx, d, `SELECT content FROM things`, nil, func(r Rows) (s string, err error) {
		err = r.Scan(&s)
		return s, err
	})
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrBroken) {
		t.Fatalf("reading all gives %v", err)
	}
	var kept int
	for name, write := range map[string]func(context.Context, func(context.Context, *Tx) error) error{"durable": d.Write, "unsynced": d.WriteUnsynced} {
		err := write(ctx, func(ctx context.Context, x *Tx) error {
			t.Errorf("a %s write runs on a database that is known to be damaged", name)
			return nil
		})
		if !errors.Is(err, ErrBroken) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("a %s write: %v", name, err)
		}
	}
	if _, err := One(ctx, d, `SELECT COUNT(*) FROM meta`, nil, &kept); err != nil || kept == 0 {
		t.Errorf("reading does not go on: %d, %v", kept, err)
	}
	if err := d.Ready(ctx); !errors.Is(err, ErrBroken) {
		t.Errorf("it is ready: %v", err)
	}
	if err := Look(ctx, path, testEnd, d.Log(), func(s Seen) error { return s.CheckPages(ctx) }); !errors.Is(err, ErrBroken) {
		t.Errorf("a look says %v", err)
	}
}

// TestSecondProcess: one process has a database. The lock is on the database: removing the file beside it frees nothing,
// and a hard link leads to the same database. A lock belongs to the open file: within one process it works alike.
func TestSecondProcess(t *testing.T) {
	path := dbtest.SQLite(t)
	s := openAt(t, path)
	dbtest.Fails(Open(ctx, Config{URL: path, Keys: testKeys}, testEnd))(t, ErrInUse, "")
	ok(t, os.Remove(path+".lock"))
	link := filepath.Join(t.TempDir(), "link.db")
	ok(t, os.Link(path, link))
	for _, p := range []string{path, link} {
		dbtest.Fails(Open(ctx, Config{URL: p, Keys: testKeys}, testEnd))(t, ErrInUse, "")
	}
	keep(t, s, "a") // the first one is not disturbed
	s.Close()
	openAt(t, path)
}
