package journal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

// exec changes the tables of the log past the program.
func exec(t *testing.T, d *db.DB, texts ...string) {
	t.Helper()
	ok(t, d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		for _, text := range texts {
			if _, err := t.Exec(ctx, text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	}))
}

// cutTo cuts the log off after a record whose number is a power of two: the head gets its number and its edge.
func cutTo(t *testing.T, d *db.DB, size int) {
	t.Helper()
	exec(t, d, fmt.Sprint("DELETE FROM audit_records WHERE seq > ", size), fmt.Sprint("DELETE FROM audit_subjects WHERE seq > ", size),
		fmt.Sprintf("UPDATE audit_head SET size = %d, edge = (SELECT substr(hashes, length(hashes) - 31, 32) FROM audit_records WHERE seq = %[1]d)", size))
}

// TestSince: somebody who writes the database as the program would, with every hash right, sets the log back, cuts it off, or rewrites its end. A daemon that starts on
// it knows nothing and signs it. From each earlier checkpoint that somebody else holds it is found.
func TestSince(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		const n, kept = 21, 8
		held := grow(t, d, l, n)
		for _, after := range []struct {
			what string
			then int // records that are added to what is left
			want error
		}{{"cut off", 0, journal.ErrFrom}, {"set back, and gone on", 5, journal.ErrFrom}, {"rewritten", n, journal.ErrEarlier}} {
			cutTo(t, d, kept)
			if after.then > 0 {
				add(t, d, 100, after.then) // others than there were
			}
			again := openLog(t, d)
			must(again.Checkpoint(ctx, 0))(t) // it is signed
			for size := int64(0); size < n; size++ {
				p, err := again.Checkpoint(ctx, size)
				if err == nil {
					_, err = verify(file(t, p), l.Key(), held[size])
				}
				want := after.want
				if after.want == journal.ErrFrom && size <= int64(kept+after.then) {
					want = journal.ErrEarlier
				}
				if size <= kept {
					want = nil
				}
				if !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("%s: since the checkpoint of %d records: %v, want %v", after.what, size, err, want)
				}
			}
			whole := export(t, again)
			if _, err := verify(whole, l.Key(), held[kept]); err != nil {
				t.Errorf("%s: an export since the last record that stayed: %v", after.what, err)
			}
			dbtest.Fails(verify(whole, l.Key(), held[n-1]))(t, journal.ErrEarlier, "")
			// The process that ran meanwhile knows the checkpoint that it signed.
			dbtest.Fails(l.Checkpoint(ctx, 0))(t, journal.ErrBroken, "")
		}
	})
}

// TestHeld: a database whose log does not continue what a data directory holds is refused, and one that was
// restored, as a person said, is not. A head that was set back raises the alarm, and a record that was changed is not
// given out.
func TestHeld(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		add(t, d, 0, 5)
		held := must(l.Hold(ctx))(t)
		if again := must(l.Hold(ctx))(t); again != held {
			t.Errorf("nothing was added, and %+v is held", again)
		}
		add(t, d, 5, 3)
		newer := must(l.Hold(ctx))(t)
		for _, h := range []journal.Held{{}, held, newer} {
			if err := journal.Continues(ctx, d, h); err != nil {
				t.Errorf("the log continues %+v: %v", h, err)
			}
		}
		other, ol := open(t, dbtest.SQLite(t))
		if err := journal.Continues(ctx, other, newer); !errors.Is(err, db.ErrAnother) {
			t.Errorf("another database: %v", err)
		}
		if err := journal.Continues(ctx, d, must(ol.Hold(ctx))(t)); !errors.Is(err, db.ErrAnother) {
			t.Errorf("a checkpoint of another database: %v", err)
		}
		if err := journal.Continues(ctx, d, journal.Held{Epoch: 9, Checkpoint: newer.Checkpoint}); !errors.Is(err, db.ErrOlder) {
			t.Errorf("a later epoch: %v", err)
		}
		cutTo(t, d, 4)
		for range 2 {
			if err := journal.Continues(ctx, d, held); !errors.Is(err, db.ErrOlder) {
				t.Errorf("a log that was set back: %v", err)
			}
			dbtest.Fails(l.Hold(ctx))(t, db.ErrOlder, "")
			add(t, d, 30, 9) // it goes on with others
		}
		if list := must(endtest.Alarms(ctx, d))(t); len(list) != 1 || list[0].Kind != client.AlarmAuditBroken {
			t.Errorf("alarms %+v", list)
		}
		exec(t, d, `UPDATE audit_records SET body = (SELECT body FROM audit_records WHERE seq = 7) WHERE seq = 8`)
		l = openLog(t, d) // which has signed nothing of before
		dbtest.Fails(l.Page(ctx, 6, 5))(t, journal.ErrBroken, "")
		dbtest.Fails(l.Prove(ctx, 8))(t, journal.ErrBroken, "")
		must(journal.BeginEpoch(ctx, d, journal.Restore{Kind: "test.restored", At: 1, MarkSQL: `UPDATE epochs SET reconciled = reconciled`}))(t)
		if err := journal.Continues(ctx, d, newer); err != nil {
			t.Errorf("after a restore: %v", err)
		}
	})
}

// TestManyNodes: nodes that append and sign at once make one log without gaps, and what
// each signed is the beginning of what every other signed later.
func TestManyNodes(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		const nodes, each = 3, 40
		d, l := open(t, url)
		logs, ds := []*journal.Log{l}, []*db.DB{d}
		for len(logs) < nodes {
			if d.Dialect().Shared {
				d, l = open(t, url)
			}
			logs, ds = append(logs, l), append(ds, d)
		}
		if logs[0].Key() != logs[nodes-1].Key() {
			t.Fatal("the nodes have several keys")
		}
		var mu sync.Mutex
		signed := map[int64][]byte{}
		var work sync.WaitGroup
		for n := range nodes {
			work.Go(func() {
				for i := range each {
					add(t, ds[n], i, 1)
					if i%8 != 7 {
						continue
					}
					p := must(logs[n].Checkpoint(ctx, 0))(t)
					size := must(journal.SizeOf(p.Checkpoint))(t)
					mu.Lock()
					if had := signed[size]; had != nil && string(had) != p.Checkpoint {
						t.Errorf("two checkpoints of %d records", size)
					}
					signed[size] = []byte(p.Checkpoint)
					mu.Unlock()
				}
			})
		}
		work.Wait()
		page := must(l.Page(ctx, 0, 1000))(t)
		if len(page.Entries) != nodes*each {
			t.Errorf("%d records, want %d", len(page.Entries), nodes*each)
		}
		for i, r := range page.Entries {
			if r.Seq != int64(i+1) {
				t.Fatalf("record %d comes where %d was due", r.Seq, i+1)
			}
		}
		if len(signed) < nodes {
			t.Errorf("%d checkpoints", len(signed))
		}
		for size, held := range signed {
			p := must(logs[0].Checkpoint(ctx, size))(t)
			if _, err := verify(file(t, p), l.Key(), held); err != nil {
				t.Errorf("from %d records: %v", size, err)
			}
		}
	})
}
