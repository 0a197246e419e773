package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest/ready"
)

// openIn opens the log again, in another year.
func openIn(t testing.TB, d *db.DB, year int) *journal.Log {
	t.Helper()
	now := func() time.Time { return time.Date(year, 1, 1, 0, 0, 30, 0, time.UTC) }
	return must(journal.Open(ctx, journal.Config{DB: d, End: "service", Now: now, Log: slog.New(slog.DiscardHandler)}))(t)
}

// acknowledged exports records from to to, and says that the file is kept.
func acknowledged(t testing.TB, l *journal.Log, from, to int64) []byte {
	t.Helper()
	file := export(t, l, from, to)
	v := must(verify(file, l.Key(), nil))(t)
	must(l.Exported(ctx, client.AuditExport{First: v.First, Last: v.Last, Checkpoint: v.Signed, Digest: v.Digest}, 1))(t)
	return file
}

func also(context.Context, *db.Tx) error { return nil }

// removeAll removes what was dropped.
func removeAll(t testing.TB, l *journal.Log) {
	t.Helper()
	for more := true; more; {
		more = must(l.RemoveSome(ctx))(t)
	}
}

// TestYears: the log of a year is closed and the next one continues it, for exports, proofs, the
// walk and the heads that others hold. A closed one that was exported is dropped whole, and no
// other.
func TestYears(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		if err := l.CloseYear(ctx); err != nil {
			t.Fatalf("an empty log: %v", err)
		}
		add(t, d, 0, 7)
		held := []byte(must(l.Checkpoint(ctx, 0))(t).Checkpoint)
		add(t, d, 7, 4)
		stale := openIn(t, d, 2027) // a node that last signed the head of 7 records
		stale.Expect(l.Seen())
		for range 2 {
			if err := l.CloseYear(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := openIn(t, d, 2025).CloseYear(ctx); err != nil { // the year has not ended
			t.Fatal(err)
		}
		add(t, d, 20, 5)
		list := must(l.Logs(ctx))(t).Logs
		if len(list) != 2 || list[0].Year != 1970 || list[0].First != 1 || list[0].Last != 11 || list[0].Closed == 0 || list[1].First != 12 || list[1].Last != 17 || list[1].Year != 2025 {
			t.Errorf("logs %+v", list)
		}
		first := must(journal.Read(must(l.Page(ctx, 11, 1))(t).Entries[0].Record))(t)
		if first.Kind != "audit.begun" || !strings.Contains(string(first.Data), `"year":1970,"last":11,"checkpoint":"countersign-service-`) {
			t.Errorf("the first record of the new log is %+v %s", first, first.Data)
		}
		must(verify(export(t, l, 1, 17), l.Key(), held))(t)
		must(verify(file(t, must(l.Checkpoint(ctx, 7))(t)), l.Key(), held))(t)
		must(verify(file(t, must(l.Evidence(ctx, journal.Subject{IDs: []string{"shop.3", "shop.22", "logs"}}, 0))(t)), l.Key(), nil))(t)
		walks := func(l *journal.Log) {
			t.Helper()
			for _, step := range []int64{1, 4, 1000} {
				if err := l.Walk(ctx, step); err != nil {
					t.Errorf("the walk: %v", err)
				}
			}
		}
		walks(l)
		if err := l.Drop(ctx, 11, 1, also); !errors.Is(err, journal.ErrNotExported) {
			t.Errorf("dropped what was not exported: %v", err)
		}
		acknowledged(t, l, 1, 10)
		if err := l.Drop(ctx, 11, 1, also); !errors.Is(err, journal.ErrNotExported) {
			t.Errorf("dropped what was not all exported: %v", err)
		}
		old := acknowledged(t, l, 1, 12)
		for _, last := range []int64{10, 12, 17, 99} {
			if err := l.Drop(ctx, last, 1, also); !errors.Is(err, db.ErrNotFound) {
				t.Errorf("dropped records up to %d: %v", last, err)
			}
		}
		for range 2 {
			if err := l.Drop(ctx, 11, 5, also); err != nil {
				t.Fatal(err)
			}
		}
		// Whoever dies from here on leaves this to the next one.
		check := func(l *journal.Log) {
			t.Helper()
			walks(l)
			size := must(journal.Size(must(l.Checkpoint(ctx, 0))(t)))(t)
			must(verify(export(t, l, 12, size), l.Key(), nil))(t)
			must(verify(file(t, must(l.Checkpoint(ctx, must(journal.HeldSize(bytes.NewReader(old)))(t)))(t)), l.Key(), old))(t)
			must(verify(file(t, must(l.Evidence(ctx, journal.Subject{IDs: []string{"shop.22"}, Context: []string{"shop"}}, 0))(t)), l.Key(), nil))(t)
			if _, err := l.Evidence(ctx, journal.Subject{IDs: []string{"shop.3"}, Items: []journal.Item{{At: 1002, Item: item{"shop.2", 3}}}}, 0); !errors.Is(err, db.ErrNotFound) {
				t.Errorf("evidence of what was dropped: %v", err)
			}
			if _, err := l.Checkpoint(ctx, 7); !errors.Is(err, journal.ErrDropped) {
				t.Errorf("a proof from a checkpoint that was dropped: %v", err)
			}
			if p, err := l.Page(ctx, 5, 10); !errors.Is(err, journal.ErrDropped) || p.First != 12 {
				t.Errorf("a page of what was dropped: %+v, %v", p, err)
			}
		}
		check(l)
		add(t, d, 30, 1)
		check(openIn(t, d, 2025))
		removeAll(t, l)
		check(l)
		add(t, d, 31, 1)
		check(openIn(t, d, 2025))
		check(stale)
		for _, table := range []string{"records WHERE seq <= 11", "subjects WHERE seq <= 11", "checkpoints WHERE size < 11"} {
			var n int
			if _, err := db.One(ctx, d, `SELECT COUNT(*) FROM audit_`+table, nil, &n); err != nil || n != 0 {
				t.Errorf("%d rows are left of %s, %v", n, table, err)
			}
		}

		// And the year after that.
		size := must(journal.Size(must(l.Checkpoint(ctx, 0))(t)))(t)
		l = openIn(t, d, 2026)
		if err := l.CloseYear(ctx); err != nil {
			t.Fatal(err)
		}
		acknowledged(t, l, 13, size)
		if err := l.Drop(ctx, size, 5, also); err != nil {
			t.Fatal(err)
		}
		removeAll(t, l)
		add(t, d, 40, 9)
		walks(openIn(t, d, 2026))
		must(verify(export(t, l, size+1, size+11), l.Key(), nil))(t)
		if list := must(l.Logs(ctx))(t).Logs; len(list) != 3 || list[1].Dropped == 0 || list[2].First != size+1 {
			t.Errorf("logs %+v", list)
		}
		if list := must(ready.Alarms(ctx, d))(t); len(list) != 0 {
			t.Errorf("alarms %+v", list)
		}
	})
}

