package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

// tampered are changes of the log's tables, each with what undoes it.
type tampered struct{ what, do, undo string }

// changes gives a change of every value of every row, and the removal of every row,
// except checkpoints: that one is missing, only whoever holds it notices.
func changes(t *testing.T, d *db.DB) (list []tampered) {
	t.Helper()
	literal := map[string]string{"sqlite": "x'%x'", "postgres": `'\x%x'`}[d.Dialect().Name]
	blob := func(b []byte) string { return fmt.Sprintf(literal, b) }
	flipped := func(b []byte, at int) string {
		b = bytes.Clone(b)
		if len(b) == 0 {
			return blob([]byte{1})
		}
		b[at%len(b)] ^= 1
		return blob(b)
	}
	set := func(table, where, column, from, to string) {
		list = append(list, tampered{table + " where " + where + ": " + column, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", table, column, to, where),
			fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", table, column, from, where)})
	}
	err := db.Each(ctx, d, `SELECT seq, body, hashes, leaves FROM audit_records`, nil, func(r db.Rows) error {
		var seq int64
		var body, hashes, leaves []byte
		err := r.Scan(&seq, &body, &hashes, &leaves)
		where := fmt.Sprintf("seq = %d", seq)
		for i := 0; i < len(body); i += 37 {
			set("audit_records", where, "body", blob(body), flipped(body, i))
		}
		set("audit_records", where, "body", blob(body), blob(nil))
		set("audit_records", where, "hashes", blob(hashes), flipped(hashes, 7))
		set("audit_records", where, "hashes", blob(hashes), blob(hashes[:32*((len(hashes)-1)/32)]))
		set("audit_records", where, "leaves", blob(leaves), flipped(leaves, 40))
		if len(leaves) > 0 {
			set("audit_records", where, "leaves", blob(leaves), blob(nil))
		}
		list = append(list, tampered{"number of record " + where, fmt.Sprintf("UPDATE audit_records SET seq = %d WHERE %s", seq+1000, where),
			fmt.Sprintf("UPDATE audit_records SET seq = %d WHERE seq = %d", seq, seq+1000)})
		list = append(list, tampered{"removed record " + where, "DELETE FROM audit_records WHERE " + where,
			fmt.Sprintf("INSERT INTO audit_records (seq, body, hashes, leaves) VALUES (%d, %s, %s, %s)", seq, blob(body), blob(hashes), blob(leaves))})
		return err
	})
	if err == nil {
		err = db.Each(ctx, d, `SELECT s.subject, s.seq FROM audit_subjects s JOIN audit_records r ON r.seq = s.seq`, nil, func(r db.Rows) error {
			var subject string
			var seq int64
			err := r.Scan(&subject, &seq)
			where := fmt.Sprintf("subject = '%s' AND seq = %d", subject, seq)
			list = append(list, tampered{"removed subject " + where, "DELETE FROM audit_subjects WHERE " + where,
				fmt.Sprintf("INSERT INTO audit_subjects (subject, seq) VALUES ('%s', %d)", subject, seq)})
			return err
		})
	}
	if err == nil {
		err = db.Each(ctx, d, `SELECT size, edge FROM audit_head`, nil, func(r db.Rows) error {
			var size int64
			var edge []byte
			err := r.Scan(&size, &edge)
			set("audit_head", "id = 1", "size", fmt.Sprint(size), fmt.Sprint(size-1))
			set("audit_head", "id = 1", "size", fmt.Sprint(size), fmt.Sprint(size+1))
			set("audit_head", "id = 1", "size", fmt.Sprint(size), "0")
			set("audit_head", "id = 1", "edge", blob(edge), flipped(edge, 3))
			list = append(list, tampered{"removed head", "DELETE FROM audit_head", fmt.Sprintf("INSERT INTO audit_head (id, size, edge) VALUES (1, %d, %s)", size, blob(edge))})
			return err
		})
	}
	if err == nil {
		err = db.Each(ctx, d, `SELECT size, at, note FROM audit_checkpoints`, nil, func(r db.Rows) error {
			var size, at int64
			var note string
			err := r.Scan(&size, &at, &note)
			where := fmt.Sprintf("note LIKE '%%'||chr(10)||'%d'||chr(10)||'%%'", size)
			if !d.Dialect().Shared {
				where = fmt.Sprintf("note LIKE '%%'||char(10)||'%d'||char(10)||'%%'", size)
			}
			set("audit_checkpoints", where, "size", fmt.Sprint(size), fmt.Sprint(size-1))
			set("audit_checkpoints", where, "at", fmt.Sprint(at), fmt.Sprint(at+1))
			for i := 0; i < len(note); i += 5 {
				b := []byte(note)
				b[i] ^= 1
				if b[i] >= 0x80 || b[i] == '\'' || b[i] < ' ' {
					continue
				}
				set("audit_checkpoints", fmt.Sprint("size = ", size), "note", "'"+note+"'", "'"+string(b)+"'")
			}
			return err
		})
	}
	if err == nil {
		err = db.Each(ctx, d, `SELECT last, year, at, edge, mac FROM audit_closed`, nil, func(r db.Rows) error {
			var last, year, at int64
			var edge, mac []byte
			err := r.Scan(&last, &year, &at, &edge, &mac)
			where := fmt.Sprintf("at = %d", at)
			set("audit_closed", where, "last", fmt.Sprint(last), fmt.Sprint(last-1))
			set("audit_closed", where, "year", fmt.Sprint(year), fmt.Sprint(year+1))
			set("audit_closed", where, "dropped", "0", fmt.Sprint(at))
			set("audit_closed", where, "edge", blob(edge), flipped(edge, 9))
			set("audit_closed", where, "mac", blob(mac), flipped(mac, 9))
			set("audit_closed", fmt.Sprint("last = ", last), "at", fmt.Sprint(at), fmt.Sprint(at+1))
			list = append(list, tampered{"removed closed log", "DELETE FROM audit_closed",
				fmt.Sprintf("INSERT INTO audit_closed (last, year, at, edge, dropped, mac) VALUES (%d, %d, %d, %s, 0, %s)", last, year, at, blob(edge), blob(mac))})
			return err
		})
	}
	if err == nil {
		err = db.Each(ctx, d, `SELECT data_key, private FROM audit_key`, nil, func(r db.Rows) error {
			var dataKey, private []byte
			err := r.Scan(&dataKey, &private)
			set("audit_key", "id = 1", "data_key", blob(dataKey), flipped(dataKey, 20))
			set("audit_key", "id = 1", "private", blob(private), flipped(private, 20))
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestEveryRow: no value of any row of the log's tables can be another, and no row can
// be missing, without the log noticing when it reads itself again.
func TestEveryRow(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		for i := range 3 {
			add(t, d, 3*i, 3)
			must(l.Checkpoint(ctx, 0))(t)
			if err := l.CloseYear(ctx); err != nil { // once
				t.Fatal(err)
			}
		}
		exec := func(text string) {
			t.Helper()
			err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
				n, err := t.Exec(ctx, text)
				if err == nil && n != 1 {
					err = fmt.Errorf("%d rows", n)
				}
				return err
			})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		whole := func() error {
			_, err := journal.Open(ctx, journal.Config{DB: d, End: "service", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			return errors.Join(err, l.Walk(ctx, 4), l.Walk(ctx, 1000))
		}
		if err := whole(); err != nil {
			t.Fatal(err)
		}
		list := changes(t, d)
		if len(list) < 100 {
			t.Fatalf("%d changes", len(list))
		}
		for _, c := range list {
			exec(c.do)
			if err := whole(); err == nil {
				t.Errorf("%s was changed and nothing was noticed: %s", c.what, c.do)
			}
			exec(c.undo)
		}
		if err := whole(); err != nil {
			t.Fatalf("after all was undone: %v", err)
		}
	})
}

// TestSignsNothingChanged: a record that is changed between its transaction and the next
// checkpoint is not signed, and neither is a head that was set back.
func TestSignsNothingChanged(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		add(t, d, 0, 5)
		must(l.Checkpoint(ctx, 0))(t)
		add(t, d, 5, 3)
		exec := func(text string) {
			t.Helper()
			if err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error { _, err := t.Exec(ctx, text); return err }); err != nil {
				t.Fatal(err)
			}
		}
		exec(`UPDATE audit_records SET body = (SELECT body FROM audit_records WHERE seq = 7) WHERE seq = 8`)
		if _, err := l.Checkpoint(ctx, 0); !errors.Is(err, journal.ErrBroken) {
			t.Errorf("a changed record: %v", err)
		}
		l.Sign(ctx)
		if list := must(ready.Alarms(ctx, d))(t); len(list) != 1 || list[0].Kind != client.AlarmAuditBroken {
			t.Errorf("alarms %+v", list)
		}
		exec(`DELETE FROM audit_records WHERE seq > 4`)
		exec(`DELETE FROM audit_subjects WHERE seq > 4`)
		exec(`UPDATE audit_head SET size = 4, edge = (SELECT substr(hashes, 65, 32) FROM audit_records WHERE seq = 4)`)
		if _, err := l.Checkpoint(ctx, 0); !errors.Is(err, journal.ErrBroken) {
			t.Errorf("a log that was set back: %v", err)
		}
		add(t, d, 9, 1)
		if _, err := l.Checkpoint(ctx, 0); !errors.Is(err, journal.ErrBroken) {
			t.Errorf("a log that was forked: %v", err)
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
					size := must(journal.Size(p))(t)
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
		if err := l.Walk(ctx, 50); err != nil {
			t.Error(err)
		}
	})
}

// TestIsNotSetBack: whoever can write the database drops the newest checkpoints and the
// records that they cover, and has others added in their place. The log holds together, and
// is not signed: not by the process that signed the other one, nor by one that is started
// with the head that was noted outside the database.
func TestIsNotSetBack(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		add(t, d, 0, 5)
		must(l.Checkpoint(ctx, 0))(t)
		var edge []byte
		if _, err := db.One(ctx, d, `SELECT edge FROM audit_head`, nil, &edge); err != nil {
			t.Fatal(err)
		}
		add(t, d, 5, 3)
		must(l.Checkpoint(ctx, 0))(t)
		if seen := l.Seen(); seen.Size != 8 {
			t.Fatalf("the head that was signed last: %+v", seen)
		}
		exec := func(text string, args ...any) {
			t.Helper()
			if err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error { _, err := t.Exec(ctx, text, args...); return err }); err != nil {
				t.Fatal(err)
			}
		}
		exec(`DELETE FROM audit_records WHERE seq > 5`)
		exec(`DELETE FROM audit_subjects WHERE seq > 5`)
		exec(`DELETE FROM audit_checkpoints WHERE size > 5`)
		exec(`UPDATE audit_head SET size = 5, edge = $1`, edge)
		add(t, d, 50, 4)
		again := must(journal.Open(ctx, journal.Config{DB: d, End: "service", Now: time.Now, Log: slog.New(slog.DiscardHandler)}))(t)
		again.Expect(l.Seen())
		for _, l := range []*journal.Log{l, again} {
			if _, err := l.Checkpoint(ctx, 0); !errors.Is(err, journal.ErrBroken) {
				t.Errorf("a log that was written again: %v", err)
			}
		}
		l.Sign(ctx)
		if list := must(ready.Alarms(ctx, d))(t); len(list) != 1 || list[0].Kind != client.AlarmAuditBroken {
			t.Errorf("alarms %+v", list)
		}
		var signed int64
		if _, err := db.One(ctx, d, `SELECT MAX(size) FROM audit_checkpoints`, nil, &signed); err != nil || signed != 5 {
			t.Errorf("%d records are signed, %v", signed, err)
		}
	})
}

