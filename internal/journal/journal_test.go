package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var ctx = context.Background()

var testKeys = db.NewMasterKey([32]byte{7})

func eachDialect(t *testing.T, f func(t *testing.T, url string)) { endtest.Each(t, outbox.End(), f) }

func must[T any](v T, err error) func(dbtest.Failer) T { return dbtest.Must(v, err) }

var ok = dbtest.OK

var at = time.UnixMilli(1_750_000_000_000)

// open opens the log of a service.
func open(t testing.TB, url string) (*db.DB, *journal.Log) {
	t.Helper()
	d := must(db.Open(ctx, db.Config{URL: url, Keys: testKeys}, outbox.End()))(t)
	t.Cleanup(func() { d.Close() })
	return d, openLog(t, d)
}

// openLog opens the log in d as a process does that starts.
func openLog(t testing.TB, d *db.DB) *journal.Log {
	t.Helper()
	return must(journal.Open(ctx, journal.Config{DB: d, End: "service", Now: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler)}))(t)
}

// add adds n records about shop.0, shop.1, …
func add(t testing.TB, d *db.DB, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		ok(t, d.Write(journal.By(ctx, journal.Actor{Token: "tok_a", Name: "A <b> & ü", Role: "operator", Address: "192.0.2.1"}), func(ctx context.Context, t *db.Tx) error {
			return journal.Add(ctx, t, journal.Record{Kind: "test.done", At: db.Millis(1000 + i), About: []string{fmt.Sprint("shop.", i), "shop"},
				Data: map[string]string{"text": "<&>\u2028" + strings.Repeat("x", i)}})
		}))
	}
}

// grow adds n records and gives the checkpoints before each.
func grow(t testing.TB, d *db.DB, l *journal.Log, n int) (checkpoints [][]byte) {
	t.Helper()
	for i := range n {
		checkpoints = append(checkpoints, []byte(must(l.Checkpoint(ctx, 0))(t).Checkpoint))
		add(t, d, i, 1)
	}
	return checkpoints
}

// source is a log as journal.Export reads it.
type source struct{ *journal.Log }

func (s source) Audit(ctx context.Context, o client.FeedOptions) (client.AuditPage, error) {
	return s.Page(ctx, o.After, o.Limit)
}

func (s source) AuditCheckpoint(ctx context.Context, from int64) (client.AuditProof, error) {
	return s.Checkpoint(ctx, from)
}

// export writes the records as the command does.
func export(t testing.TB, l *journal.Log) []byte {
	t.Helper()
	var b bytes.Buffer
	ok(t, journal.Export(ctx, &b, source{l}))
	return b.Bytes()
}

// file is a proof as the command writes it.
func file(t testing.TB, p client.AuditProof) []byte {
	t.Helper()
	var b bytes.Buffer
	ok(t, journal.WriteProof(&b, p))
	return b.Bytes()
}

func verify(file []byte, key string, earlier []byte) (journal.Verified, error) {
	return journal.Verify(bytes.NewReader(file), key, earlier)
}

// TestVerify: an export, proofs from every earlier checkpoint, and proofs of each record are verified with the key
// alone.
func TestVerify(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		d, l := open(t, url)
		const n = 13
		earlier := grow(t, d, l, n)
		whole := export(t, l)
		if v := must(verify(whole, l.Key(), nil))(t); v.Records != n || v.Checkpoint.Size != n {
			t.Errorf("the export: %+v", v)
		}
		for size, held := range earlier {
			if _, err := verify(whole, l.Key(), held); err != nil {
				t.Errorf("an export from the checkpoint of %d: %v", size, err)
			}
			p := file(t, must(l.Checkpoint(ctx, int64(size)))(t))
			if _, err := verify(p, l.Key(), held); err != nil {
				t.Errorf("a checkpoint from that of %d: %v", size, err)
			}
			if size > 0 {
				if _, err := verify(p, l.Key(), earlier[size-1]); size > 1 && !errors.Is(err, journal.ErrEarlier) {
					t.Errorf("a checkpoint from that of %d, with another: %v", size, err)
				}
				dbtest.Fails(verify(p, l.Key(), nil))(t, journal.ErrEarlier, "")
			}
		}
		for seq := int64(1); seq <= n; seq++ {
			v := must(verify(file(t, must(l.Prove(ctx, seq))(t)), l.Key(), nil))(t)
			if v.Record == nil || v.Record.Seq != seq {
				t.Errorf("the proof of record %d: %+v", seq, v.Record)
			}
		}
		dbtest.Fails(l.Prove(ctx, n+1))(t, db.ErrNotFound, "")
		entry := must(journal.Read(must(l.Prove(ctx, 5))(t).Record.Record))(t)
		if entry.Kind != "test.done" || entry.By.Token != "tok_a" || entry.By.Name != "A <b> & ü" || entry.At != 1004 || !strings.Contains(string(entry.Data), "xxxx") {
			t.Errorf("the record is %+v", entry)
		}
		about := must(l.About(ctx, "shop", 0, 5))(t).Items
		if len(about) != 5 || about[0].Seq != n || about[4].Seq != n-4 {
			t.Errorf("the newest records about it are %+v", about)
		}
		if list := must(l.About(ctx, "shop", n-4, 100))(t).Items; len(list) != n-5 {
			t.Errorf("%d records before", len(list))
		}
		if list := must(l.About(ctx, "shop.99", 0, 5))(t).Items; len(list) != 0 {
			t.Errorf("records about nothing: %+v", list)
		}
		dbtest.Fails(l.Checkpoint(ctx, n+1))(t, journal.ErrFrom, "")
	})
}

