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
			r.wantAlarms(client.AlarmOtherContent)
			if got := r.deliver(&early); got != countersign.CodeDetailsDiffer {
				t.Fatalf("other content after the confirmation: errCode %d", got)
			}
			r.confirmed(1)
		})
	}
}
