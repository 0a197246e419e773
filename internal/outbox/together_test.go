package outbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// testTogether runs everything beside everything, on two nodes where there can
// be two, and then counts: whatever was interleaved, the counters say what the
// rows say, each decided withdrawal is in the feed once, and nothing waits
// unseen.
func testTogether(t *testing.T, s *Outbox) {
	nodes := []*Outbox{s, another(t, s)}
	ids := addMerchants(t, s, 3, func(m *Merchant) { m.Concurrency = 10 })
	var clock atomic.Int64
	clock.Store(10_000)
	var mu sync.Mutex
	var callbacks, withdrawals []string
	pick := func(r *rand.Rand, from *[]string) string {
		mu.Lock()
		defer mu.Unlock()
		if len(*from) == 0 {
			return ""
		}
		return (*from)[r.IntN(len(*from))]
	}
	keep := func(to *[]string, id string) {
		mu.Lock()
		defer mu.Unlock()
		*to = append(*to, id)
	}
	settle := func(r *rand.Rand, node *Outbox, claimed []Claimed, now db.Millis) error {
		var list []Settlement
		for _, c := range claimed {
			n := settlementOf(c)
			switch k := r.IntN(6); {
			case c.Type == countersign.TypeRequestWithdraw && k < 2:
				n = answer(c, countersign.DecisionConfirmed, someDetails(t, "1"))
			case c.Type == countersign.TypeRequestWithdraw && k < 3:
				n = answer(c, countersign.DecisionDeclined, nil)
			case c.Type == countersign.TypeRequestWithdraw || k < 2:
				n = unreached(c, now+db.Millis(r.IntN(50)))
				n.Reached = k > 0
			case k == 2:
				n.State, n.Alarm = client.CallbackRefused, "not_understood"
			case k == 3:
				n.State = client.CallbackExhausted
			}
			list = append(list, n)
		}
		_, err := node.Settle(ctx, list, now)
		return err
	}
	step := func(r *rand.Rand, node *Outbox, name string) error {
		now := db.Millis(clock.Add(1))
		lane := countersign.Lane(r.IntN(2))
		switch k := r.IntN(20); {
		case k < 4:
			var items []NewCallback
			for i := range 1 + r.IntN(5) {
				items = append(items, deposit(ids[r.IntN(3)], fmt.Sprint(name, "-", i), now+db.Millis(r.IntN(20))))
			}
			got, err := node.Ingest(ctx, items, now)
			for _, g := range got {
				keep(&callbacks, g.ID)
			}
			return err
		case k < 7:
			n := newWithdrawal(name, now+db.Millis(r.IntN(400)), nil)
			n.Merchant = ids[r.IntN(3)]
			w, _, err := node.CreateWithdrawal(ctx, n, now)
			if err == nil {
				keep(&withdrawals, w.ID)
			}
			return err
		case k < 14:
			claimed, err := node.Claim(ctx, ClaimRequest{Lane: lane, Node: name, Now: now, LeaseUntil: now + 60, Max: 1 + r.IntN(8)})
			if err != nil {
				return err
			}
			switch r.IntN(8) {
			case 0:
				return node.GiveBack(ctx, claimed, now)
			case 1:
				return nil // the node dies
			}
			return settle(r, node, claimed, db.Millis(clock.Add(int64(r.IntN(90)))))
		case k < 15:
			if id := pick(r, &withdrawals); id != "" {
				_, err := node.CancelWithdrawal(ctx, id, now)
				return err
			}
		case k < 17:
			_, err := node.Sweep(ctx, now)
			return err
		case k < 18:
			if id := pick(r, &callbacks); id != "" {
				_, err := node.Resend(ctx, id, now)
				return err
			}
		case k < 19:
			_, err := node.UpdateMerchant(ctx, ids[r.IntN(3)], now, func(m *Merchant) error { m.Concurrency = 5 + r.IntN(10); return nil })
			return err
		default:
			_, err := node.ResendMatching(ctx, nil, client.CallbackFilter{}, false, now)
			return err
		}
		return nil
	}
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 42))
			for i := range 60 {
				if err := step(r, nodes[w%2], fmt.Sprint(w, "-", i)); err != nil && !errors.Is(err, db.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	checkCounts(t, s, db.Millis(clock.Load()))
}

// checkCounts compares what is kept twice.
func checkCounts(t *testing.T, s *Outbox, now db.Millis) {
	t.Helper()
	count := func(text string, args ...any) (n int64) {
		t.Helper()
		if _, err := db.One(ctx, s, text, args, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	total := int64(0)
	for _, l := range lanesOf(t, s) {
		rows := func(state client.CallbackState) int64 {
			return count(`SELECT COUNT(*) FROM outbox WHERE merchant = $1 AND lane = $2 AND state = $3`, l.Merchant, int64(l.Lane), string(state))
		}
		if n := rows(client.CallbackSending); int64(l.InFlight) != n {
			t.Errorf("%s %s counts %d in flight, %d are", l.Merchant, l.Lane, l.InFlight, n)
		}
		for i, state := range finalStates[1:] {
			if n := rows(state); l.Final[i+1] != n {
				t.Errorf("%s %s counts %d %s, %d are", l.Merchant, l.Lane, l.Final[i+1], state, n)
			}
		}
		due := db.Millis(count(`SELECT COALESCE(MIN(due), 4611686018427387904) FROM outbox
			WHERE merchant = $1 AND lane = $2 AND state = 'pending' AND deadline > $3`, l.Merchant, int64(l.Lane), int64(now)))
		if l.NextDue > due {
			t.Errorf("%s %s says that %d is next due, %d is", l.Merchant, l.Lane, l.NextDue, due)
		}
		total += l.Final[0]
	}
	if n := count(`SELECT COUNT(*) FROM callbacks`) - count(`SELECT COUNT(*) FROM outbox`); n != total || n != count(`SELECT COUNT(*) FROM attempts WHERE accepted = 1`) {
		t.Errorf("%d callbacks are accepted, %d were counted", n, total)
	}
	decided, inFeed := count(`SELECT COUNT(*) FROM withdrawals WHERE state <> 'awaiting'`), count(`SELECT COUNT(DISTINCT withdrawal) FROM decisions`)
	rows, last := count(`SELECT COUNT(*) FROM decisions`), count(`SELECT last_seq FROM feeds WHERE name = 'decisions'`)
	if decided != inFeed || rows != inFeed || last != rows {
		t.Errorf("%d withdrawals are decided, the feed has %d in %d rows up to %d", decided, inFeed, rows, last)
	}
	if n := count(`SELECT COUNT(*) FROM withdrawals w LEFT JOIN outbox o ON o.merchant = w.merchant AND o.id = w.id
		WHERE (w.state = 'awaiting') <> (COALESCE(o.state, 'accepted') IN ('pending', 'sending'))`); n != 0 {
		t.Errorf("%d withdrawals and their callbacks do not agree", n)
	}
	if decided == 0 || total == 0 {
		t.Error("nothing happened")
	}
}
