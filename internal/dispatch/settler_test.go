package dispatch

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
	"countersign/client"
)

// Deposits wait for each other to be settled together; a decision must not wait
// for deposits.
func TestDecisionDoesNotWaitForDeposits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.d.post = func(ctx context.Context, q request) Response {
			if strings.HasSuffix(q.url.Path, "/notify") {
				<-ctx.Done()
				return Response{Failure: client.ReasonTimeout}
			}
			return r.merchant.post(ctx, q)
		}
		r.start(t)
		for i := range 2 * busy {
			r.addDeposit("m1", i)
		}
		time.Sleep(time.Second) // all of them are with the merchant
		id := r.addWithdrawal("m1", 1, time.Hour, true)
		synctest.Wait() // and no clock moves
		if w := r.withdrawal(id); w.State != client.WithdrawalConfirmed || w.Decision != countersign.DecisionConfirmed {
			t.Errorf("the decision waits: %+v", w)
		}
		r.stop()
	})
}
