package gateway

import (
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
)

// TestContentBindsOnceAccepted: a question that nothing was decided on does not bind its callBackId
// to its user; one that was answered for good does.
func TestContentBindsOnceAccepted(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			early := *countersigntest.Withdrawal(1)
			early.TenantUserID = "another"
			if got := r.deliver(&early); got != countersign.CodeNotKnownYet {
				t.Fatalf("before the order: errCode %d", got)
			}
			r.order(1)
			r.confirmed(1)
			r.wantAlarms(client.AlarmRequestSuspect)
			if got := r.deliver(&early); got != countersign.CodeDetailsDiffer {
				t.Fatalf("other content after the confirmation: errCode %d", got)
			}
			r.confirmed(1)
		})
	}
}

// TestOneTrackingIDTwoWithdrawals: a provider that gives two withdrawals one trackingId can end both.
func TestOneTrackingIDTwoWithdrawals(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			for n := 1; n <= 2; n++ {
				r.order(n)
				r.confirmed(n)
				o := newOrder(n)
				wait := countersigntest.Notice(6, 1).(*countersign.WithdrawalNotice)
				wait.Head = countersign.Head{TrackingID: "one", TenantUserID: o.TenantUserID}
				wait.CallBackID = o.CallBackID
				end := &countersign.WithdrawalEnded{Head: wait.Head, CallBackID: o.CallBackID}
				for _, cb := range []countersign.Callback{wait, end, end} {
					if code := r.deliver(cb); code != countersign.CodeAccepted {
						t.Errorf("type %d about %s: errCode %d", cb.CallbackType(), o.CallBackID, code)
					}
				}
				if o, err := r.client.Order(t.Context(), o.CallBackID); err != nil || o.State != client.OrderEnded {
					t.Errorf("%+v, %v", o, err)
				}
			}
			r.wantAlarms()
		})
	}
}
