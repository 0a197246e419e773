package proof

import (
	"context"
	"errors"
	"fmt"

	"countersign"
	"countersign/client"
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

// tenantOf returns the user of a withdrawal.
func tenantOf(callBackID string) string {
	return fmt.Sprint("user-", numberOf(callBackID)%7)
}

// ordered reports whether the merchant knows the withdrawal: one in five it refuses.
func ordered(callBackID string) bool { return numberOf(callBackID)%5 != 0 }

// ahead is how many orders the application has given the gateway before the core asks.
const ahead = 100

// Order has the application order what the core will ask for next. An error is that of a call;
// Order goes on from there.
func (ch *Chain) Order(ctx context.Context) error {
	if ch.gateway == nil {
		return nil
	}
	var last int
	if err := ch.core.QueryRowContext(ctx, `SELECT last_value FROM core_ids`).Scan(&last); err != nil {
		return err
	}
	for ; ch.asked < last/4+ahead; ch.asked++ {
		id := fmt.Sprint("W", ch.asked)
		if !ordered(id) {
			continue
		}
		d := orderOf(id)
		o := client.NewOrder{CallBackID: id, TenantUserID: tenantOf(id), Address: d.Address, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount}
		if _, err := ch.gateway.AddOrder(ctx, o); err != nil && !errors.Is(err, client.ErrConflict) { // which the service asked for before: unknown for good
			return err
		}
	}
	return nil
}
