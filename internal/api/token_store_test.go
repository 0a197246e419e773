package api

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var ok = dbtest.OK

func must[T any](v T, err error) func(dbtest.Failer) T { return dbtest.Must(v, err) }

// open opens a database until the test ends.
func open(t *testing.T, url string, end db.End) *db.DB {
	t.Helper()
	d := must(db.Open(t.Context(), db.Config{URL: url, Keys: db.NewMasterKey([32]byte{7})}, end))(t)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// twoNodes opens one database of PostgreSQL twice.
func twoNodes(t *testing.T) [2]*db.DB {
	t.Helper()
	url := dbtest.Postgres(t)
	return [2]*db.DB{open(t, url, outbox.End()), open(t, url, outbox.End())}
}

// eachDatabase runs test with a database of each kind. The merchant's end has the same tables.
func eachDatabase(t *testing.T, test func(*testing.T, *db.DB)) {
	for name, url := range dbtest.Kinds {
		t.Run(name, func(t *testing.T) { test(t, open(t, url(t), outbox.End())) })
	}
}

// TestTokens: tokens in either kind of database.
func TestTokens(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *db.DB) { testTokens(t, NewTokens(d)) })
}

// Two nodes that revoke each other's operator at once leave one of them.
func TestRevocationsOnTwoNodes(t *testing.T) {
	var nodes [2]*Tokens
	for i, d := range twoNodes(t) {
		nodes[i] = NewTokens(d)
	}
	guarded := func(r client.Role) bool { return r == "operator" }
	last := "o0"
	ok(t, nodes[0].Create(t.Context(), Token{ID: last, Role: "operator"}, [32]byte{1}))
	for round := range 50 {
		pair := [2]string{last, fmt.Sprint("o", round+1)}
		ok(t, nodes[0].Create(t.Context(), Token{ID: pair[1], Role: "operator"}, [32]byte{2, byte(round)}))
		var errs [2]error
		var both sync.WaitGroup
		for i := range nodes {
			both.Go(func() { errs[i] = nodes[i].Revoke(t.Context(), pair[i], 5, guarded) })
		}
		both.Wait()
		switch {
		case errs[0] == nil && errors.Is(errs[1], db.ErrConflict):
			last = pair[1]
		case errs[1] == nil && errors.Is(errs[0], db.ErrConflict):
			last = pair[0]
		default:
			t.Fatalf("round %d: %v and %v, want one revoked and one refused", round, errs[0], errs[1])
		}
	}
}

func testTokens(t *testing.T, s *Tokens) {
	ctx := t.Context()
	if list, err := s.List(ctx); len(list) > 0 || err != nil {
		t.Error("an empty database has tokens")
	}
	a := Token{ID: "a", Name: "first", Role: "operator", Created: 100}
	b := Token{ID: "b", Name: "second", Role: "viewer", Merchants: "m1 m2", Maker: "a", Root: "a", Created: 50, Expires: 5000}
	for i, token := range []Token{a, b} {
		ok(t, s.Create(ctx, token, [32]byte{byte(i)}))
	}
	for name, c := range map[string]struct {
		token Token
		hash  byte
		is    error
	}{
		"taken id":   {a, 9, db.ErrConflict},
		"taken hash": {Token{ID: "c", Role: "ingest"}, 0, db.ErrConflict},
		"no role":    {Token{ID: "d"}, 9, db.ErrInvalid},
		"no id":      {Token{Role: "ingest"}, 9, db.ErrInvalid},
	} {
		if err := s.Create(ctx, c.token, [32]byte{c.hash}); !errors.Is(err, c.is) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.Fingerprint, b.Fingerprint = "0000000000000000", "0100000000000000"
	if got, err := s.ByHash(ctx, [32]byte{0}); got != a || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	dbtest.Fails(s.ByHash(ctx, [32]byte{9}))(t, db.ErrNotFound, "")
	for i := range 2 {
		ok(t, s.Revoke(ctx, "a", db.Millis(200+i), nil))
	}
	a.Revoked = 200
	if got, err := s.ByHash(ctx, [32]byte{0}); got != a || err != nil {
		t.Errorf("a revoked token is %+v, %v", got, err)
	}
	if got, err := s.List(ctx); err != nil || len(got) != 2 || got[0] != b || got[1] != a {
		t.Errorf("listed %+v, %v", got, err)
	}
	if err := s.Revoke(ctx, "nothing", 1, nil); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("revoking nothing gives %v", err)
	}
	// Of the guarded roles one valid token stays.
	guarded := func(r client.Role) bool { return r == "operator" }
	for i, id := range []string{"o1", "o2"} {
		ok(t, s.Create(ctx, Token{ID: id, Role: "operator", Created: 300}, [32]byte{20, byte(i)}))
	}
	for _, c := range []struct {
		id string
		is error
	}{{"b", nil}, {"o1", nil}, {"o2", db.ErrConflict}, {"o1", nil}, {"nothing", db.ErrNotFound}} {
		if err := s.Revoke(ctx, c.id, 400, guarded); !errors.Is(err, c.is) {
			t.Errorf("revoking %s gives %v, want %v", c.id, err, c.is)
		}
	}
}
