package gateway

import (
	"context"
	"slices"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
)

// TestAskedAgain: what was confirmed is confirmed again while it stands. Once it has ended, the
// service is told so, and a person hears of it once, also where a restore lost the answer.
func TestAskedAgain(t *testing.T) {
	eachRig(t, nil, func(t *testing.T, r *rig) {
		for n, end := range []countersign.Type{countersign.TypeInvalidAddress, countersign.TypeWithdraw, countersign.TypeInvalidAddress, countersign.TypeWithdraw} {
			r.order(n)
			for range 2 {
				r.confirmed(n)
			}
			r.deliver(countersigntest.Notice(end, n))
			if n > 1 {
				r.forgetAnswers()
			}
			for range 3 {
				if got := r.deliver(countersigntest.Withdrawal(n)); got != countersign.CodeOrderCancelled {
					t.Fatalf("%d: asked again after the end: errCode %d\n%s", n, got, r.log)
				}
			}
			r.wantAlarms(slices.Repeat([]client.AlarmKind{client.AlarmEndedAgain}, n+1)...)
			r.wantNumbers(slices.Repeat([]int64{1}, n+1)...)
		}
	})
}

// forgetAnswers loses what the service was told about withdrawals, as a restore can.
func (r *rig) forgetAnswers() {
	r.t.Helper()
	if err := r.db.Write(r.t.Context(), func(ctx context.Context, x *db.Tx) error {
		_, err := x.Exec(ctx, `DELETE FROM inbox WHERE type = 2`)
		return err
	}); err != nil {
		r.t.Fatal(err)
	}
}
