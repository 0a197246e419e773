package demo

import (
	"context"
	"fmt"
	"time"

	"countersign"
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

// checkNotices compares the merchant's events and orders with the service's notices.
func (d *Demo) checkNotices(ctx context.Context) error {
	want := map[client.EventKind]int{client.EventAddressChanged: 1}
	for _, o := range d.asked {
		switch {
		case o.permit == "" && (o.ordered == "" ||
			o.person == "decline"): // the merchant has no order, or had declined it itself
		case o.permit == "", o.fails:
			want[client.EventOrderEnded]++
		default:
			want[client.EventOrderExecuted]++
		}
		if o.permit != "" && o.waits {
			for _, what := range client.Values[client.WaitingFor]() {
				if what.Type().Effect() == countersign.EffectWaiting {
					want[client.EventOrderWaiting]++
				}
			}
		}
	}
	got := map[client.EventKind]int{}
	for after := int64(0); ; {
		list, err := d.gateway.Book().Events(ctx, after, 1000)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for _, e := range list {
			after = e.Seq
			got[e.Kind]++
		}
	}
	holds, note := true, ""
	for _, kind := range []client.EventKind{client.EventAddressChanged, client.EventOrderWaiting,
		client.EventOrderExecuted, client.EventOrderEnded} {
		holds = holds && got[kind] == want[kind]
		note += fmt.Sprintf(", %s %d", kind, got[kind])
	}
	d.check("merchant's feed of events: what the notices said, once", holds, note[2:])
	return nil
}