// TestOneNodeCloses: of several nodes that append, sign and close at once one closes the year, and
// the record that says so is right behind the head that it names.
func TestOneNodeCloses(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		add(t, d, 0, 20)
		var work sync.WaitGroup
		for n := range 3 {
			node, log := d, l
			if d.Dialect().Shared {
				node, log = open(t, url)
			}
			work.Go(func() { add(t, node, 100*n, 30) })
			work.Go(func() {
				for range 3 {
					if err := log.CloseYear(ctx); err != nil {
						t.Error(err)
					}
					log.Sign(ctx)
				}
			})
		}
		work.Wait()
		list := must(l.Logs(ctx))(t).Logs
		size := must(journal.Size(must(l.Checkpoint(ctx, 0))(t)))(t)
		if len(list) != 2 || size != 20+3*30+1 {
			t.Errorf("%d records, logs %+v", size, list)
		}
		must(verify(export(t, l, 1, size), l.Key(), nil))(t)
		if err := l.Walk(ctx, 7); err != nil {
			t.Error(err)
		}
		if list := must(ready.Alarms(ctx, d))(t); len(list) != 0 {
			t.Errorf("alarms %+v", list)
		}
	})
}

// TestForgedYears: whoever writes the database, and has not the master key, gets no log closed,
// exported or dropped, and no old one in the place of the present one.
func TestForgedYears(t *testing.T) {
	tables := []string{"records", "subjects", "head", "checkpoints", "closed", "exported"}
	put := func(from, to string) (list []string) {
		for _, name := range tables {
			list = append(list, "DELETE FROM "+fmt.Sprintf(to, name), "INSERT INTO "+fmt.Sprintf(to, name)+" SELECT * FROM "+fmt.Sprintf(from, name))
		}
		return list
	}
	for name, attack := range map[string]struct {
		do    []string
		signs bool // nothing that is signed depends on it
	}{
		"dropped":         {[]string{`UPDATE audit_closed SET dropped = 5`, `DELETE FROM audit_records WHERE seq <= 11`}, true},
		"closed row gone": {[]string{`DELETE FROM audit_closed`}, true},
		"other year":      {[]string{`UPDATE audit_closed SET year = 1969`}, true},
		"old log":         {put("kept_%s", "audit_%s"), false},
	} {
		eachDialect(t, func(t *testing.T, url string) {
			d, l := open(t, url)
			exec := func(list ...string) {
				t.Helper()
				err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
					for _, text := range list {
						if _, err := t.Exec(ctx, text); err != nil {
							return fmt.Errorf("%s: %w", text, err)
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			add(t, d, 0, 11)
			must(l.Checkpoint(ctx, 0))(t)
			for _, table := range tables {
				exec("CREATE TABLE kept_" + table + " AS SELECT * FROM audit_" + table)
			}
			if err := l.CloseYear(ctx); err != nil {
				t.Fatal(err)
			}
			add(t, d, 20, 3)
			must(l.Checkpoint(ctx, 0))(t)
			exec(attack.do...)
			again := openIn(t, d, 2025)
			again.Expect(l.Seen())
			for _, l := range []*journal.Log{l, again} {
				if _, err := l.Checkpoint(ctx, 0); attack.signs != (err == nil) {
					t.Errorf("%s: signed: %v", name, err)
				}
				if err := l.Walk(ctx, 1000); attack.signs && !errors.Is(err, journal.ErrBroken) {
					t.Errorf("%s: the walk: %v", name, err)
				}
			}
		})
	}

	d, l := open(t, dialects[0].url(t))
	add(t, d, 0, 5)
	if err := l.CloseYear(ctx); err != nil {
		t.Fatal(err)
	}
	acknowledged(t, l, 1, 2)
	err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := t.Exec(ctx, `UPDATE audit_exported SET last = 1000`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Drop(ctx, 5, 1, also); !errors.Is(err, journal.ErrNotExported) {
		t.Errorf("an export that was written by hand: %v", err)
	}
	// A record of a log that was not closed there is not signed, whoever added it.
	p := must(l.Checkpoint(ctx, 0))(t)
	err = d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		return journal.Add(ctx, t, journal.Record{Kind: "audit.begun", At: 1, Data: map[string]any{"year": 1970, "last": 6, "checkpoint": p.Checkpoint}})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(ctx, 0); !errors.Is(err, journal.ErrBroken) {
		t.Errorf("a log that was begun by hand: %v", err)
	}
}
