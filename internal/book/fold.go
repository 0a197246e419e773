package book

import (
	"context"

	"countersign"
	"countersign/internal/db"
	"countersign/merchant"
)

const (
	spelledDepositsSQL = `
SELECT seq, tracking_id, tx_id, chain_name, symbol, to_address FROM deposits WHERE seq > $1 ORDER BY seq LIMIT 1000`

	foldTransferSQL = `UPDATE inbox SET transfer = $3 WHERE type = $1 AND id = $2`
)

// foldTransfers gives every deposit in the inbox the digest of its transfer as
// merchant.NewEntry makes it now. The ones that earlier releases made let a
// deposit that is told again in another spelling pass for a new one (PROTOCOL.md,
// I3). Every deposit is in the table of deposits, since recording it is its effect.
func foldTransfers(ctx context.Context, q db.Querier) error {
	for after, more := int64(0), true; more; {
		var updates []db.Statement
		err := db.Each(ctx, q, spelledDepositsSQL, []any{after}, func(r db.Rows) error {
			var d countersign.Deposit
			if err := r.Scan(&after, &d.TrackingID, &d.TxID, &d.ChainName, &d.Symbol, &d.ToAddress); err != nil {
				return err
			}
			e := merchant.NewEntry(&d)
			updates = append(updates, db.Statement{SQL: foldTransferSQL, Args: []any{int64(countersign.TypeDeposited), e.ID, transferOf(&e)}})
			return nil
		})
		if err == nil {
			err = q.Batch(ctx, updates)
		}
		if err != nil {
			return err
		}
		more = len(updates) > 0
	}
	return nil
}
