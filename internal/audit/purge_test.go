package audit_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/dbtest/plan"
)

// purge removes the bodies of records, in a log that says so if upto is not 0.
func purge(t testing.TB, d *db.DB, upto int64, seqs ...int64) {
	t.Helper()
	err := d.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		if upto > 0 {
			if err := audit.Announce(ctx, x, audit.Purging{Upto: upto, Before: 1}, 2000); err != nil {
				return err
			}
		}
		for _, seq := range seqs {
			list, err := audit.Wholes(ctx, x, seq-1, seq, 1)
			if err == nil && len(list) != 1 {
				err = fmt.Errorf("record %d has no body", seq)
			}
			if err == nil {
				err = audit.Purge(ctx, x, list)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPurged: bodies go, and everything that was signed, exported and proved before holds,
// against every later checkpoint too.
func TestPurged(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		const n = 13
		earlier := grow(t, d, l, n)
		before := export(t, l, 1, n)
		subject := audit.Subject{IDs: []string{"shop.4"}, Items: []audit.Item{{At: 1008, Item: item{"shop.8", 3}}}}
		proof := file(t, must(l.Evidence(ctx, subject, 0))(t))
		gone := []int64{1, 2, 3, 5, 9}
		purge(t, d, 9, gone...)
		add(t, d, n, 3)

		for size, held := range earlier {
			if _, err := verify(file(t, must(l.Checkpoint(ctx, int64(size)))(t)), l.Key(), held); err != nil {
				t.Errorf("from the checkpoint of %d records: %v", size, err)
			}
		}
		now := file(t, must(l.Checkpoint(ctx, n))(t))
		if _, err := verify(now, l.Key(), before); err != nil {
			t.Errorf("the log does not continue what was exported before: %v", err)
		}
		if v, err := verify(before, l.Key(), nil); err != nil || v.Purged != 0 {
			t.Errorf("what was exported before: %+v, %v", v, err)
		}
		if v, err := verify(proof, l.Key(), nil); err != nil || len(v.Records) != 2 {
			t.Errorf("what was proved before: %v", err)
		}

		after := export(t, l, 1, n+4)
		v := must(verify(after, l.Key(), before))(t)
		if v.Purged != int64(len(gone)) || v.Unsaid != 0 || v.Last != n+4 {
			t.Errorf("%+v", v)
		}
		if v := must(verify(export(t, l, 1, n), l.Key(), nil))(t); v.Purged != int64(len(gone)) || v.Unsaid != 9 {
			t.Errorf("an export that ends before the record of the purge: %+v", v)
		}
		page := must(l.Page(ctx, 0, 100))(t)
		for i, e := range page.Entries {
			is := e.Purged && len(e.Record) == 0
			if e.Seq != int64(i+1) || is != strings.Contains(fmt.Sprint(gone), fmt.Sprint(e.Seq)) && e.Seq < 10 {
				t.Errorf("record %d: %s", e.Seq, e.Record)
			}
		}

		// A body of the old export is proved by the hash that the log still has.
		p := must(l.Evidence(ctx, subject, 0))(t)
		v = must(verify(file(t, p), l.Key(), nil))(t)
		if len(v.Records) != 2 || !v.Records[0].Purged || v.Purged != 1 {
			t.Fatalf("%+v", v)
		}
		if told := must(audit.Read(v.Records[1].Record))(t); told.Kind != audit.RecordPurging {
			t.Errorf("the proof has %s", told.Kind)
		}
		line := strings.Split(string(before), "\n")[5]
		hashes := must(base64.StdEncoding.DecodeString(strings.Split(line, `"`)[5]))(t)
		if !bytes.HasPrefix(hashes, v.Records[0].Hash) {
			t.Errorf("record 5 has the hash %x in the proof, and %x in %s", v.Records[0].Hash, hashes, line)
		}
		if err := l.Walk(ctx, 4); err != nil {
			t.Error(err)
		}
	})
}

// TestNotPurged: who takes a body out passes it off as purged only if the log has
// the same hash and says that it purged it.
func TestNotPurged(t *testing.T) {
	d, l := open(t, dbtest.SQLite(t))
	add(t, d, 0, 9)
	must(l.Checkpoint(ctx, 0))(t)
	purge(t, d, 4, 2, 3)
	whole := export(t, l, 1, 10)
	must(verify(whole, l.Key(), nil))(t)
	// change gives the export with its line of a record changed.
	change := func(seq int, fn func(*client.AuditEntry)) []byte {
		lines := strings.SplitAfter(string(whole), "\n")
		var e client.AuditEntry
		if err := json.Unmarshal([]byte(lines[seq]), &e); err != nil || e.Seq != int64(seq) {
			t.Fatal(err)
		}
		fn(&e)
		lines[seq] = string(must(audit.Marshal(e))(t)) + "\n"
		return []byte(strings.Join(lines, ""))
	}
	strip := func(e *client.AuditEntry) { e.Record, e.Purged = nil, true }
	for name, of := range map[string]struct {
		file []byte
		want string // of the error; empty: it is taken
	}{
		"one that the log says it purged":      {change(4, strip), ""},
		"one that it does not say so of":       {change(5, strip), "record 5 has no body, and no record of the log says that it was purged"},
		"the record that says so":              {change(10, strip), "record 10 has no body, and no record"},
		"another hash":                         {change(2, func(e *client.AuditEntry) { e.Hashes[3] ^= 1 }), "record 2 was changed"},
		"no hash":                              {change(2, func(e *client.AuditEntry) { e.Hashes = nil }), "record 2 is missing or not in its place"},
		"fewer hashes":                         {change(2, func(e *client.AuditEntry) { e.Hashes = e.Hashes[:32] }), "record 2 was changed"},
		"half a hash":                          {change(2, func(e *client.AuditEntry) { e.Hashes = e.Hashes[:40] }), "record 2 was changed"},
		"the hash of another body":             {change(6, func(e *client.AuditEntry) { strip(e); e.Hashes[0] ^= 1 }), "record 6 was changed"},
		"a body and the mark":                  {change(6, func(e *client.AuditEntry) { e.Purged = true }), "record 6 was changed"},
		"neither body nor mark":                {change(2, func(e *client.AuditEntry) { e.Purged = false }), "record 2 is not written as it was exported"},
		"a body in place of the one that went": {change(3, func(e *client.AuditEntry) { e.Record, e.Purged = []byte(`{}`), false }), "record 3 was changed"},
	} {
		v, err := verify(of.file, l.Key(), nil)
		if of.want == "" && (err != nil || v.Purged != 3) || of.want != "" && (err == nil || !strings.Contains(err.Error(), of.want)) {
			t.Errorf("%s: %v, want %q", name, err, of.want)
		}
	}

	p := must(l.Evidence(ctx, audit.Subject{IDs: []string{"shop.1", "shop.7"}}, 0))(t)
	must(verify(file(t, p), l.Key(), nil))(t)
	if len(p.Records) != 3 || !p.Records[0].Purged || p.Records[1].Purged {
		t.Fatalf("%+v", p.Records)
	}
	hash := p.Records[0].Hash
	for name, fn := range map[string]func(list []client.AuditRecord) []client.AuditRecord{
		"without the record of the purge": func(list []client.AuditRecord) []client.AuditRecord { return list[:2] },
		"another hash":                    func(list []client.AuditRecord) []client.AuditRecord { list[0].Hash = make([]byte, 32); return list },
		"no hash":                         func(list []client.AuditRecord) []client.AuditRecord { list[0].Hash = nil; return list },
		"a long hash": func(list []client.AuditRecord) []client.AuditRecord {
			list[0].Hash = append(hash[:32:32], 1)
			return list
		},
		"no mark":                func(list []client.AuditRecord) []client.AuditRecord { list[0].Purged = false; return list },
		"a body beside the hash": func(list []client.AuditRecord) []client.AuditRecord { list[0].Record = []byte(`{}`); return list },
		"items": func(list []client.AuditRecord) []client.AuditRecord {
			list[0].Items = []client.AuditItem{{Item: []byte(`{}`)}}
			return list
		},
		"one that was not purged": func(list []client.AuditRecord) []client.AuditRecord {
			list[1].Purged, list[1].Hash, list[1].Record = true, hashOf(t, l, 8), nil
			return list
		},
		"a hash beside a body": func(list []client.AuditRecord) []client.AuditRecord { list[1].Hash = hashOf(t, l, 8); return list },
	} {
		q := p
		q.Records = fn(append([]client.AuditRecord(nil), p.Records...))
		if _, err := verify(file(t, q), l.Key(), nil); !errors.Is(err, audit.ErrFile) {
			t.Errorf("a proof, %s: %v", name, err)
		}
	}
}

func hashOf(t testing.TB, l *audit.Log, seq int64) []byte {
	return must(l.Page(ctx, seq-1, 1))(t).Entries[0].Hashes[:32]
}

// TestRemovedBody: a body that somebody removes from the tables is noticed, unless the log
// says that it was purged.
func TestRemovedBody(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		add(t, d, 0, 7)
		must(l.Checkpoint(ctx, 0))(t)
		purge(t, d, 3, 1, 3)
		if err := l.Walk(ctx, 2); err != nil {
			t.Fatal(err)
		}
		purge(t, d, 0, 6) // the log does not say so
		if err := l.Walk(ctx, 2); !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), "record 6 has no body") {
			t.Errorf("%v", err)
		}
		purge(t, d, 0, 8) // what says so, which was not signed yet
		if _, err := l.Checkpoint(ctx, 0); !errors.Is(err, audit.ErrBroken) {
			t.Errorf("signed: %v", err)
		}
	})
}

