package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLeft: what the core says that it added, and how it ended, is only sent again; what the merchant
// alone has, and what both sides say differently, a person decides.
func TestLeft(t *testing.T) {
	added := Finding{Finding: AddedUnknown, Merchant: "shop", TrackingID: "d-1"}
	question := Finding{Finding: AddedUnknown, Merchant: "shop", CallBackID: "w-1"}
	outcome := Finding{Finding: OutcomeUnknown, Merchant: "shop", CallBackID: "w-2"}
	alone := Finding{Finding: BookedNotSent, Merchant: "shop", TrackingID: "d-2"}
	others := Finding{Finding: BookedNotSent, Merchant: "other", TrackingID: "d-1"}
	differs := Finding{Finding: EndDiffers, Merchant: "shop", CallBackID: "w-1"}
	open, again := Left([]Finding{
		{Finding: BookedNotSent, Merchant: "shop", TrackingID: "d-1"}, added, question, {Finding: ConfirmedUnknown, Merchant: "shop", CallBackID: "w-1"},
		outcome, alone, others, differs, {Finding: SentNotBooked, Merchant: "shop", TrackingID: "d-3", Settled: true},
	})
	if diff := cmp.Diff([]Finding{alone, others, differs}, open); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Finding{added, question, outcome}, again); diff != "" {
		t.Error(diff)
	}
}
