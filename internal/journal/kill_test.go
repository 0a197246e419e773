package journal_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

// closingChild makes the test binary write, close, export, drop and remove logs of the database of
// this URL until it is killed.
const closingChild = "COUNTERSIGN_TEST_CLOSE"

func closeForEver(url string) {
	d, err := db.Open(ctx, db.Config{URL: url, Keys: testKeys}, outbox.End())
	var now time.Time
	var l *journal.Log
	if err == nil {
		l, err = journal.Open(ctx, journal.Config{DB: d, End: "service", Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
	}
	for err == nil {
		var list client.AuditLogs
		if list, err = l.Logs(ctx); err == nil {
			now = time.Date(max(2000, int(list.Logs[len(list.Logs)-1].Year))+1, 1, 1, 0, 1, 0, 0, time.UTC)
			err = closeOnce(d, l)
		}
		fmt.Println("closed")
	}
	fmt.Println(err)
}

// closeOnce writes records, closes their log, exports it, and drops and removes it.
func closeOnce(d *db.DB, l *journal.Log) error {
	for i := range 7 {
		err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			return journal.Add(ctx, t, journal.Record{Kind: "test.done", At: 1, About: []string{fmt.Sprint("shop.", i)}})
		})
		if err != nil {
			return err
		}
	}
	if err := l.CloseYear(ctx); err != nil {
		return err
	}
	list, err := l.Logs(ctx)
	if err != nil {
		return err
	}
	last := list.Logs[len(list.Logs)-2].Last
	if list.Exported < last {
		var b bytes.Buffer
		page, err := l.Page(ctx, list.Exported, int(last-list.Exported))
		if err != nil {
			return err
		}
		signed, err := l.Checkpoint(ctx, page.Next)
		if err != nil {
			return err
		}
		e, err := journal.NewExporter(&b, list.Exported, page, signed)
		for _, r := range page.Entries {
			if err == nil {
				err = e.Entry(r)
			}
		}
		if err == nil {
			err = e.End(signed)
		}
		if err != nil {
			return err
		}
		v, err := journal.Verify(&b, l.Key(), nil)
		if err != nil {
			return err
		}
		if _, err := l.Exported(ctx, client.AuditExport{First: v.First, Last: v.Last, Checkpoint: v.Signed, Digest: v.Digest}, 1); err != nil {
			return err
		}
	}
	if err := l.Drop(ctx, last, 1, also); err != nil {
		return err
	}
	for {
		if more, err := l.RemoveSome(ctx); err != nil || !more {
			return err
		}
	}
}

// TestKilledWhileClosing: whenever a node dies that closes and drops logs, the log is whole, goes
// on, and continues what was signed before.
func TestKilledWhileClosing(t *testing.T) {
	if !dbtest.IsWhole() {
		t.Skip("COUNTERSIGN_WHOLE is not set: this test kills")
	}
	eachDialect(t, func(t *testing.T, url string) {
		var seen db.Head
		logs := 0
		for i := range 25 {
			cmd := exec.Command(must(os.Executable())(t))
			cmd.Env = append(os.Environ(), closingChild+"="+url)
			out := must(cmd.StdoutPipe())(t)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_, err := out.Read(make([]byte, 1)) // a log was closed
			time.Sleep(time.Duration(i*400) * time.Microsecond)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if err != nil {
				t.Fatalf("the child has closed no log: %v", err)
			}
			d, l := open(t, url)
			l.Expect(seen)
			if err := l.Walk(ctx, 5); err != nil {
				t.Fatalf("after kill %d: %v", i, err)
			}
			p := must(l.Page(ctx, 1<<60, 1))(t)
			must(l.Checkpoint(ctx, 0))(t)
			if p.Size >= p.First {
				must(verify(export(t, l, p.First, p.Size), l.Key(), nil))(t)
			}
			if list := must(l.Logs(ctx))(t).Logs; len(list) <= logs {
				t.Errorf("%d logs after kill %d", len(list), i)
			} else {
				logs = len(list)
			}
			seen = l.Seen()
			if list := must(ready.Alarms(ctx, d))(t); len(list) != 0 {
				t.Errorf("alarms %+v", list)
			}
			_ = d.Close()
		}
		t.Logf("%d logs were closed", logs)
	})
}
