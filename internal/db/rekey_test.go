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
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

func key(n byte) *db.MasterKey { return db.NewMasterKey([32]byte{n}) }

var dialects = []struct {
	name string
	url  func(testing.TB) string
}{{"sqlite", ready.SQLite(outbox.End())}, {"postgres", ready.Postgres(outbox.End())}}

func openService(t *testing.T, url string, k *db.MasterKey) *outbox.Outbox {
	t.Helper()
	d, err := db.Open(ctx, db.Config{URL: url, Keys: k}, outbox.End())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return outbox.New(d)
}

const merchantCount = 230 // more than one transaction of db.RewrapKeys

func fillService(t *testing.T, o *outbox.Outbox, pair *envelope.Key) {
	t.Helper()
	if _, err := journal.Open(ctx, journal.Config{DB: o.DB, End: "service", Now: time.Now, Log: slog.New(slog.DiscardHandler)}); err != nil { // makes the signing key
		t.Fatal(err)
	}
	for i := range merchantCount {
		m := outbox.Merchant{
			ID:               fmt.Sprintf("m%03d", i),
			Scheme:           outbox.SchemeService,
			APIKey:           countersign.APIKey(fmt.Sprintf("key-%d", i)),
			Key:              pair,
			MerchantSettings: client.MerchantSettings{Name: "m", NotifyURL: "https://m.example/n", WithdrawURL: "https://m.example/w", Concurrency: 1, ConfirmWithin: client.Duration(time.Hour)},
		}
		if _, err := o.CreateMerchant(ctx, m, 1); err != nil {
			t.Fatal(err)
		}
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

var errDied = errors.New("the process died here")

// TestRekey: whatever is broken off, both keys open the database until the old one is ended,
// on a node that was there before too.
func TestRekey(t *testing.T) {
	pair, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			a, b := key(1), key(2)
			o := openService(t, url, a)
			fillService(t, o, pair)
			other := o // a node that is told nothing
			if o.Dialect().Shared {
				other = openService(t, url, a)
			}
			both := func(when string, keys ...*db.MasterKey) {
				t.Helper()
				opens(t, other, when)
				for _, k := range keys {
					if !o.Dialect().Shared {
						o.Close()
					}
					o = openService(t, url, k)
					opens(t, o, when)
					if !o.Dialect().Shared {
						other = o
					}
				}
			}
			next := db.NextMasterKey(a, b)
			died := func(context.Context, *db.Tx) error { return errDied }
			if err := db.ReplaceMasterKey(ctx, o.DB, next, 5, died); !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			both("nothing has begun", a)
			if _, err := db.Open(ctx, db.Config{URL: url, Keys: b}, outbox.End()); d.name == "postgres" && !errors.Is(err, db.ErrMasterKey) {
				t.Errorf("the new key opens it already: %v", err)
			}
			if err := db.ReplaceMasterKey(ctx, o.DB, next, 5, nil); err != nil {
				t.Fatal(err)
			}
			if err := db.ReplaceMasterKey(ctx, o.DB, next, 6, nil); err != nil {
				t.Errorf("the same again: %v", err)
			}
			if err := db.ReplaceMasterKey(ctx, o.DB, db.NextMasterKey(b, key(3)), 6, nil); !errors.Is(err, db.ErrRekeying) {
				t.Errorf("another meanwhile: %v", err)
			}
			both("replaced", b, a, b)
			half(t, o)
			both("half of it", a, b)
			s, err := db.LookAtMasterKeys(ctx, o, o.Sealed(), a, true)
			if err != nil || s.Rewrapped() || s.Values[0] == 0 || s.Values[1] == 0 || s.Lost != 0 {
				t.Errorf("half of it: %+v, %v", s, err)
			}
			if _, err := db.RewrapKeys(ctx, o.DB, 7); err != nil {
				t.Fatal(err)
			}
			both("all of it", a, b)
			s, err = db.LookAtMasterKeys(ctx, o, o.Sealed(), b, true)
			if err != nil || !s.Rewrapped() || !s.Rekeying() || s.Values[0] != 0 || s.Values[1] != merchantCount+2 {
				t.Errorf("all of it: %+v, %v", s, err)
			}
			if err := db.EndMasterKeys(ctx, o.DB, 8, died); !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			both("nothing has ended", a, b)
			if err := db.EndMasterKeys(ctx, o.DB, 8, nil); err != nil {
				t.Fatal(err)
			}
			both("ended", b)
			if !o.Dialect().Shared {
				o.Close()
			}
			if _, err := db.Open(ctx, db.Config{URL: url, Keys: a}, outbox.End()); !errors.Is(err, db.ErrMasterKey) || !strings.Contains(err.Error(), "was replaced by "+b.Fingerprint()) {
				t.Errorf("the old key: %v", err)
			}
			if _, err := db.Open(ctx, db.Config{URL: url, Keys: key(9)}, outbox.End()); !errors.Is(err, db.ErrMasterKey) {
				t.Errorf("a foreign key: %v", err)
			}
			// And once more.
			o = openService(t, url, b)
			c := key(3)
			if err := db.ReplaceMasterKey(ctx, o.DB, db.NextMasterKey(b, a), 9, nil); err == nil || !strings.Contains(err.Error(), "was in use before") {
				t.Errorf("back to the first: %v", err)
			}
			if err := db.ReplaceMasterKey(ctx, o.DB, db.NextMasterKey(b, c), 9, nil); err != nil {
				t.Fatal(err)
			}
			if err := db.EndMasterKeys(ctx, o.DB, 10, nil); err != nil {
				t.Fatal(err)
			}
			opens(t, o, "the third key")
		})
	}
}

