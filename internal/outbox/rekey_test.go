package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

func key(n byte) *db.MasterKey { return db.NewMasterKey([32]byte{n}) }

const merchantCount = 230 // more than Rekey reads at a time

// opens checks that a node opens what is sealed. The first time it makes the journal's key.
func opens(t *testing.T, o *Outbox, when string) {
	t.Helper()
	for _, i := range []int{0, 1, 199, 200, 201, merchantCount - 1} {
		m, err := o.Merchant(ctx, fmt.Sprint("m", i))
		if want := countersign.APIKey(fmt.Sprint("api-key-of-m", i)); err != nil || m.APIKey != want {
			t.Errorf("%s: merchant %d: %v", when, i, err)
		}
	}
	if _, err := journal.Open(ctx, journal.Config{DB: o.DB, End: "service", Now: time.Now, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

// TestRekey: everything is sealed anew, or nothing is, and one key alone opens the database.
func TestRekey(t *testing.T) {
	endtest.Sealed(t, End())
	endtest.Each(t, End(), func(t *testing.T, url string) {
		keys := []*db.MasterKey{key(1), key(2), key(3)}
		o := openWith(t, url, keys[0])
		addMerchants(t, o, merchantCount, nil)
		opens(t, o, "at first")
		only := func(when string, right *db.MasterKey) {
			t.Helper()
			o.Close()
			for _, k := range keys {
				if k == right {
					continue
				}
				var wrong *db.MasterKeyError
				_, err := db.Open(ctx, db.Config{URL: url, Keys: k}, End())
				if !errors.As(err, &wrong) || !errors.Is(err, db.ErrMasterKey) || *wrong != (db.MasterKeyError{Key: k.Fingerprint(), Database: right.Fingerprint()}) {
					t.Errorf("%s: another key: %v", when, err)
				}
			}
			o = openWith(t, url, right)
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
		exec(t, o, `UPDATE merchants SET data_key = $1 WHERE id = 'm229'`, []byte("damaged"))
		if err := rekey(keys[1], nil); err == nil || !strings.Contains(err.Error(), "merchants m229") {
			t.Errorf("a damaged row: %v", err)
		}
		if m, err := o.Merchant(ctx, "m0"); err != nil || m.APIKey != "api-key-of-m0" {
			t.Errorf("beside a damaged row: %v", err)
		}
	})
}

// TestRekeyBesideNodes: while a node is listed nothing is sealed anew, and a node that starts, or
// was silent, meanwhile seals nothing under the old key.
func TestRekeyBesideNodes(t *testing.T) {
	url := dbtest.Postgres(t)
	o, node := openWith(t, url, key(1)), openWith(t, url, key(1))
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
