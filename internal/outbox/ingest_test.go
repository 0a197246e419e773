package outbox

import (
	"bytes"
	"errors"
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

func testIngestAllOrNone(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "there", 1)}, 1))(t)
	other := deposit("m0", "there", 1)
	other.Payload = []byte("other")
	for name, c := range map[string]struct {
		items  []NewCallback
		item   int
		member string
		is     error
	}{
		"other content":           {[]NewCallback{deposit("m0", "z", 1), deposit("m0", "a", 1), other}, 2, "trackingId", db.ErrConflict},
		"other content, twice":    {[]NewCallback{deposit("m0", "z", 1), other, deposit("m0", "a", 1), other}, 1, "trackingId", db.ErrConflict},
		"unknown merchant":        {[]NewCallback{deposit("m0", "z", 1), deposit("nobody", "a", 1)}, 1, "merchant", db.ErrNotFound},
		"merchant that can't be":  {[]NewCallback{deposit("m.0", "z", 1)}, 0, "merchant", db.ErrNotFound},
		"twice with other inside": {[]NewCallback{deposit("m0", "z", 1), {Merchant: "m0", Type: 1, EventID: "z", Payload: []byte("x")}}, 1, "trackingId", db.ErrConflict},
	} {
		_, err := s.Ingest(ctx, c.items, 5)
		var conflict *db.ConflictError
		var item *db.ItemError
		switch {
		case !errors.Is(err, c.is):
			t.Errorf("%s: %v", name, err)
		case errors.As(err, &conflict):
			if conflict.Item != c.item || conflict.Member != c.member {
				t.Errorf("%s: names item %d, %s", name, conflict.Item, conflict.Member)
			}
		case !errors.As(err, &item) || item.Item != c.item || item.Member != c.member:
			t.Errorf("%s: names %+v", name, item)
		}
	}
	list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{}, 10, "")
	if err != nil || len(list) != 1 {
		t.Errorf("%d callbacks are there, %v", len(list), err)
	}
	twice := must(s.Ingest(ctx, []NewCallback{deposit("m0", "n", 1), deposit("m0", "n", 1)}, 5))(t)
	if twice[0].Duplicate || !twice[1].Duplicate || twice[0].ID != twice[1].ID {
		t.Errorf("the same twice in one batch gives %+v", twice)
	}
}

func testIngestRefused(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	for name, change := range map[string]func(*NewCallback){
		"NUL in trackingId":   func(n *NewCallback) { n.TrackingID = "a\x00" },
		"NUL in event":        func(n *NewCallback) { n.EventID = "\x00" },
		"txId not in UTF-8":   func(n *NewCallback) { n.TxID = "\xff" },
		"callBackId too long": func(n *NewCallback) { n.CallBackID = strings.Repeat("é", 513) },
		"type 2":              func(n *NewCallback) { n.Type = countersign.TypeRequestWithdraw },
		"type 0":              func(n *NewCallback) { n.Type = 0 },
		"type 8":              func(n *NewCallback) { n.Type = 8 },
		"no payload":          func(n *NewCallback) { n.Payload = nil },
	} {
		n := deposit("m0", "t", 1)
		change(&n)
		_, err := s.Ingest(ctx, []NewCallback{deposit("m0", "fine", 1), n}, 1)
		var item *db.ItemError
		if !errors.Is(err, db.ErrInvalid) || !errors.As(err, &item) || item.Item != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := deposit("m0", strings.Repeat("ü", 512), 1)
	long.TxID, long.Payload = strings.Repeat("x", 1024), bytes.Repeat([]byte{0, 255}, 32<<10)
	got := must(s.Ingest(ctx, []NewCallback{long}, 1))(t)
	if c := must(s.Callback(ctx, got[0].ID))(t); c.EventID != long.EventID || !bytes.Equal(c.Payload, long.Payload) {
		t.Error("long identifiers and payload came back changed")
	}
	for _, id := range []string{"", "m0", "m0.", "m0." + strings.Repeat("0", 26), "m0." + strings.Repeat("U", 26), "m0.\x00"} {
		if _, err := s.Callback(ctx, id); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("callback %q gives %v", id, err)
		}
	}
}