// TestEveryByte: no byte of a file can be another.
func TestEveryByte(t *testing.T) {
	d, l := open(t, dbtest.SQLite(t))
	add(t, d, 0, 3)
	held := []byte(must(l.Checkpoint(ctx, 0))(t).Checkpoint)
	add(t, d, 3, 4)
	for name, of := range map[string]struct{ file, held []byte }{
		"export":          {export(t, l), held},
		"checkpoint":      {held, nil},
		"consistency":     {file(t, must(l.Checkpoint(ctx, 3))(t)), held},
		"record":          {file(t, must(l.Prove(ctx, 2))(t)), nil},
		"held checkpoint": {export(t, l), held},
	} {
		must(verify(of.file, l.Key(), of.held))(t)
		check := func(i int, b []byte, what string) {
			file, earlier := b, of.held
			if name == "held checkpoint" {
				file, earlier = of.file, b
			}
			if _, err := verify(file, l.Key(), earlier); err == nil {
				t.Errorf("%s: byte %d %s and nothing was noticed:\n%s", name, i, what, b)
			}
		}
		whole := of.file
		if name == "held checkpoint" {
			whole = of.held
		}
		step := 1
		if !dbtest.IsWhole() || dbtest.Race {
			step = 7
		}
		for i := 0; i < len(whole); i += step {
			for _, by := range []byte{1, 0x20} {
				b := bytes.Clone(whole)
				b[i] ^= by
				check(i, b, fmt.Sprintf("was changed by %x", by))
			}
			if name == "record" {
				check(i, append(bytes.Clone(whole[:i]), whole[i+1:]...), "was removed")
				check(i, append(append(bytes.Clone(whole[:i]), ' '), whole[i:]...), "got a space before it")
				check(i, whole[:i], "was the end")
			}
		}
		check(len(whole), append(bytes.Clone(whole), '\n'), "was added")
	}
}

// TestForeign: what another log has signed is not taken, and each bad input has an
// error of its own.
func TestForeign(t *testing.T) {
	d, l := open(t, dbtest.SQLite(t))
	other, ol := open(t, dbtest.SQLite(t))
	add(t, d, 0, 3)
	add(t, other, 1, 4)
	good, foreign := export(t, l), []byte(must(ol.Checkpoint(ctx, 0))(t).Checkpoint)
	for name, of := range map[string]struct {
		file, held []byte
		key        string
		want       error
		says       string
	}{
		"another key":        {good, nil, ol.Key(), journal.ErrForeign, "it is signed by countersign-service-"},
		"foreign checkpoint": {good, foreign, l.Key(), journal.ErrForeign, "the earlier checkpoint"},
		"no key":             {good, nil, "key", nil, "not a verifier key"},
		"empty":              {nil, nil, l.Key(), journal.ErrFile, "it is empty"},
		"cut off":            {good[:len(good)/2], nil, l.Key(), journal.ErrFile, "cut off"},
		"no end":             {good[:bytes.LastIndexByte(good[:len(good)-1], '\n')+1], nil, l.Key(), journal.ErrFile, "without a checkpoint"},
		"text":               {[]byte("hello\n"), nil, l.Key(), journal.ErrCheckpoint, "not a signed note"},
		"other JSON":         {[]byte("{}\n"), nil, l.Key(), journal.ErrFile, "as it was exported"},
	} {
		_, err := verify(of.file, of.key, of.held)
		if err == nil || of.want != nil && !errors.Is(err, of.want) || !strings.Contains(err.Error(), of.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, of.want, of.says)
		}
	}
}
