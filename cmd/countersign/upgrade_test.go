package main

import (
	"os"
	"path/filepath"
	"testing"

	"countersign/internal/lab/dbtest"
)

// fixtureKey is the master key of the databases in testdata/releases. It protects nothing.
const fixtureKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// left is what a release leaves beside a deposit and a released withdrawal. What a release
// adds to the databases gets its row here first, with the number of that release.
var left = []struct {
	since, end string
	made       []string // the command that makes it
	shown      []string // the one that shows it
	as         string
}{
	{"0.1.0", "serve", []string{"token", "new", "ops", "role=operator"}, []string{"api", "tokens"}, `"ops"`},
	{"0.1.0", "serve", []string{"merchants", "edit", "shop", "name=A shop"}, []string{"merchants", "show", "shop"}, `"A shop"`},
	{"0.1.0", "serve", []string{"tasks", "note", "release.shop/order", "text=kept 1"}, []string{"tasks", "show", "release.shop/order"}, "kept 1"},
	{"0.1.0", "gateway", []string{"token", "new", "app", "role=app"}, []string{"api", "tokens"}, `"app"`},
	{"0.1.0", "gateway", []string{"tasks", "note", "order.order", "text=kept 2"}, []string{"tasks", "show", "order.order"}, "kept 2"},
	{"0.1.0", "gateway", []string{"tasks", "note", "deposit.1", "text=kept 3"}, []string{"tasks", "show", "deposit.1"}, "kept 3"},
}

// TestUpgrade: the databases that each release left open with this program, which brings them
// up to date, knows what is in them, and goes on. What this program leaves itself is one of
// them; COUNTERSIGN_FIXTURE=DIR keeps it for the releases that come: CONTRIBUTING.md, Release.
func TestUpgrade(t *testing.T) {
	dbtest.Whole(t, "this test starts both ends eight times and more")
	needs(t, "psql")
	t.Setenv("COUNTERSIGN_MASTER_KEY", fixtureKey)
	own := os.Getenv("COUNTERSIGN_FIXTURE")
	if own == "" {
		own = filepath.Join(t.TempDir(), "own")
	}
	releases := must(filepath.Glob("testdata/releases/*"))
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			databases := func(t *testing.T) map[string]string {
				if kind == "sqlite" {
					return nil
				}
				return map[string]string{"serve": dbtest.Postgres(t), "gateway": dbtest.Postgres(t)}
			}
			c := newInstallation(t, databases(t))
			c.begin()
			c.fill()
			c.leave(filepath.Join(own, kind))
			for _, release := range append(releases, own) {
				t.Run(filepath.Base(release), func(t *testing.T) {
					c := newInstallation(t, databases(t))
					for _, end := range bothEnds {
						c.bash(`mkdir "$2"; tar -xzf "$1.tgz" -C "$2"; [ -z "$3" ] || gzip -dc "$1.sql.gz" | psql -q -v ON_ERROR_STOP=1 "$3"`,
							filepath.Join(release, kind, end), c.data(end), c.url[end])
					}
					c.begin()
					c.goesOn(filepath.Base(release))
				})
			}
		})
	}
}
