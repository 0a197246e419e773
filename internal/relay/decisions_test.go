package relay

import (
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
	case "/v1/decisions":
		after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
		out := client.Decisions{Decisions: []client.Decision{}, Next: after}
		last := int64(0)
		for _, d := range f.entries {
			if last = d.Seq; d.Seq > after {
				out.Decisions, out.Next = append(out.Decisions, d), d.Seq
			}
		}
		if after > last {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"status":409,"title":"Conflict","detail":"after is beyond the end of the feed, which is %d"}`, last)
			break
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
	s := newService(t, "", "shop")
	f := &feed{}
	s.set(f.serve, nil)
	written := func() string {
		return c.one(`SELECT COALESCE(string_agg(seq || ' ' || call_back_id || ' ' || decision, ', ' ORDER BY seq), '') FROM countersign_decisions`)
	}
	listen := c.connect()
	if _, err := listen.Exec(t.Context(), `LISTEN countersign_decisions`); err != nil {
		t.Fatal(err)
	}
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

	// A gap is right for a token that sees some merchants alone.
	f.set([]string{"shop"}, append(list[:30:30], next, again, entry(28132443000009, "w-31", declined))...)
	until(t, "the gap is passed", func() bool { return strings.HasSuffix(written(), "28132443000009 w-31 declined") })

	f.set([]string{"shop"}, append(list[:30:30], next, again, entry(28132443000009, "w-31", declined), entry(28132443000010, "w-06", declined))...)
	stopped("a contradiction", "entry 28132443000010 says declined of shop/w-06, and entry 7 said confirmed")
	for _, r := range relays {
		if !strings.Contains(r.log.String(), "level=ERROR") {
			t.Error("the log has no error")
		}
	}
}
