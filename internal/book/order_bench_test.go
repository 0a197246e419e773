package book

import (
	"context"
	"fmt"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// fillConfirmed puts n confirmed orders of one symbol and user into the book, spread
// evenly over the day that ends at end.
func fillConfirmed(tb testing.TB, m *Book, n int, end db.Millis) {
	tb.Helper()
	const insert = `INSERT INTO orders (call_back_id, tenant_user_id, address, chain_name, symbol, folded_symbol, amount, labels, expires, state,
	created, updated, confirmed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`
	many := db.NewInsert(insert, insertSizes...)
	for from := 0; from < n; from += 3200 {
		err := m.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			var fresh []any
			l := ledger{}
			for i := from; i < min(n, from+3200); i++ {
				o := Ordered(testOrder(fmt.Sprint("filled", i), "12.345678"), "", 1)
				o.Confirmed = end - 86_400_000 + db.Millis(i)*86_400_000/db.Millis(n)
				l.spent(o)
				fresh = append(fresh, o.CallBackID, o.TenantUserID, o.Address, o.ChainName, o.Symbol,
					countersign.FoldSymbol(o.Symbol), o.Amount.String(), "", int64(db.Never), string(client.OrderConfirmed), int64(1), int64(1), int64(o.Confirmed))
			}
			if err := t.Batch(ctx, many.Statements(fresh, nil)); err != nil {
				return err
			}
			return l.writeSpent(ctx, t)
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkConfirm confirms orders under a limit on the sum of a day in which
// 100,000 others were confirmed.
func BenchmarkConfirm(b *testing.B) {
	const now db.Millis = 1_800_000_000_000
	huge, err := countersign.ParseAmount("1000000000000")
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range dialects {
		for _, n := range []int{0, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", d.name, n), func(b *testing.B) {
				m := New(openAt(b, d.url(b)), Config{})
				fillConfirmed(b, m, n, now)
				for i := range b.N {
					if _, _, err := m.AddOrder(ctx, testOrder(fmt.Sprint("o", i), "1"), "", 1); err != nil {
						b.Fatal(err)
					}
				}
				b.ResetTimer()
				for i := range b.N {
					since := now - 86_400_000 + 12_345
					if _, err := m.Spent(ctx, "USDT", "", since); err != nil {
						b.Fatal(err)
					}
					c := OrderChange{CallBackID: fmt.Sprint("o", i), TenantUserID: "7", From: client.OrderOpen, To: client.OrderConfirmed,
						Ceilings: []Ceiling{{Since: since, Max: huge}}}
					if _, err := m.ChangeOrder(ctx, c, now); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
