package gateway

import (
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
)

// TestCopiesOfADeposit: what may be one transfer under another trackingId is held, however the
// copy spells it, also with another txIndex or a renamed chain; another amount at another index of
// the same transaction is another transfer.
func TestCopiesOfADeposit(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for _, c := range []struct {
		name   string
		change func(d *countersign.Deposit)
		held   bool
	}{
		{"another index", func(d *countersign.Deposit) { d.TxIndex += 4 }, true},
		{"another index and amount", func(d *countersign.Deposit) { d.TxIndex += 4; d.Amount, _ = countersign.ParseAmount("77") }, false},
		{"more zeros", func(d *countersign.Deposit) {
			d.TxIndex += 4
			d.Amount, _ = countersign.ParseAmount(d.Amount.String() + "000")
		}, true},
		{"renamed chain", func(d *countersign.Deposit) { d.ChainName = "SOMECHAIN" }, true},
		{"renamed symbol", func(d *countersign.Deposit) { d.Symbol = "TOKEN" }, true},
		{"no-break space", func(d *countersign.Deposit) { d.TxID += "\u00a0" }, true},
		{"byte order mark", func(d *countersign.Deposit) { d.ToAddress = "\ufeff" + d.ToAddress }, true},
		{"another address", func(d *countersign.Deposit) { d.ToAddress = "0x52908400098527886e0f7030069857d2e4169ee7" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, d := range dialects {
				r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
				first := countersigntest.Deposit(1)
				first.TxID, first.TxIndex = hash, 5
				copied := *first
				copied.TrackingID += "-copy"
				c.change(&copied)
				for _, cb := range []*countersign.Deposit{first, &copied} {
					if got := r.deliver(cb); got != countersign.CodeAccepted {
						t.Fatalf("errCode %d", got)
					}
				}
				want := client.DepositTaken
				if c.held {
					want = client.DepositHeld
				}
				if list := r.allDeposits(); list[0].State != client.DepositTaken || list[1].State != want {
					t.Errorf("%s: %s, then %s, want %s", d.name, list[0].State, list[1].State, want)
				}
				if first := r.firstOf(2); c.held && first != "1" {
					t.Errorf("%s: the first is %q", d.name, first)
				}
			}
		})
	}
}
