package jsonapi

import (
	"errors"
	"os"
	"testing"

	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/db/dbtest"
	"countersign/internal/outbox"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// TestTokens: the tokens of either end, in either kind of database.
func TestTokens(t *testing.T) {
	for _, end := range []db.End{outbox.End(), book.End()} {
		for name, url := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
			t.Run(end.Name+"/"+name, func(t *testing.T) {
				d, err := db.Open(t.Context(), db.Config{URL: url(t), Keys: db.NewMasterKey([32]byte{7})}, end)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				testTokens(t, NewTokens(d))
			})
		}
	}
}

func testTokens(t *testing.T, s *Tokens) {
	ctx := t.Context()
	if any, err := s.Any(ctx); any || err != nil {
		t.Error("an empty database has tokens")
	}
	a := Token{ID: "a", Name: "first", Role: "operator", Created: 100}
	b := Token{ID: "b", Name: "second", Role: "viewer", Created: 50}
	for i, token := range []Token{a, b} {
		if err := s.Create(ctx, token, [32]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
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
	if got, err := s.ByHash(ctx, [32]byte{0}); got != a || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := s.ByHash(ctx, [32]byte{9}); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("an unknown hash gives %v", err)
	}
	for i := range 2 {
		if err := s.Revoke(ctx, "a", db.Millis(200+i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.ByHash(ctx, [32]byte{0}); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("a revoked token gives %v", err)
	}
	a.Revoked = 200
	if got, err := s.List(ctx); err != nil || len(got) != 2 || got[0] != b || got[1] != a {
		t.Errorf("listed %+v, %v", got, err)
	}
	if err := s.Revoke(ctx, "nothing", 1); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("revoking nothing gives %v", err)
	}
	if any, err := s.Any(ctx); !any || err != nil {
		t.Error("there are none")
	}
}
