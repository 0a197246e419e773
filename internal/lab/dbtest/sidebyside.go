package dbtest

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// Before gives the migrations of files up to number last.
func Before(t testing.TB, files fs.FS, last int) fs.FS {
	t.Helper()
	kept := fstest.MapFS{}
	each(t, files, func(path string, number int, text []byte) {
		if number <= last {
			kept[path] = &fstest.MapFile{Data: text}
		}
	})
	return kept
}

// Widened gives the migrations of files and one more that works with programs that know the
// last one: it adds a column to every table.
func Widened(t testing.TB, files fs.FS, tables []string) fs.FS {
	t.Helper()
	all := fstest.MapFS{}
	last := 0
	each(t, files, func(path string, number int, text []byte) {
		all[path] = &fstest.MapFile{Data: text}
		last = max(last, number)
	})
	text := fmt.Sprintf("-- oldest: %d\n", last)
	for _, table := range tables {
		if table != "schema_version" && table != "meta" {
			text += "ALTER TABLE " + table + " ADD COLUMN of_a_later_version TEXT NOT NULL DEFAULT 'x';\n"
		}
	}
	for _, dialect := range []string{"sqlite", "postgres"} {
		all[fmt.Sprintf("migrations/%s/%04d_wide.sql", dialect, last+1)] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

func each(t testing.TB, files fs.FS, fn func(path string, number int, text []byte)) {
	t.Helper()
	err := fs.WalkDir(files, "migrations", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		var number int
		if _, err := fmt.Sscanf(path[strings.LastIndex(path, "/")+1:], "%04d_", &number); err != nil {
			return err
		}
		text, err := fs.ReadFile(files, path)
		fn(path, number, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// EachSchema runs fn for every schema after number 2 and before the last, with the migrations
// up to it. -short, the race detector and PostgreSQL take every fourth and the last two.
func EachSchema(t *testing.T, kind string, files fs.FS, fn func(t *testing.T, before fs.FS)) {
	last := Numbers(t, files)
	for n := 3; n < last; n++ {
		if (testing.Short() || Race || kind == "postgres") && n%4 != 0 && n < last-2 {
			continue
		}
		t.Run(fmt.Sprintf("%s/%d", kind, n), func(t *testing.T) { fn(t, Before(t, files, n)) })
	}
}

// Numbers is how many migrations files have.
func Numbers(t testing.TB, files fs.FS) (last int) {
	each(t, files, func(_ string, number int, _ []byte) { last = max(last, number) })
	return last
}
