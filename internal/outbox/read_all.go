package outbox

import (
	"context"
	"encoding/json"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// eachMost is how many rows one read of all rows takes, which keeps each read short.
const eachMost = 1000

// SentDeposits returns the deposits of the merchants of, page by page as Callbacks does.
func (o *Outbox) SentDeposits(ctx context.Context, of []string, cursor string,
	limit int) (list []client.SentDeposit, next string, err error) {
	found, next, err := o.Callbacks(ctx, of, client.CallbackFilter{Type: countersign.TypeDeposited}, limit, cursor)
	for _, c := range found {
		var said struct {
			Symbol string
			Amount countersign.Amount
		}
		if err := json.Unmarshal(c.Payload, &said); err != nil {
			return nil, "", fmt.Errorf("deposit %s: %w", c.ID, err)
		}
		list = append(list, client.SentDeposit{ID: c.ID, Merchant: c.Merchant, TrackingID: c.TrackingID, Symbol: said.Symbol,
			Amount: said.Amount, State: c.State, Repeated: c.Repeated})
	}
	return list, next, err
}

// EachDeposit calls fn for every deposit of a merchant, the newest first. An empty merchant means all. fn may use o.
func (o *Outbox) EachDeposit(ctx context.Context, merchant string, fn func(client.SentDeposit) error) error {
	return db.EachPage(func(cursor string) ([]client.SentDeposit, string, error) {
		return o.SentDeposits(ctx, []string{merchant}, cursor, eachMost)
	}, fn)
}

// EachWithdrawal calls fn for every withdrawal, the newest first. fn may use o.
func (o *Outbox) EachWithdrawal(ctx context.Context, fn func(Withdrawal) error) error {
	return db.EachPage(func(cursor string) ([]Withdrawal, string, error) {
		return o.Withdrawals(ctx, nil, client.WithdrawalFilter{}, eachMost, cursor)
	}, fn)
}

const restoredSQL = `SELECT ` + withdrawalColumns +
	` FROM withdrawals w WHERE w.restored <> 0 ORDER BY w.merchant, w.id`

// RestoredWithdrawals returns the withdrawals from before a restore of which nobody has said yet what became of them.
func (o *Outbox) RestoredWithdrawals(ctx context.Context) ([]Withdrawal, error) {
	return db.List(ctx, o, restoredSQL, nil, readWithdrawal)
}
