package book

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/db"
)

// TestFind: deposits and orders by address, transaction and time, exactly and on pages that
// lead to all of them, with numbers that jump and clocks that differ.
func TestFind(t *testing.T) {
	const hostile = "T%_'\u202e🦊"
	eachBook(t, func(t *testing.T, b *Book) {
		if list, next, err := b.SearchDeposits(ctx, client.DepositSearch{Since: 1, Until: 2}, 10, 0); len(list) != 0 || next != 0 || err != nil {
			t.Fatal(list, next, err)
		}
		const rows, minute = 700, 60_000
		made := func(i int) db.Millis { // a minute a row, the odd ones of a clock that is 2 s ahead
			return db.Millis(1_000_000 + minute*i + i%2*2000)
		}
		long := strings.Repeat("a", 70)
		err := b.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			for i := range rows {
				seq, to := int64(i+1), fmt.Sprint("T", i%7)
				if i >= 400 {
					seq += 28_132_443_000_000 // a new epoch
				}
				switch i {
				case 5:
					to = hostile
				case 6:
					to = long + "1"
				case 8:
					to = long + "2"
				}
				if _, err := x.Exec(ctx, `INSERT INTO deposits (seq, tracking_id, tenant_user_id, tx_id, chain_name, symbol, amount, from_address, to_address, risk_from, risk_to, tx_index, business, state, taken)
					VALUES ($1, $2, 'u', $3, 'c', 's', '1', '', $4, 0, 0, 1, 0, 'taken', $5)`, seq, fmt.Sprint("d", i), fmt.Sprint("x", i), to, int64(made(i))); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		find := func(f client.DepositSearch, limit int) (got []string, pages int) {
			t.Helper()
			for before := int64(0); ; {
				list, next, err := b.SearchDeposits(ctx, f, limit, before)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range list {
					got = append(got, d.TrackingID)
				}
				if pages++; next == 0 {
					return got, pages
				}
				before = next
			}
		}
		want := func(from, below, step int) (list []string) {
			for i := below - 1; i >= from; i-- {
				if (i-from)%step == 0 {
					list = append(list, fmt.Sprint("d", i))
				}
			}
			return list
		}
		for i, c := range []struct {
			f    client.DepositSearch
			want []string
		}{
			{client.DepositSearch{}, want(0, rows, 1)},
			{client.DepositSearch{Since: made(300), Until: made(500)}, want(300, 500, 1)},
			{client.DepositSearch{Since: made(699)}, want(699, rows, 1)},
			{client.DepositSearch{Until: made(1)}, want(0, 1, 1)},
			{client.DepositSearch{Until: 1}, nil},
			{client.DepositSearch{Since: db.Never - 1}, nil},
			{client.DepositSearch{Since: made(401) + 1, Until: made(402)}, nil},
			{client.DepositSearch{Address: hostile}, []string{"d5"}},
			{client.DepositSearch{Address: "T%"}, nil},
			{client.DepositSearch{Address: long + "2"}, []string{"d8"}},
			{client.DepositSearch{Address: long}, nil},
			{client.DepositSearch{Address: "T3", Since: made(10), Until: made(24)}, []string{"d17", "d10"}},
			{client.DepositSearch{Address: "T3", TxID: "x10", TenantUserID: "u"}, []string{"d10"}},
			{client.DepositSearch{Address: "T3", TxID: "x11"}, nil},
			{client.DepositSearch{Address: "T\x00"}, nil},
		} {
			for _, limit := range []int{7, 1000} {
				if got, _ := find(c.f, limit); !slices.Equal(got, c.want) {
					t.Errorf("%d: %+v finds %v, want %v", i, c.f, got, c.want)
				}
			}
		}
		// A time far back is found by its numbers: not through pages of what is newer.
		if _, pages := find(client.DepositSearch{Until: made(10)}, 100); pages != 1 {
			t.Errorf("%d pages", pages)
		}

		for i := range 20 {
			if _, _, err := b.AddOrder(ctx, testOrder(fmt.Sprint("o", i), "1"), "", db.Millis(1000+100_000*i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			_, err := x.Exec(ctx, `UPDATE orders SET tx_id = 'x3' WHERE call_back_id = 'o3'`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			f    client.OrderFilter
			want string
		}{
			{client.OrderFilter{TxID: "x3"}, "[o3]"},
			{client.OrderFilter{TxID: "x3", State: client.OrderHeld}, "[]"},
			{client.OrderFilter{TxID: "x%"}, "[]"},
			{client.OrderFilter{TxID: "x\x00"}, "[]"},
			{client.OrderFilter{Since: 301_000, Until: 601_000}, "[o5 o4 o3]"},
			{client.OrderFilter{State: client.OrderOpen, Until: 201_000}, "[o1 o0]"},
		} {
			list, _, err := b.Orders(ctx, c.f, 100, 0)
			got := []string{}
			for _, o := range list {
				got = append(got, o.CallBackID)
			}
			if err != nil || fmt.Sprint(got) != c.want {
				t.Errorf("%d: %+v finds %v, %v, want %s", i, c.f, got, err, c.want)
			}
		}
		if from, below, err := db.NumbersBetween(ctx, b, "orders", "created", 1_000_000_000, 0); err != nil || from == 0 || below != 0 {
			t.Errorf("behind all: %d, %d, %v", from, below, err)
		}
	})
}
