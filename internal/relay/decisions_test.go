package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
)

// feed is a service's feed of decisions, to be exchanged for another.
type feed struct {
	mu      sync.Mutex
	entries []client.Decision
	of      []string // merchants of the token
	epoch   client.Epoch
}

// restored changes what the service says of its epochs.
func (f *feed) restored(e client.Epoch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch = e
}

func entry(seq int64, callBackID string, d countersign.Decision) client.Decision {
	return client.Decision{Seq: seq, Withdrawal: client.Withdrawal{ID: "shop." + callBackID, Merchant: "shop", CallBackID: callBackID, Decision: d}}
}

func (f *feed) set(of []string, entries ...client.Decision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries, f.of = entries, of
}

func (f *feed) serve(w http.ResponseWriter, r *http.Request, _ []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/v1/tokens/self":
		_ = json.NewEncoder(w).Encode(client.Self{Token: client.Token{Merchants: f.of}})
	case "/v1/epoch":
		_ = json.NewEncoder(w).Encode(f.epoch)
	case "/v1/decisions":
		after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
		out := client.Feed[client.Decision]{Items: []client.Decision{}, Next: after}
		last := int64(0)
		for _, d := range f.entries {
			if last = d.Seq; d.Seq > after {
				out.Items, out.Next = append(out.Items, d), d.Seq
			}
		}
		lost := false
		for _, number := range append(f.epoch.Earlier, f.epoch.Epoch) {
			base, end := number*epochGap, int64(0)
			for _, d := range f.entries {
				if d.Seq <= base {
					end = d.Seq
				}
			}
			lost = lost || end < after && after < base
		}
		if after > last || lost {
			return fails(w, http.StatusConflict, fmt.Sprint("after is beyond the end of the feed, which is ", last))
		}
		_ = json.NewEncoder(w).Encode(out)
	default:
		return false
	}
	return true
}

// Decisions are written once and in order, by one of several relays; another epoch of the
// feed, another feed and a contradiction stop them, are told, and stop nothing else.
func TestDecisions(t *testing.T) {
	const confirmed, declined = countersign.DecisionConfirmed, countersign.DecisionDeclined
	c := newCore(t)
	s := newService(t, "shop")
	f := &feed{}
	s.set(f.serve, nil)
	written := func() string {
		return c.one(`SELECT COALESCE(string_agg(seq || ' ' || call_back_id || ' ' || decision, ', ' ORDER BY seq), '') FROM countersign_decisions`)
	}
	listen := c.connect()
	must(listen.Exec(t.Context(), `LISTEN countersign_decisions`))(t)
	relays := []*running{s.relay(c), s.relay(c)}
	var list []client.Decision
	var want []string
	for i := range int64(30) {
		id := fmt.Sprintf("w-%02d", i)
		list = append(list, entry(i+1, id, confirmed))
		want = append(want, fmt.Sprintf("%d %s confirmed", i+1, id))
		f.set(nil, list...)
	}
	until(t, "all are written", func() bool { return written() == strings.Join(want, ", ") })
	if n, err := listen.WaitForNotification(t.Context()); err != nil || n.Channel != "countersign_decisions" {
		t.Errorf("no notification: %v, %v", n, err)
	}
	stopped := func(what, message string) {
		t.Helper()
		for _, r := range relays {
			until(t, what, func() bool { return strings.Contains(r.state.why(partDecisions), message) })
		}
		c.insert(kindDeposit, deposit("shop", what))
		until(t, "rows are carried", func() bool { return c.waiting() == "0" })
	}
	before := written()

	f.set(nil, list[:20]...) // put back
	stopped("the end is lost", "beyond the end of the feed, which is 20")

	next := entry(28132443000001, "w-30", confirmed)
	f.set(nil, append(list[:30:30], next)...) // nothing is lost of the feed
	stopped("another epoch", "entry 28132443000001 follows entry 30")
	f.set([]string{"shop"}, append(list[:30:30], next)...)
	stopped("another epoch for a token of some merchants", "entry 28132443000001 follows entry 30")
	if diff := cmp.Diff(before, written()); diff != "" {
		t.Errorf("something was written meanwhile: %s", diff)
	}

	// A person says where to go on; the same decision again is known.
	c.exec(`UPDATE countersign_relay SET decisions = 28132443000000`)
	again := entry(28132443000002, "w-05", confirmed)
	f.set(nil, append(list[:30:30], next, again)...)
	until(t, "it goes on", func() bool { return written() == before+", 28132443000001 w-30 confirmed" })
	until(t, "the known one is passed", func() bool { return c.one(`SELECT decisions FROM countersign_relay`) == "28132443000002" })

	// What the service lost and was given again has another id there: its row gets that.
	anew := entry(28132443000003, "w-07", confirmed)
	anew.Withdrawal.ID = "shop.again"
	f.set(nil, append(list[:30:30], next, again, anew)...)
	until(t, "the new id is written", func() bool {
		return c.one(`SELECT seq || ' ' || withdrawal || ' ' || (body ->> 'id') FROM countersign_decisions WHERE call_back_id = 'w-07'`) == "28132443000003 shop.again shop.again"
	})

	// A gap is right for a token that sees some merchants alone.
	f.set([]string{"shop"}, append(list[:30:30], next, again, anew, entry(28132443000009, "w-31", declined))...)
	until(t, "the gap is passed", func() bool { return strings.HasSuffix(written(), "28132443000009 w-31 declined") })

	f.set([]string{"shop"}, append(list[:30:30], next, again, anew, entry(28132443000009, "w-31", declined), entry(28132443000010, "w-06", declined))...)
	stopped("a contradiction", "entry 28132443000010 says declined of shop/w-06, and entry 7 said confirmed")
	for _, r := range relays {
		if !strings.Contains(r.log.String(), "level=ERROR") {
			t.Error("the log has no error")
		}
	}
	c.exec(`DELETE FROM countersign_decisions WHERE call_back_id = 'w-06'`) // a person has decided
	until(t, "the new decision is written", func() bool { return strings.HasSuffix(written(), "28132443000010 w-06 declined") })

	// What stands before a contradiction is written: passing it loses nothing.
	c.exec(`UPDATE countersign_relay SET decisions = 28132443000010`)
	f.set([]string{"shop"}, entry(28132443000011, "w-32", confirmed), entry(28132443000012, "w-08", declined), entry(28132443000013, "w-33", confirmed))
	stopped("a contradiction in the middle", "entry 28132443000012 says declined of shop/w-08, and entry 9 said confirmed")
	if !strings.HasSuffix(written(), "28132443000011 w-32 confirmed") {
		t.Errorf("written: %s", written())
	}
	moveCursor(t, c, 28132443000012)
	until(t, "what comes after it is written", func() bool { return strings.HasSuffix(written(), "28132443000013 w-33 confirmed") })
}

