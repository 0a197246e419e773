package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// A token's row of before its revocation that is put back while no process runs is not believed
// by the next one, which knows the row's number from the data directory. A declared restore ends
// what was known.
func TestLastRows(t *testing.T) {
	ctx, s := t.Context(), Storage{Dir: t.TempDir()}
	if err := os.Chmod(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	open := func() *db.DB {
		t.Helper()
		d, err := s.open(ctx, slog.New(slog.DiscardHandler), outbox.End())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	exec := func(d *db.DB, text string) {
		t.Helper()
		err := d.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			_, err := x.Exec(ctx, text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	d := open()
	hash := [32]byte{1}
	token := api.NewStoreToken("core", client.RoleOperator, 1)
	if err := api.NewTokens(d).Create(ctx, token, hash); err != nil {
		t.Fatal(err)
	}
	exec(d, `CREATE TABLE kept AS SELECT * FROM tokens`)
	if err := api.NewTokens(d).Revoke(ctx, token.ID, 5, nil); err != nil {
		t.Fatal(err)
	}
	exec(d, `DELETE FROM tokens`)
	exec(d, `INSERT INTO tokens SELECT * FROM kept`)
	s.seeLast(ctx, d, nil)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	d = open()
	if got, err := api.NewTokens(d).ByHash(ctx, hash); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("the next process takes a revoked token: %+v, %v", got, err)
	}
	_, err := d.BeginEpoch(ctx, nil, 0, db.Head{Root: []byte{1}}, 10, func(context.Context, *db.Tx, db.Epoch) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open()
	defer d.Close()
	if _, err := api.NewTokens(d).ByHash(ctx, hash); err != nil {
		t.Errorf("after a restore the token of the backup is %v", err)
	}
}
