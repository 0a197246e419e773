package gateway

import (
	"context"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
)

// TestAskedAgain: what was confirmed is confirmed again while it stands. Once it has ended, the
// service is told so, and a person hears of it once.
func TestAskedAgain(t *testing.T) {
	cases := []struct {
		name string
		end  func(t *testing.T, r *rig)
	}{
		{"ended", func(_ *testing.T, r *rig) { r.deliver(countersigntest.Notice(countersign.TypeInvalidAddress, 1)) }},
		{"executed", func(_ *testing.T, r *rig) { r.deliver(countersigntest.Notice(countersign.TypeWithdraw, 1)) }},
		{"ended, and a restore lost the answer", func(t *testing.T, r *rig) {
			r.deliver(countersigntest.Notice(countersign.TypeInvalidAddress, 1))
			r.forgetAnswer(t)
		}},
		{"executed, and a restore lost the answer", func(t *testing.T, r *rig) {
			r.deliver(countersigntest.Notice(countersign.TypeWithdraw, 1))
			r.forgetAnswer(t)
		}},
	}
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
					r.order(1)
					for range 2 {
						r.confirmed(1)
					}
					c.end(t, r)
					for range 3 {
						if got := r.deliver(countersigntest.Withdrawal(1)); got != countersign.CodeOrderCancelled {
							t.Fatalf("asked again after the end: errCode %d\n%s", got, r.log)
						}
					}
					r.wantAlarms(client.AlarmEndedAgain)
					r.wantNumbers(1)
				})
			}
		})
	}
}

// forgetAnswer loses what the service was told about withdrawals, as a restore can.
func (r *rig) forgetAnswer(t *testing.T) {
	t.Helper()
	err := r.db.Write(t.Context(), func(ctx context.Context, x *db.Tx) error {
		_, err := x.Exec(ctx, `DELETE FROM inbox WHERE type = 2`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
