package book

import (
	"context"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/merchant"
)

// TestInbox holds the inbox to the rules of merchant.Inbox, with two processes
// where the database allows for two.
func TestInbox(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			countersigntest.CheckInbox(t, func() (one, other merchant.Inbox) {
				ends := pairAt(t, d.url(t))
				return ordered{ends[0]}, ordered{ends[1]}
			})
		})
	}
}

// ordered is a book in which every withdrawal that is asked about was ordered and confirmed:
// without that its book confirms nothing.
type ordered struct{ *Book }

func (b ordered) Claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	if e.Callback.CallbackType() == countersign.TypeRequestWithdraw {
		o := Order{Order: client.Order{CallBackID: e.ID, TenantUserID: e.Callback.User(), State: client.OrderConfirmed}}
		err := b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			_, err := insertOrder(ctx, t, o)
			return err
		})
		if err != nil {
			return merchant.Claimed{}, err
		}
	}
	return b.Book.Claim(ctx, e)
}
