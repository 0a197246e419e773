package proof

import (
	"context"
	"errors"
	"fmt"

	"countersign"
	"countersign/client"
)

// policyFile are the gateway's rules: a person looks at some orders, each user may spend so
// much of one currency a day, and all together so much of another a minute. What is above a
// limit is refused for good: asked for anew a minute later, or by a gateway that forgot what
// it confirmed, it would be confirmed.
const policyFile = `default = "allow"
self-approval = true

[[rule]]
name = "person"
labels = ["ask"]
effect = "ask"

[[limit]]
name = "user"
symbol = "USDC"
max = "100"
window = "24h"
per = "tenant"

[[limit]]
name = "minute"
symbol = "DAI"
max = "150"
window = "1m"
`

// The limits of policyFile.
const (
	userMost   = "100"
	minuteMost = "150"
	minute     = 60_000 // milliseconds
)

func numberOf(id string) (n int) {
	_, _ = fmt.Sscanf(id[1:], "%d", &n)
	return n
}

// orderOf are the details of the withdrawal with a number, as both ends know them.
func orderOf(callBackID string) countersign.Details {
	n := numberOf(callBackID)
	a, err := countersign.ParseAmount(fmt.Sprintf("%d.%018d", 10+n%7, n*7919+1))
	if err != nil {
		panic(err)
	}
	return countersign.Details{Address: "T" + callBackID, ChainName: "TRON", Symbol: []string{"USDT", "USDC", "DAI"}[n%3], Amount: a}
}

// tenantOf returns the user of a withdrawal. Two users withdraw at a time, and then two others.
func tenantOf(callBackID string) string {
	n := numberOf(callBackID)
	return fmt.Sprint("user-", n/120*2+n%2)
}

// ordered reports whether the merchant knows the withdrawal: one in five it refuses.
func ordered(callBackID string) bool { return numberOf(callBackID)%5 != 0 }

// asksPerson reports whether the gateway holds an order for a person.
func asksPerson(callBackID string) bool { n := numberOf(callBackID); return n%3 == 0 && n%4 < 2 }

// transferOf returns the number of the transfer that a deposit is. One deposit in nine repeats
// the one before it under another trackingId: one of the two must be credited.
func transferOf(n int) int {
	if n%9 == 4 {
		return n - 1
	}
	return n
}

// unnumbered reports whether a deposit is another transfer of the transaction of the one
// before it, and does not say which: it looks like it, and both must be credited.
func unnumbered(n int) bool { return n%9 == 7 }

// ahead is how many orders the application has given the gateway before the core asks.
const ahead = 100

// Order has the application order what the core will ask for next. What was refused as
// unknown before is not ordered any more. An error is that of a call; Order goes on from
// there.
func (ch *Chain) Order(ctx context.Context) error {
	if ch.gateway == nil {
		return nil
	}
	var last int
	if err := ch.core.QueryRowContext(ctx, `SELECT last_value FROM core_ids`).Scan(&last); err != nil {
		return err
	}
	for ; ch.truth.asked < last/4+ahead; ch.truth.asked++ {
		id := fmt.Sprint("W", ch.truth.asked)
		if !ordered(id) || ch.truth.orders[id].state != "" && !ch.truth.ordered[id] {
			continue
		}
		if err := ch.orderOne(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (ch *Chain) orderOne(ctx context.Context, id string) error {
	d := orderOf(id)
	o := client.NewOrder{CallBackID: id, TenantUserID: tenantOf(id), Address: d.Address, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount}
	if asksPerson(id) {
		o.Labels = map[string]string{"ask": "yes"}
	}
	ch.truth.ordered[id] = true // also if the answer is lost
	_, err := ch.gateway.AddOrder(ctx, o)
	if errors.Is(err, client.ErrConflict) { // the service asked before, and it is unknown for good
		delete(ch.truth.ordered, id)
		err = nil
	}
	return err
}

// orderAgain orders what a restored gateway lost.
func (ch *Chain) orderAgain(ctx context.Context, list []finding) error {
	for _, f := range list {
		if f.Finding != "added_unknown" || f.CallBackID == "" || !ch.truth.ordered[f.CallBackID] {
			continue
		}
		if err := ch.repeat(func() error { return ch.orderOne(ctx, f.CallBackID) }); err != nil {
			return err
		}
	}
	return nil
}
