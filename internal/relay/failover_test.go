//go:build unix

package relay

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// The core's database fails over to its synchronous standby under two relays, which is parted from it and then fenced: what the
// core committed is told once and in order, and each decision is written once.
func TestCoreFailsOver(t *testing.T) {
	pair := dbtest.NewPair(t)
	c := newCoreAt(t, pair.URL())
	s := newService(t, "shop")
	for range 2 {
		start(t, Config{From: pair.URL(), Nodes: []*client.Service{clientOf(t, s.front.URL, s.token)}, Decisions: true})
	}
	var want []string
	book := func(when string) {
		t.Helper()
		for i := range 10 {
			id := fmt.Sprint(when, "-", i)
			want = append(want, id)
			if i%5 == 0 {
				c.insert(kindWithdrawal, withdrawal("shop", id))
			} else {
				c.insert(kindDeposit, deposit("shop", id))
			}
		}
		c.carried()
		for w, err := range client.All(t.Context(), s.admin.Withdrawals, client.WithdrawalFilter{State: client.WithdrawalAwaiting}) {
			if err == nil {
				_, err = s.admin.CancelWithdrawal(t.Context(), w.ID) // this decides
			}
			ok(t, err)
		}
		until(t, "every decision is written", func() bool {
			return c.one(`SELECT COUNT(*) FROM countersign_decisions WHERE decision = 'cancelled'`) == fmt.Sprint(len(want)/5)
		})
	}
	book("before")
	pair.Part()
	pair.Promote()
	pair.Primary.Kill() // fenced
	c = &core{t: t, url: pair.URL(pair.Standby.Addr)}
	c.conn = c.connect()
	book("after")
	if diff := cmp.Diff(want, s.told("shop")); diff != "" || c.refused() != "0" {
		t.Errorf("%s; %s rows are refused", diff, c.refused())
	}
}
