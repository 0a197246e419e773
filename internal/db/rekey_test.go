package db_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
)

func key(n byte) *db.MasterKey { return db.NewMasterKey([32]byte{n}) }

func openService(t *testing.T, url string, k *db.MasterKey) *outbox.Outbox {
	t.Helper()
	d := must(db.Open(ctx, db.Config{URL: url, Keys: k}, outbox.End()))(t)
	t.Cleanup(func() { d.Close() })
	return outbox.New(d)
}

const merchantCount = 230 // more than Rekey reads at a time

func fillService(t *testing.T, o *outbox.Outbox, pair *envelope.Key) {
	t.Helper()
	if _, err := journal.Open(ctx, journal.Config{DB: o.DB, End: "service", Now: time.Now, Log: slog.New(slog.DiscardHandler)}); err != nil { // makes the signing key
		t.Fatal(err)
	}
	for i := range merchantCount {
		m := outbox.Merchant{
			KeySet: outbox.KeySet{MerchantKeys: outbox.MerchantKeys{APIKey: countersign.APIKey(fmt.Sprintf("key-%d", i)), Key: pair}}, ID: fmt.Sprintf("m%03d", i),
			Scheme:           client.SchemeService,
			MerchantSettings: client.MerchantSettings{Name: "m", NotifyURL: "https://m.example/n", WithdrawURL: "https://m.example/w", Concurrency: 1, ConfirmWithin: client.Duration(time.Hour)},
		}
		must(o.CreateMerchant(ctx, m, 1))(t)
	}
}

// opens checks that a node opens what is sealed.
func opens(t *testing.T, o *outbox.Outbox, when string) {
	t.Helper()
	for _, i := range []int{0, 1, 199, 200, 201, merchantCount - 1} {
		m, err := o.Merchant(ctx, fmt.Sprintf("m%03d", i))
		if err != nil || m.APIKey.Reveal() != fmt.Sprintf("key-%d", i) {
			t.Errorf("%s: merchant %d: %v", when, i, err)
		}
	}
	if _, err := journal.Open(ctx, journal.Config{DB: o.DB, End: "service", Now: time.Now, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

// TestRekey: everything is sealed anew, or nothing is, and one key alone opens the database.
func TestRekey(t *testing.T) {
	pair := must(envelope.GenerateKey(1024))(t)
	for name, database := range endtest.Kinds(outbox.End()) {
		t.Run(name, func(t *testing.T) {
			url := database(t)
			keys := []*db.MasterKey{key(1), key(2), key(3)}
			o := openService(t, url, keys[0])
			fillService(t, o, pair)
			only := func(when string, right *db.MasterKey) {
				t.Helper()
				o.Close()
				for _, k := range keys {
					if k == right {
						continue
					}
					var wrong *db.MasterKeyError
					_, err := db.Open(ctx, db.Config{URL: url, Keys: k}, outbox.End())
					if !errors.As(err, &wrong) || !errors.Is(err, db.ErrMasterKey) || *wrong != (db.MasterKeyError{Key: k.Fingerprint(), Database: right.Fingerprint()}) {
						t.Errorf("%s: another key: %v", when, err)
					}
				}
				o = openService(t, url, right)
				opens(t, o, when)
			}
			rekey := func(fresh *db.MasterKey, fails error) error {
				n, err := o.Rekey(ctx, fresh, func(context.Context, *db.Tx) error { return fails })
				if err == nil && n != merchantCount+1 {
					t.Errorf("%d values", n)
				}
				return err
			}
			died := errors.New("the process died here")
			if err := rekey(keys[1], died); !errors.Is(err, died) {
				t.Fatal(err)
			}
			only("it was broken off", keys[0])
			for _, k := range []*db.MasterKey{keys[1], keys[2], keys[0]} {
				ok(t, rekey(k, nil))
				if err := rekey(keys[1], nil); !errors.Is(err, db.ErrMasterKey) {
					t.Errorf("with a key that was replaced: %v", err)
				}
				only("under "+k.Fingerprint(), k)
			}
			ok(t, o.Write(ctx, func(ctx context.Context, x *db.Tx) error {
				_, err := x.Exec(ctx, `UPDATE merchants SET data_key = $1 WHERE id = 'm229'`, []byte("damaged"))
				return err
			}))
			if err := rekey(keys[1], nil); err == nil || !strings.Contains(err.Error(), "merchants m229") {
				t.Errorf("a damaged row: %v", err)
			}
			if m, err := o.Merchant(ctx, "m000"); err != nil || m.APIKey.Reveal() != "key-0" {
				t.Errorf("beside a damaged row: %v", err)
			}
		})
	}
}

// TestRekeyBesideNodes: while a node is listed nothing is sealed anew, and a node that starts, or
// was silent, meanwhile seals nothing under the old key.
func TestRekeyBesideNodes(t *testing.T) {
	url := dbtest.Postgres(t)
	o, node := openService(t, url, key(1)), openService(t, url, key(1))
	at := db.MillisOf(time.Now())
	n := db.Node{ID: "node", Name: "one", Started: at, Seen: at}
	ok(t, node.Beat(ctx, n))
	nothing := func(context.Context, *db.Tx) error { return nil }
	dbtest.Fails(o.Rekey(ctx, key(2), nothing))(t, db.ErrRunning, "node one")
	n.Seen = at - db.Millis(db.NodeSilent.Milliseconds())
	ok(t, node.Beat(ctx, n))
	late := make(chan error, 1)
	_, err := o.Rekey(ctx, key(2), func(ctx context.Context, x *db.Tx) error {
		go func() {
			late <- node.Beat(context.WithoutCancel(ctx), db.Node{ID: "late", Name: "two", Started: at, Seen: at})
		}()
		for waits := 0; waits == 0 && len(late) == 0; {
			const waitsSQL = `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
			if _, err := db.One(ctx, o, waitsSQL, nil, &waits); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("beside a silent node: %v", err)
	}
	if err := <-late; !errors.Is(err, db.ErrMasterKey) {
		t.Errorf("a node that started meanwhile: %v", err)
	}
	if err := node.Beat(ctx, n); !errors.Is(err, db.ErrMasterKey) {
		t.Errorf("a node that was silent: %v", err)
	}
	if err := node.Run(ctx); !errors.Is(err, db.ErrMasterKey) {
		t.Errorf("it runs on: %v", err)
	}
	if list, err := o.Nodes(ctx, at); err != nil || len(list) != 1 || list[0].Name != "one" {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestEverySealedTableIsListed: a table with a data key that End of an end does not list would be lost
// with the old key.
func TestEverySealedTableIsListed(t *testing.T) {
	for _, end := range []db.End{outbox.End(), book.End()} {
		url := dbtest.SQLite(t)
		d := must(db.Open(ctx, db.Config{URL: url, Keys: key(1)}, end))(t)
		d.Close()
		for _, table := range dbtest.Tables(t, url) {
			if slices.Contains(dbtest.Columns(t, url, table), "data_key") && !slices.ContainsFunc(end.Sealed, func(s db.SealedTable) bool { return s.Name == table }) {
				t.Errorf("End of the %s does not list %s", end.Name, table)
			}
		}
	}
}
