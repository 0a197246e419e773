package book

import (
	"context"
	"fmt"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
)

// TestRefusedBounds: what is kept is bounded in rows and bytes. Those that did not open go first,
// and many of one reason do not replace those of another.
func TestRefusedBounds(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		keep := func(name string, opened bool, reason client.RefusalReason, size int) {
			t.Helper()
			r := Refused{Content: []byte(name), RefusedCallback: client.RefusedCallback{Body: string(make([]byte, size)), Opened: opened,
				CallbackID: name, Reason: reason, Facts: []client.Fact{}}}
			ok(t, b.KeepRefused(ctx, r, nil, 1))
		}
		count := func() (opened, closed, bytes int64) {
			t.Helper()
			list, _, err := b.RefusedList(ctx, client.RefusedFilter{}, 2*MaxRefusedRows, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				if bytes += r.Bytes; r.Opened {
					opened++
				} else {
					closed++
				}
			}
			return opened, closed, bytes
		}
		keep("deposit", true, "not_bound", 700)
		keep("decided", true, "not_bound", 700)
		ok(t, b.DecideRefused(ctx, 2, client.RefusedDismissed, "tok", "", 2))
		for n := range 30 { // 19 MB that a stranger with the API key posts
			keep(fmt.Sprint("garbage ", n), false, "not_opened", 650_000)
		}
		if opened, closed, bytes := count(); opened != 1 || closed < 20 || bytes > MaxRefusedBytes {
			t.Errorf("%d and %d of %d bytes", opened, closed, bytes)
		}
		for n := range MaxRefusedRows + 10 { // joined from what he read
			keep(fmt.Sprint("spliced ", n), true, "spliced", 10)
		}
		opened, closed, _ := count()
		if opened != MaxRefusedRows || closed != 0 {
			t.Errorf("%d and %d", opened, closed)
		}
		list, _, err := b.RefusedList(ctx, client.RefusedFilter{}, 1, 0)
		if err != nil || list[0].CallbackID != fmt.Sprint("spliced ", MaxRefusedRows-2) { // the newest of the reason went
			t.Errorf("the newest is %+v, %v", list, err)
		}
		if r, err := b.Refused(ctx, 1); err != nil || r.CallbackID != "deposit" || len(r.Body) != 700 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestRefusedSealed: a body opens for its own row alone.
func TestRefusedSealed(t *testing.T) {
	endtest.Sealed(t, End())
	b := New(openAt(t, endtest.SQLite(End())(t)), Config{})
	for _, name := range []string{"one", "two"} {
		ok(t, b.KeepRefused(ctx, Refused{Content: []byte(name), RefusedCallback: client.RefusedCallback{Body: name, Reason: "malformed"}}, nil, 1))
	}
	ok(t, b.Write(ctx, func(c context.Context, x *db.Tx) error {
		_, err := x.Exec(c, `UPDATE refused SET body = (SELECT body FROM refused WHERE seq = 2), data_key = (SELECT data_key FROM refused WHERE seq = 2) WHERE seq = 1`)
		return err
	}))
	if r, err := b.Refused(ctx, 1); err == nil {
		t.Errorf("%q", r.Body)
	}
}
