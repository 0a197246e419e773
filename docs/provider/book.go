//go:build ignore

// Books a deposit and its row for the relay in one transaction; docs/provider/relay.md says how.
package main

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("CORE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	deposit := map[string]any{
		"merchant": "shop", "trackingId": "go-1", "tenantUserId": "65515",
		"chainName": "ETH", "symbol": "WETH", "amount": "7.400", // a string, never a float64
		"txId": "0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14", "txIndex": 5,
		"fromAddress": "0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b", "toAddress": "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c",
		"riskLevelFrom": 44, "riskLevelTo": 40,
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO booked (tracking_id, amount) VALUES ($1, 7.400)`, deposit["trackingId"]); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO countersign_outbox (kind, body) VALUES ('deposit', $1)`, deposit)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