// half seals some values under the present key, as a db.RewrapKeys that died.
func half(t *testing.T, o *outbox.Outbox) {
	t.Helper()
	if err := o.ReloadKeys(ctx); err != nil {
		t.Fatal(err)
	}
	err := o.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		return db.RewrapSome(ctx, x, o.Sealed(), func(wrapped []byte, change func([]byte) db.Statement) error {
			plain, err := o.UnwrapKey(ctx, wrapped)
			if err != nil {
				return err
			}
			s := change(o.MasterKey().Wrap(plain))
			_, err = x.Exec(ctx, s.SQL, s.Args...)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedNext: what does not open takes the place of no key.
func TestDamagedNext(t *testing.T) {
	o := openService(t, dbtest.SQLite(t), key(1))
	for name, spoil := range map[string]func(*db.Next){
		"next":        func(n *db.Next) { n.Next[20] ^= 1 },
		"self":        func(n *db.Next) { n.Self[20] ^= 1 },
		"fingerprint": func(n *db.Next) { n.New = key(5).Fingerprint() },
		"old":         func(n *db.Next) { n.Old = key(5).Fingerprint() },
		"empty":       func(n *db.Next) { n.Next = nil },
	} {
		n := db.NextMasterKey(key(1), key(2))
		spoil(&n)
		if err := db.ReplaceMasterKey(ctx, o.DB, n, 1, nil); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if rows := o.MasterKeys(); len(rows) != 1 || rows[0].Replaced != 0 {
		t.Errorf("%+v", rows)
	}
}

// TestMeanwhile: what a node seals while it knows of the old key alone is opened by all, also
// when that key was ended.
func TestMeanwhile(t *testing.T) {
	url := dbtest.Postgres(t)
	a, b := key(1), key(2)
	o, late := openService(t, url, a), openService(t, url, a)
	if err := db.ReplaceMasterKey(ctx, o.DB, db.NextMasterKey(a, b), 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.EndMasterKeys(ctx, o.DB, 2, nil); err != nil {
		t.Fatal(err)
	}
	pair, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	fillService(t, late, pair)
	opens(t, o, "sealed late")
	opens(t, openService(t, url, b), "sealed late")
	if s, err := db.LookAtMasterKeys(ctx, o, o.Sealed(), b, true); err != nil || s.Values[0] == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := db.EndMasterKeys(ctx, o.DB, 3, nil); err != nil {
		t.Fatal(err)
	}
	if s, err := db.LookAtMasterKeys(ctx, o, o.Sealed(), b, true); err != nil || s.Values[0] != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestEverySealedTableIsListed: a table with a data key that End of an end does not list would be lost
// with the old key.
func TestEverySealedTableIsListed(t *testing.T) {
	for _, end := range []db.End{outbox.End(), book.End()} {
		url := dbtest.SQLite(t)
		d, err := db.Open(ctx, db.Config{URL: url, Keys: key(1)}, end)
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
		for _, table := range dbtest.Tables(t, url) {
			if slices.Contains(dbtest.Columns(t, url, table), "data_key") && !slices.ContainsFunc(end.Sealed, func(s db.SealedTable) bool { return s.Name == table }) {
				t.Errorf("End of the %s does not list %s", end.Name, table)
			}
		}
	}
}