func moveCursor(t *testing.T, c *core, to int64) {
	t.Helper()
	_, _, err := MoveCursor(t.Context(), c.url, func(context.Context, int64) (int64, error) { return to, nil })
	ok(t, err)
}

// What was decided before a restore and not written yet comes first. The cursor then goes
// to where the service's next epoch begins, and to none of before it.
func TestCursorOverEpochs(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop")
	f := &feed{}
	s.set(f.serve, nil)
	api := clientOf(t, s.front.URL, s.token)
	written := func() string { return c.one(`SELECT COUNT(*) FROM countersign_decisions`) }
	at := func() int64 {
		t.Helper()
		was, _, err := MoveCursor(t.Context(), c.url, nil)
		ok(t, err)
		return was
	}
	next := func(message string) int64 {
		t.Helper()
		n, err := NextEpoch(t.Context(), api, at())
		if message == "" && err != nil || message != "" && (err == nil || !strings.Contains(err.Error(), message)) {
			t.Errorf("behind %d: %d, %v; want %q", at(), n, err, message)
		}
		return n
	}
	next("has no epoch after 0")
	list := []client.Decision{entry(1, "w-1", countersign.DecisionConfirmed), entry(2, "w-2", countersign.DecisionConfirmed),
		entry(7_000_001, "w-3", countersign.DecisionConfirmed), entry(9_000_001, "w-4", countersign.DecisionConfirmed)}
	f.set(nil, list...)
	f.restored(client.Epoch{Epoch: 9, Earlier: []int64{7}, Open: true})
	next("is not reconciled")
	f.restored(client.Epoch{Epoch: 9, Earlier: []int64{7}})
	next("entry 1 is from before the restore and not written yet")

	r := s.relay(c)
	until(t, "what was decided before is written", func() bool { return written() == "2" && r.state.why(partDecisions) != "" })
	for _, want := range []int64{7_000_000, 9_000_000} {
		before := at()
		to := next("")
		if to != want {
			t.Fatalf("behind %d it goes on behind %d, want %d", before, to, want)
		}
		moveCursor(t, c, to)
		until(t, "the next epoch is written", func() bool { return at() == want+1 && r.state.why(partDecisions) != "" || written() == "4" })
	}
	until(t, "all is written", func() bool { return written() == "4" && r.state.why(partDecisions) == "" })
	next("has no epoch after 9000001")

	r.stop()
	if _, _, err := MoveCursor(t.Context(), c.url, func(context.Context, int64) (int64, error) {
		c.exec(`UPDATE countersign_relay SET decisions = 1500`) // lost in the first restore
		return 7_000_000, nil
	}); err == nil {
		t.Error("the cursor was moved from where it was not")
	}
	if to := next(""); to != 7_000_000 {
		t.Errorf("behind a number that is lost it goes on behind %d", to)
	}

	// A backup of before epoch 8 began, or of beside it, is restored: what was written in epoch 8
	// has other ids now.
	c.exec(`UPDATE countersign_relay SET decisions = 8000001;
		UPDATE countersign_decisions SET seq = 8000001, withdrawal = 'shop.lost' WHERE call_back_id = 'w-2'`)
	if to := next(""); to != 0 {
		t.Fatalf("in an epoch that the service does not know it goes on behind %d", to)
	}
	r = s.relay(c)
	for to := int64(0); to < 9_000_000; {
		to = next("")
		moveCursor(t, c, to)
		until(t, "it is written", func() bool { return at() > to })
		until(t, "it is written to the end of the epoch", func() bool { return r.state.why(partDecisions) != "" || at() == 9_000_001 })
	}
	if got := c.one(`SELECT seq || ' ' || withdrawal FROM countersign_decisions WHERE call_back_id = 'w-2'`); got != "2 shop.w-2" || written() != "4" {
		t.Errorf("%s of %s", got, written())
	}
}
