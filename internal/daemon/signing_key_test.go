package daemon

import (
	"context"
	"errors"
	"sync"
	"testing"

	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// TestSigningKey: each end has one pair, and one at most that will take its place.
func TestSigningKey(t *testing.T) {
	for name, url := range dbtest.Kinds {
		t.Run(name, func(t *testing.T) { testSigningKey(t, openTables(t, url(t))) })
	}
}

// openTables opens a database with the service's tables until the test ends. The merchant's end has the same signing_key.
func openTables(t *testing.T, url string) *db.DB {
	d := must(db.Open(t.Context(), db.Config{URL: url, Keys: db.NewMasterKey([32]byte{7})}, outbox.End()))
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func testSigningKey(t *testing.T, d *db.DB) {
	old := must(openSigningKey(t.Context(), d))
	refused := errors.New("refused")
	dbtest.Fails(stageSigningKey(t.Context(), d, func(context.Context, *db.Tx, *envelope.SigningKey) error { return refused }))(t, refused, "")
	records := 0
	stage := func() *envelope.SigningKey {
		return must(stageSigningKey(t.Context(), d, func(context.Context, *db.Tx, *envelope.SigningKey) error { records++; return nil }))
	}
	next := stage()
	if again := stage(); again.Fingerprint() != next.Fingerprint() || next.Fingerprint() == old.Fingerprint() || records != 1 {
		t.Errorf("staged %s, then %s beside %s, with %d records", next.Fingerprint(), again.Fingerprint(), old.Fingerprint(), records)
	}
	is := func(what string, want *envelope.SigningKey) {
		t.Helper()
		if k, err := openSigningKey(t.Context(), d); err != nil || k.Fingerprint() != want.Fingerprint() {
			t.Errorf("%s: %v, %v", what, k.Fingerprint(), err)
		}
	}
	is("staged", old)
	fail := func(context.Context, *db.Tx, *envelope.SigningKey, *envelope.SigningKey) error { return refused }
	if err := activateSigningKey(t.Context(), d, fail); !errors.Is(err, refused) {
		t.Errorf("a record that failed: %v", err)
	}
	is("broken off", old)
	for range 2 { // the second does nothing
		if err := activateSigningKey(t.Context(), d, func(_ context.Context, _ *db.Tx, key, was *envelope.SigningKey) error {
			if records++; key.Fingerprint() != next.Fingerprint() || was.Fingerprint() != old.Fingerprint() {
				t.Errorf("%s took the place of %s", key.Fingerprint(), was.Fingerprint())
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if is("activated", next); records != 2 {
		t.Errorf("%d records", records)
	}
}

// TestSigningKeyOnTwoNodes: two that make, and put in place, the next pair at once have the same one.
func TestSigningKeyOnTwoNodes(t *testing.T) {
	url := dbtest.Postgres(t)
	nodes := [2]*db.DB{openTables(t, url), openTables(t, url)}
	both := func(do func(d *db.DB) (*envelope.SigningKey, error)) string {
		t.Helper()
		var keys [2]*envelope.SigningKey
		var errs [2]error
		var all sync.WaitGroup
		for i, d := range nodes {
			all.Go(func() { keys[i], errs[i] = do(d) })
		}
		all.Wait()
		if err := errors.Join(errs[:]...); err != nil || keys[0].Fingerprint() != keys[1].Fingerprint() {
			t.Fatalf("%v, or not one key", err)
		}
		return keys[0].Fingerprint()
	}
	before := both(func(d *db.DB) (*envelope.SigningKey, error) { return openSigningKey(t.Context(), d) })
	for range 10 {
		next := both(func(d *db.DB) (*envelope.SigningKey, error) {
			return stageSigningKey(t.Context(), d, func(context.Context, *db.Tx, *envelope.SigningKey) error { return nil })
		})
		now := both(func(d *db.DB) (*envelope.SigningKey, error) {
			if err := activateSigningKey(t.Context(), d, func(context.Context, *db.Tx, *envelope.SigningKey, *envelope.SigningKey) error { return nil }); err != nil {
				return nil, err
			}
			return openSigningKey(t.Context(), d)
		})
		if now != next || now == before {
			t.Fatalf("%s became %s, not %s", before, now, next)
		}
		before = now
	}
}
