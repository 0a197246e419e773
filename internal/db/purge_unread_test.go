package db_test

import (
	"bytes"
	"strings"
	"testing"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// The beginning of a response that was not understood is sealed, belongs to the last
// such attempt, and goes with its callback.
func TestUnreadIsSealedAndPurged(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		o := newService(t, url)
		in := ingest(t, o, deposit("d1"), start)
		at := start
		attempt := func(state outbox.CallbackState, head string) outbox.Settlement {
			t.Helper()
			at += 60_000
			var done outbox.Settlement
			settle(t, o, countersign.LaneNotify, at, func(_ outbox.Claimed, s *outbox.Settlement) {
				s.State, s.Due, s.Unread = state, at+1, nil
				if head != "" {
					s.Unread = []byte(head)
				}
				done = *s
			})
			return done
		}
		if n, head, err := o.Unread(ctx, in.ID); n != 0 || head != nil || err != nil {
			t.Errorf("before: %d %q %v", n, head, err)
		}
		first := attempt(outbox.CallbackPending, "the first page")
		attempt(outbox.CallbackPending, strings.Repeat("the second page ", 200))
		is := func(what string) {
			t.Helper()
			if n, head, err := o.Unread(ctx, in.ID); n != 2 || string(head) != strings.Repeat("the second page ", 128) || err != nil {
				t.Errorf("%s: %d %q %v", what, n, head, err)
			}
		}
		is("two attempts")
		if _, err := o.Settle(ctx, []outbox.Settlement{first}, at); err != nil { // repeated
			t.Fatal(err)
		}
		is("the first settled again")
		attempt(outbox.CallbackAccepted, "")
		is("accepted")
		err := db.Each(ctx, o, `SELECT data_key, head FROM unread`, nil, func(r db.Rows) error {
			var key, head []byte
			err := r.Scan(&key, &head)
			if len(key) == 0 || bytes.Contains(head, []byte("second")) {
				t.Errorf("it is not sealed: %q", head)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if gone := purgeAll(t, must(outbox.NewPurger(config(o.DB)))(t), start+100*day); gone != 1 {
			t.Errorf("%d purged", gone)
		}
		if n, head, err := o.Unread(ctx, in.ID); n != 0 || head != nil || err != nil {
			t.Errorf("after the purge: %d %q %v", n, head, err)
		}
	})
}
