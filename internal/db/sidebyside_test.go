package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/fstest"

	"countersign/internal/lab/dbtest"
)

// later is testEnd with one migration more.
func later(text string) End {
	end := testEnd
	files := maps.Clone(end.Migrations.(fstest.MapFS))
	for _, d := range dialects {
		files["migrations/"+d.name+"/0002_more.sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	end.Migrations = files
	return end
}

func openEnd(t *testing.T, url string, end End) (*DB, error) {
	t.Helper()
	d, err := Open(ctx, Config{URL: url, Keys: testKeys}, end)
	if err == nil {
		t.Cleanup(func() { d.Close() })
	}
	return d, err
}

// TestSideBySide: a node goes on beside a later version that says that it can, with
// statements that were prepared before, and stops beside one that does not say so.
func TestSideBySide(t *testing.T) {
	url := dbtest.Postgres(t)
	d := openAt(t, url)
	ended := watch(t, d)
	keep(t, d, "a")
	const all = `SELECT * FROM things`
	read := func() {
		t.Helper()
		n := 0
		if err := Each(ctx, d, all, nil, func(Rows) error { n++; return nil }); err != nil || n != 1 {
			t.Errorf("read %d rows, %v", n, err)
		}
	}
	inside := func() {
		t.Helper()
		err := d.Write(ctx, func(ctx context.Context, x *Tx) error {
			n := 0
			if err := Each(ctx, x, all, nil, func(Rows) error { n++; return nil }); err != nil || n != 1 {
				return fmt.Errorf("%d rows, %w", n, err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("in a transaction: %v", err)
		}
	}
	batch := func() {
		t.Helper()
		n := 0
		count := func(Rows) error { n++; return nil }
		if err := d.Batch(ctx, []Statement{{SQL: all, Row: count}, {SQL: all, Row: count}}); err != nil || n != 2 {
			t.Errorf("%d rows of a batch, %v", n, err)
		}
	}
	for range 3 {
		read()
		inside()
		batch()
	}
	if _, err := openEnd(t, url, later("-- oldest: 1\nALTER TABLE things ADD COLUMN more TEXT")); err != nil {
		t.Fatal(err)
	}
	batch()
	read()
	inside()
	again, err := openEnd(t, url, testEnd)
	if err != nil {
		t.Fatalf("the earlier version does not start: %v", err)
	}
	keepLike := again.Write(ctx, func(ctx context.Context, x *Tx) error {
		_, err := x.Exec(ctx, `UPDATE things SET content = 'b' WHERE name = 'a'`)
		return err
	})
	if keepLike != nil {
		t.Error(keepLike)
	}
	select {
	case err := <-ended:
		t.Fatalf("it has stopped: %v", err)
	default:
	}
	dbtest.Exec(t, url, `INSERT INTO schema_version (number) VALUES (3)`) // a version that says nothing
	if err := <-ended; !errors.Is(err, ErrNewerSchema) {
		t.Errorf("it ended with %v", err)
	}
	if _, err := openEnd(t, url, testEnd); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("it starts again: %v", err)
	}
}

// TestOldestMark: a mark that means nothing is refused.
func TestOldestMark(t *testing.T) {
	for _, mark := range []string{"0", "3", "x", ""} {
		if _, err := openEnd(t, dbtest.SQLite(t), later("-- oldest: "+mark+"\n")); err == nil {
			t.Errorf("%q is taken", mark)
		}
	}
}
