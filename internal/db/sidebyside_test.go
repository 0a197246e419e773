package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"countersign/internal/lab/dbtest"
)

// later is testEnd with one migration more.
func later(text string) End {
	end := testEnd
	end.Migrations = append(slices.Clip(end.Migrations), fstest.MapFS{"migrations/0002_more.sql": {Data: []byte(text)}})
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
	const all = `SELECT name, content FROM things`
	rows := func(q Querier) error {
		n := 0
		err := Each(ctx, q, all, nil, func(Rows) error { n++; return nil })
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows", n)
		}
		return err
	}
	look := func() { // a batch first: what it meets, the others do not
		t.Helper()
		n := 0
		count := func(Rows) error { n++; return nil }
		if err := d.Batch(ctx, []Statement{{SQL: all, Row: count}, {SQL: all, Row: count}}); err != nil || n != 2 {
			t.Errorf("%d rows of a batch, %v", n, err)
		}
		ok(t, rows(d))
		ok(t, d.Write(ctx, func(ctx context.Context, x *Tx) error { return rows(x) }))
	}
	for range 3 {
		look()
	}
	must(openEnd(t, url, later("-- oldest: 1\nALTER TABLE things ADD COLUMN more TEXT")))(t)
	look()
	again, err := openEnd(t, url, testEnd)
	if err != nil {
		t.Fatalf("the earlier version does not start: %v", err)
	}
	exec(t, again, `UPDATE things SET content = 'b' WHERE name = 'a'`)
	select {
	case err := <-ended:
		t.Fatalf("it has stopped: %v", err)
	default:
	}
	dbtest.Exec(t, url, `INSERT INTO schema_version (number) VALUES (3)`) // a version that says nothing
	if err := <-ended; !errors.Is(err, ErrNewerSchema) {
		t.Errorf("it ended with %v", err)
	}
	dbtest.Fails(openEnd(t, url, testEnd))(t, ErrNewerSchema, "")
}

// TestOldestMark: a mark that means nothing is refused.
func TestOldestMark(t *testing.T) {
	for _, mark := range []string{"0", "3", "x", ""} {
		if _, err := openEnd(t, dbtest.SQLite(t), later("-- oldest: "+mark+"\n")); err == nil {
			t.Errorf("%q is taken", mark)
		}
	}
}

// TestSteps: files of one number are one step, of which the strictest mark counts, and a
// number that is missing or stands twice is refused.
func TestSteps(t *testing.T) {
	part := func(files ...string) fs.FS {
		m := fstest.MapFS{}
		for i := 0; i < len(files); i += 2 {
			m["migrations/"+files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
		}
		return m
	}
	common := part("0001_common.sql", "a {int};\n", "0003_common.sql", "-- oldest: 1\n{sqlite} c\n{postgres} d\n")
	own := part("0001_own.sql", "b {bytes};\n", "0002_own.sql", "-- oldest: 1\n", "0003_own.sql", "-- oldest: 2\n")
	got, err := steps([]fs.FS{common, own}, newPostgresDialect())
	want := []step{
		{1, "0001_common.sql 0001_own.sql", "a BIGINT;\nb BYTEA;\n", 1},
		{2, "0002_own.sql", "-- oldest: 1\n", 1},
		{3, "0003_common.sql 0003_own.sql", "-- oldest: 1\n-- c\n d\n-- oldest: 2\n", 2},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for why, parts := range map[string][]fs.FS{
		"a gap":                {common},
		"the same twice":       {part("0001_a.sql", "", "0001_b.sql", "")},
		"no number":            {part("first.sql", "")},
		"a part without files": {common, own, fstest.MapFS{}},
	} {
		if got, err := steps(parts, newSQLiteDialect()); err == nil {
			t.Errorf("%s: %+v", why, got)
		}
	}
}
