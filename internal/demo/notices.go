package demo

import (
	"context"
	"fmt"
	"time"

	"countersign/client"
	"countersign/internal/db"
)

// replaceAddress tells the merchant twice, under one changeId, that the address of the first deposit was replaced. The
// merchant gets one notice, which a person there accepts.
func (d *Demo) replaceAddress(ctx context.Context) error {
	old := d.deposits[0]
	for range 2 {
		if _, err := d.api.AddAddress(ctx, client.NewAddress{
			Merchant: merchantID, ChangeID: "demo-address-1", TenantUserID: old.TenantUserID, ChainName: old.ChainName,
			Symbol:    old.Symbol,
			ToAddress: old.ToAddress, NewAddress: fmt.Sprintf("0x%040x", 0xadd7e55),
		}); err != nil {
			return err
		}
	}
	if err := d.settled(ctx, nil); err != nil {
		return err
	}
	held, _, err := d.gateway.Book().Addresses(ctx, client.AddressFilter{State: client.AddressHeld}, 10, 0)
	if err != nil || len(held) != 1 {
		return fmt.Errorf("held addresses: %d, %w", len(held), err)
	}
	_, err = d.gateway.Book().DecideAddress(ctx, held[0].Seq, client.AddressAccepted, "a person", "seen in the demo",
		db.MillisOf(time.Now()))
	return err
}
