package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// eachMost is how many rows one read of EachDeposit or EachWithdrawal takes. It keeps reads short.
const eachMost = 1000

const (
	depositColumns = `
SELECT c.merchant, c.id, c.tracking_id, c.payload,
	COALESCE((SELECT o.state FROM outbox o WHERE o.merchant = c.merchant AND o.id = c.id), 'accepted'),
	COALESCE((SELECT o.repeated FROM outbox o WHERE o.merchant = c.merchant AND o.id = c.id), 0)
FROM callbacks c`

	eachDepositSQL = depositColumns + ` WHERE (c.merchant, c.id) > ($1, $2) AND c.type = 1 ORDER BY c.merchant, c.id LIMIT CAST($3 AS BIGINT)`
	depositsOfSQL  = depositColumns + ` WHERE c.merchant = $1 AND c.id > $2 AND c.type = 1 ORDER BY c.id LIMIT CAST($3 AS BIGINT)`

	fromWithdrawals   = `SELECT ` + withdrawalColumns + ` FROM withdrawals w WHERE (w.merchant, w.id) > ($1, $2)`
	byMerchantAndID   = ` ORDER BY w.merchant, w.id LIMIT CAST($3 AS BIGINT)`
	eachWithdrawalSQL = fromWithdrawals + byMerchantAndID
	eachRestoredSQL   = fromWithdrawals + ` AND w.restored <> 0` + byMerchantAndID
)

// SentDeposits lists the deposits of the merchants of, by merchant and then by time, beginning after cursor. A single
// empty text in of means all merchants. next is empty at the end.
func (o *Outbox) SentDeposits(ctx context.Context, of []string, cursor string, limit int) (list []client.SentDeposit, next string, err error) {
	var from db.Place
	if cursor != "" {
		if from, err = cursorPlace(cursor); err != nil {
			return nil, "", err
		}
	}
	for _, merchant := range slices.Sorted(slices.Values(of)) {
		text, args := eachDepositSQL, []any{from.Owner, from.ID}
		switch {
		case merchant == "":
		case merchant < from.Owner:
			continue
		case merchant > from.Owner:
			text, args = depositsOfSQL, []any{merchant, ""}
		default:
			text = depositsOfSQL
		}
		err := db.Each(ctx, o, text, append(args, limit-len(list)), func(r db.Rows) error {
			var d client.SentDeposit
			var id string
			var payload []byte
			var repeated int64
			if err := r.Scan(&d.Merchant, &id, &d.TrackingID, &payload, &d.State, &repeated); err != nil {
				return err
			}
			d.ID, d.Repeated = joinID(d.Merchant, id), repeated == 1
			var said struct {
				Symbol string
				Amount countersign.Amount
			}
			if err := json.Unmarshal(payload, &said); err != nil {
				return fmt.Errorf("deposit %s: %w", d.ID, err)
			}
			d.Symbol, d.Amount = said.Symbol, said.Amount
			list = append(list, d)
			return nil
		})
		if err != nil {
			return nil, "", err
		}
		if len(list) == limit {
			return list, list[limit-1].ID, nil
		}
	}
	return list, "", nil
}

// EachDeposit calls fn for every deposit of a merchant, or of all by merchant if it is empty. fn may use o.
func (o *Outbox) EachDeposit(ctx context.Context, merchant string, fn func(client.SentDeposit) error) error {
	return eachOf(func(cursor string) ([]client.SentDeposit, string, error) {
		return o.SentDeposits(ctx, []string{merchant}, cursor, eachMost)
	}, fn)
}

// eachOf calls fn for every item of a list's pages.
func eachOf[T any](page func(cursor string) (list []T, next string, err error), fn func(T) error) error {
	for cursor := ""; ; {
		list, next, err := page(cursor)
		if err != nil {
			return err
		}
		for _, v := range list {
			if err := fn(v); err != nil {
				return err
			}
		}
		if cursor = next; next == "" {
			return nil
		}
	}
}

// EachWithdrawal calls fn for every withdrawal, by merchant. fn may use o.
func (o *Outbox) EachWithdrawal(ctx context.Context, fn func(Withdrawal) error) error {
	return o.eachWithdrawal(ctx, eachWithdrawalSQL, fn)
}

// EachRestored calls fn for every withdrawal from before a restore whose fate nobody has stated yet. fn may use o.
func (o *Outbox) EachRestored(ctx context.Context, fn func(Withdrawal) error) error {
	return o.eachWithdrawal(ctx, eachRestoredSQL, fn)
}

func (o *Outbox) eachWithdrawal(ctx context.Context, text string, fn func(Withdrawal) error) error {
	merchant, id := "", ""
	for {
		list, err := db.List(ctx, o, text, []any{merchant, id, eachMost}, readWithdrawal)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, w := range list {
			if err := fn(w); err != nil {
				return err
			}
		}
		if merchant, id, err = splitID(list[len(list)-1].ID); err != nil {
			return err
		}
	}
}
