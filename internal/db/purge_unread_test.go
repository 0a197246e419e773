package db_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// The beginnings of responses are sealed, belong to the last three failed attempts, and go
// with their callback.
func TestUnreadIsSealedAndPurged(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		o := newService(t, url)
		in := ingest(t, o, deposit("d1"), start)
		at := start
		attempt := func(state client.CallbackState, head string) outbox.Settlement {
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
		is := func(what string, want map[int]string) {
			t.Helper()
			heads := map[int]string{}
			got, err := o.Unread(ctx, in.ID)
			for n, head := range got {
				heads[n] = string(head)
			}
			if err != nil || !maps.Equal(heads, want) {
				t.Errorf("%s: %d heads, %v", what, len(heads), err)
			}
		}
		is("before", nil)
		first := attempt(client.CallbackPending, "the first page")
		attempt(client.CallbackPending, strings.Repeat("the second page ", 200))
		second := strings.Repeat("the second page ", 128)
		is("two attempts", map[int]string{1: "the first page", 2: second})
		attempt(client.CallbackPending, "the third page")
		attempt(client.CallbackPending, "")
		attempt(client.CallbackPending, "the fifth page")
		kept := map[int]string{2: second, 3: "the third page", 5: "the fifth page"}
		is("five attempts", kept)
		if _, err := o.Settle(ctx, []outbox.Settlement{first}, at); err != nil { // repeated
			t.Fatal(err)
		}
		is("the first settled again", kept)
		attempt(client.CallbackAccepted, "")
		is("accepted", kept)
		err := db.Each(ctx, o, `SELECT data_key, head FROM unread`, nil, func(r db.Rows) error {
			var key, head []byte
			err := r.Scan(&key, &head)
			if len(key) == 0 || bytes.Contains(head, []byte("page")) {
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
		is("after the purge", nil)
	})
}
