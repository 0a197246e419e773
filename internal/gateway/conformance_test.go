package gateway

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"countersign/conformance"
	"countersign/countersigntest"
	"countersign/merchant"
)

// TestConformance holds the gateway to every case that a merchant's endpoint
// must pass, and to the feed's count of what was credited.
func TestConformance(t *testing.T) {
	t.Parallel()
	for i, d := range dialects { // countersigntest.CheckInbox has both kinds of services on both
		unbound := i == 0
		t.Run(fmt.Sprintf("%s, unbound %v", d.name, unbound), func(t *testing.T) {
			t.Parallel()
			service := newService(t, countersigntest.ServiceConfig{Unbound: unbound})
			r := newRig(t, d.url(t), service, func(c *Config) {
				c.Grace = -1
				c.Callbacks.BodyTimeout = 3 * time.Second // also for a busy machine
			})
			r.order(1)
			server := httptest.NewServer(r.Callbacks())
			defer server.Close()
			o := newOrder(1)
			checker, err := conformance.New(conformance.Config{
				NotifyURL: server.URL + merchant.DefaultNotifyPath, WithdrawURL: server.URL + merchant.DefaultWithdrawPath,
				Key: testPair(), APIKey: service.APIKey(), CallbackAPIKey: service.CallbackAPIKey(), Unbound: unbound,
				Order: &conformance.Order{CallBackID: o.CallBackID, TenantUserID: o.TenantUserID, Address: o.Address, ChainName: o.ChainName,
					Symbol: o.Symbol, Amount: o.Amount.String()},
				Effects: func(context.Context, []string) (credits []conformance.Credit, _ error) {
					for _, d := range r.allDeposits() {
						if d.State == "taken" {
							credits = append(credits, conformance.Credit{TrackingID: d.TrackingID, Amount: d.Amount.String()})
						}
					}
					return credits, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			summary, err := checker.Run(t.Context(), func(res conformance.Result) {
				if res.Ending == conformance.Fail {
					t.Errorf("%s: %s", res.Name, res.Problem)
				}
			})
			if err != nil || !summary.OK() {
				t.Fatalf("%v, %v", summary, err)
			}
			t.Log(summary)
		})
	}
}
