package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
)

// TestSearch: one text finds whatever has it, each thing once.
func TestSearch(t *testing.T) {
	eachRig(t, func(c *Config) { c.Callbacks.Profile.Lenient = true }, func(t *testing.T, r *rig) {
		ctx := t.Context()
		deliver := func(cb countersign.Callback) {
			t.Helper()
			if code := r.deliver(cb); code != countersign.CodeAccepted {
				t.Fatalf("errCode %d", code)
			}
		}
		x := countersigntest.Deposit(1)
		x.TrackingID, x.TxID, x.TenantUserID, x.ToAddress, x.Amount = "t-1", "0xt1", "u-1", "TOne", amount(t, "7.10")
		deliver(x)
		r.clock.advance(time.Minute)
		if _, err := r.app.AddOrder(ctx, client.NewOrder{CallBackID: "o/1", TenantUserID: "u-1", Address: "TOut", ChainName: "TRON", Symbol: "USDT", Amount: amount(t, "7.1")}); err != nil {
			t.Fatal(err)
		}
		r.clock.advance(time.Minute)
		deliver(told("c1", "u-2", "TRON", "TOld", "TNew"))
		refused := countersigntest.Deposit(1)
		refused.TrackingID, refused.TxID = "t-1", "0xother" // other content
		r.deliver(refused)
		for _, c := range []struct {
			text string
			want []string
		}{
			{" t-1\t", []string{"refused 1 trackingId", "deposit 1 trackingId"}}, {"0xt1", []string{"deposit 1 txId"}}, {"TOne", []string{"deposit 1 address"}},
			{"u-1", []string{"order o/1 tenantUserId", "deposit 1 tenantUserId"}}, {"o/1", []string{"order o/1 id"}}, {"TOut", []string{"order o/1 address"}},
			{"07.1", nil}, {"TNew", []string{"address 1 address"}}, {"TOld", []string{"address 1 address"}},
			{"1", []string{"refused 1 id", "address 1 id", "deposit 1 id"}}, {"01", nil}, {"+1", nil},
			{"nothing", nil}, {"%", nil}, {"' OR 1=1 --", nil}, {strings.Repeat("ü", 512), nil}, {"99999999999999999999", nil},
		} {
			found, err := r.client.Search(ctx, c.text)
			if err != nil {
				t.Fatalf("%q: %v", c.text, err)
			}
			var got []string
			for _, f := range found.Items {
				got = append(got, fmt.Sprint(f.Kind, " ", f.ID, " ", f.Matched))
			}
			if want := c.want; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
				t.Errorf("%q finds %q, want %q", c.text, got, want)
			}
		}
	})
}
