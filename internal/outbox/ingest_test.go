package outbox

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

func testIngest(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	first := NewCallback{Merchant: "m0", Type: countersign.TypeWithdraw, EventID: "e1", TrackingID: "t1", TxID: "x1", CallBackID: "c1",
		Payload: []byte("first\x00\xff bytes"), Due: 500, Deadline: 9000}
	second := deposit("m1", "e1", 10) // the same event of another merchant is another event
	nameless := NewCallback{Merchant: "m0", Type: countersign.TypeAddress, Payload: []byte("address"), Due: 20, Deadline: db.Never}
	got := must(s.Ingest(ctx, []NewCallback{first, second, nameless}, 100))(t)
	if len(got) != 3 || got[0].TrackingID != "t1" || got[0].State != client.CallbackPending || got[0].Duplicate {
		t.Fatalf("got %+v", got)
	}
	if c := must(s.Callback(ctx, got[2].ID))(t); c.EventID == "" {
		t.Error("an event without id got none")
	}
	c := must(s.Callback(ctx, got[0].ID))(t)
	want := Callback{Callback: client.Callback{ID: got[0].ID, Merchant: "m0", Type: countersign.TypeWithdraw, Name: countersign.TypeWithdraw.String(), TrackingID: "t1", TxID: "x1", CallBackID: "c1",
		State: client.CallbackPending, Due: 500, Deadline: 9000, Created: 100}, EventID: "e1"}
	if !bytes.Equal(c.Payload, first.Payload) {
		t.Errorf("payload %q", c.Payload)
	}
	if c.Payload = nil; fmt.Sprint(c) != fmt.Sprint(want) {
		t.Errorf("kept\n%+v, want\n%+v", c, want)
	}
	if !strings.HasPrefix(c.ID, "m0.") || len(c.ID) != 3+26 {
		t.Errorf("id %q", c.ID)
	}

	again := must(s.Ingest(ctx, []NewCallback{second, first}, 200))(t)
	if !again[0].Duplicate || again[0].ID != got[1].ID || !again[1].Duplicate || again[1].ID != got[0].ID {
		t.Errorf("again gives %+v", again)
	}
	settleAll(t, s, claim(t, s, countersign.LaneNotify, 600, 10), 601)
	again = must(s.Ingest(ctx, []NewCallback{first}, 700))(t)
	if !again[0].Duplicate || again[0].State != client.CallbackAccepted {
		t.Errorf("after it was accepted, again gives %+v", again)
	}
	if list := must(s.Ingest(ctx, nil, 700))(t); len(list) != 0 {
		t.Errorf("nothing gives %v", list)
	}
}

// settleAll accepts what was claimed.
func settleAll(t testing.TB, s *Outbox, claimed []Claimed, now db.Millis) []Settled {
	t.Helper()
	list := make([]Settlement, len(claimed))
	for i, c := range claimed {
		list[i] = settlementOf(c)
	}
	done := must(s.Settle(ctx, list, now))(t)
	for i, d := range done {
		if !d.Applied {
			t.Fatalf("settlement %d was not applied", i)
		}
	}
	return done
}