// TestEveryByteOfPurged: no byte of a file with purged records can be another. Every third is tried.
func TestEveryByteOfPurged(t *testing.T) {
	d, l := open(t, dbtest.SQLite(t))
	add(t, d, 0, 3)
	must(l.Checkpoint(ctx, 0))(t)
	purge(t, d, 3, 1, 2)
	for name, of := range map[string][]byte{
		"export":   export(t, l, 1, 4),
		"part":     export(t, l, 2, 3),
		"evidence": file(t, must(l.Evidence(ctx, audit.Subject{IDs: []string{"shop.1"}}, 0))(t)),
	} {
		must(verify(of, l.Key(), nil))(t)
		step := 3
		if testing.Short() {
			step = 11
		}
		for i := 0; i < len(of); i += step {
			for _, by := range []byte{1, 0x20} {
				b := bytes.Clone(of)
				b[i] ^= by
				if _, err := verify(b, l.Key(), nil); err == nil {
					t.Errorf("%s: byte %d was changed by %x and nothing was noticed:\n%s", name, i, by, b)
				}
			}
		}
	}
}

// TestPlans: what reads the whole log or one record of it reads by number.
func TestPlans(t *testing.T) {
	d, _ := open(t, dbtest.Postgres(t))
	for text, args := range map[string][2]string{
		`SELECT seq, body, hashes, leaves FROM audit_log WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT CAST($3 AS BIGINT)`: {"(BIGINT, BIGINT, BIGINT)", "(1, 1000, 100)"},
		`SELECT seq, body, hashes, leaves FROM audit_log WHERE seq = $1`:                                                     {"(BIGINT)", "(5)"},
	} {
		is := plan.Kept(t, d, args[0], text, args[1])
		if strings.Contains(is, "Seq Scan") || strings.Contains(is, "Sort") && !strings.Contains(is, "Sort Key") {
			t.Errorf("%s", is)
		}
		t.Log(is)
	}
}
