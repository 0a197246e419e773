package outbox

import (
	"context"
	"encoding/json"
	"fmt"

	"countersign"
	"countersign/internal/db"
)

// eachMost is how many rows one read of EachDeposit or EachWithdrawal takes, so that no
// read is long.
const eachMost = 1000

const (
	eachDepositSQL = `
SELECT c.merchant, c.id, c.tracking_id, c.payload,
	COALESCE((SELECT o.state FROM outbox o WHERE o.merchant = c.merchant AND o.id = c.id), 'accepted')
FROM callbacks c WHERE (c.merchant, c.id) > ($1, $2) AND c.type = 1 ORDER BY c.merchant, c.id LIMIT CAST($3 AS BIGINT)`

	eachWithdrawalSQL = `
SELECT ` + withdrawalColumns + ` FROM withdrawals w WHERE (w.merchant, w.id) > ($1, $2) ORDER BY w.merchant, w.id LIMIT CAST($3 AS BIGINT)`
)

// ToldDeposit is a deposit and whether its merchant has accepted it.
type ToldDeposit struct {
	Merchant   string             `json:"-"`
	TrackingID string             `json:"trackingId"`
	Symbol     string             `json:"symbol"`
	Amount     countersign.Amount `json:"amount"`
	State      CallbackState      `json:"-"`
}

// EachDeposit calls fn for every deposit, by merchant.
func (o *Outbox) EachDeposit(ctx context.Context, fn func(ToldDeposit) error) error {
	merchant, id := "", ""
	for {
		n := 0
		err := db.Each(ctx, o, eachDepositSQL, []any{merchant, id, eachMost}, func(r db.Rows) error {
			var d ToldDeposit
			var payload []byte
			n++
			if err := r.Scan(&merchant, &id, &d.TrackingID, &payload, &d.State); err != nil {
				return err
			}
			if err := json.Unmarshal(payload, &d); err != nil {
				return fmt.Errorf("deposit %s: %w", joinID(merchant, id), err)
			}
			d.Merchant = merchant
			return fn(d)
		})
		if err != nil || n < eachMost {
			return err
		}
	}
}

// EachWithdrawal calls fn for every withdrawal, by merchant.
func (o *Outbox) EachWithdrawal(ctx context.Context, fn func(Withdrawal) error) error {
	merchant, id := "", ""
	for {
		n := 0
		err := db.Each(ctx, o, eachWithdrawalSQL, []any{merchant, id, eachMost}, func(r db.Rows) error {
			w, err := scanWithdrawal(r)
			if err != nil {
				return err
			}
			n++
			if merchant, id, err = splitID(w.ID); err != nil {
				return err
			}
			return fn(w)
		})
		if err != nil || n < eachMost {
			return err
		}
	}
}