// TestRestoreNamesItsHead: a restore lets the log go back to the head that was signed before
// it, and no further.
func TestRestoreNamesItsHead(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		add(t, d, 0, 5)
		must(l.Checkpoint(ctx, 0))(t)
		began := must(journal.BeginEpoch(ctx, d, journal.Restore{Kind: journal.ServiceRestored, Alarm: client.AlarmRestored, Feeds: outbox.Feeds, At: db.MillisOf(at)}))(t)
		e := must(db.LastEpoch(ctx, d))(t)
		if e.Number != began.Number || e.Head.Size != 5 {
			t.Fatalf("%+v after %+v", e, began)
		}
		must(l.Checkpoint(ctx, 0))(t)
		again := must(journal.Open(ctx, journal.Config{DB: d, End: "service", Now: time.Now, Log: slog.New(slog.DiscardHandler)}))(t)
		again.Expect(e.Head)
		must(again.Checkpoint(ctx, 0))(t)
		err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			for _, text := range []string{`DELETE FROM audit_records`, `DELETE FROM audit_subjects`, `DELETE FROM audit_checkpoints`,
				`UPDATE audit_head SET size = 0, edge = CAST('' AS ` + map[bool]string{true: "BYTEA", false: "BLOB"}[d.Dialect().Shared] + `)`} {
				if _, err := t.Exec(ctx, text); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		add(t, d, 50, 9)
		again = must(journal.Open(ctx, journal.Config{DB: d, End: "service", Now: time.Now, Log: slog.New(slog.DiscardHandler)}))(t)
		again.Expect(must(db.LastEpoch(ctx, d))(t).Head)
		if _, err := again.Checkpoint(ctx, 0); !errors.Is(err, journal.ErrBroken) {
			t.Errorf("a log that went back behind the restore: %v", err)
		}
	})
}
