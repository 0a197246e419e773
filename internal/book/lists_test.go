package book

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/merchant"
)

// TestListPlans asks the planner of both databases: every list reads an index in its
// order, and nothing is sorted but the few entries of one identifier.
func TestListPlans(t *testing.T) {
	eachBook(t, func(t *testing.T, b *Book) {
		fillForPlans(t, b)
		check := func(what string, sorted bool, text string, args []any, indexes ...string) {
			t.Helper()
			got := endtest.Plan(t, b.DB, text, args)
			served := slices.ContainsFunc(indexes, func(i string) bool { return strings.Contains(got, i) })
			whole := strings.Contains(got, "SCAN") && len(args) > 1 && !strings.Contains(got, "SCAN inbox USING INDEX") || strings.Contains(got, "Seq Scan")
			sorts := strings.Contains(got, "TEMP B-TREE") || strings.Contains(got, "Sort Key")
			if !served || whole && !slices.Contains(indexes, "SCAN") || sorts && !sorted {
				t.Errorf("%s: want one of %q, in order\n%s\n%s", what, indexes, text, got)
			}
		}
		list := func(what, table, columns string, q *db.Conditions, sorted bool, indexes ...string) {
			t.Helper()
			if q.Filtered() {
				text, args := db.NumberedEnd(table, q, 0)
				check(what, sorted, text, args, indexes...)
				q.Add("seq >= ?", 1)
			}
			text := db.NumberedText(table, columns, q, 10)
			check(what, sorted, text, q.Args, indexes...)
		}
		for _, before := range []int64{0, 7} {
			for _, typ := range []countersign.Type{0, countersign.TypeDeposited, countersign.TypeNotEnoughHotMoney} {
				for k := range 8 {
					f := client.InboxFilter{Type: typ}
					indexes := []string{"inbox_pkey", "INTEGER PRIMARY KEY", "SCAN"}
					if typ > countersign.TypeDeposited {
						indexes = []string{"inbox_type"}
					}
					if k&4 != 0 {
						f.Settled, indexes = "false", []string{"inbox_open"}
					}
					if k&2 != 0 {
						f.CallBackID, indexes = "o1", []string{"inbox_order"}
					}
					if k&1 != 0 {
						f.ID, indexes = "i1", []string{"sqlite_autoindex_inbox_1", "inbox_id_type_call_back_id_key"}
					}
					list(fmt.Sprintf("%+v before %d", f, before), "inbox", inboxColumns, conditions(before, inboxMembers(f)), f.ID != "", indexes...)
				}
			}
			columns := map[string]string{"orders": orderColumns, "deposits": depositColumns, "addresses": addressColumns}
			whole := []string{"_pkey", "INTEGER PRIMARY KEY", "SCAN"}
			for _, c := range []struct {
				table   string
				members []member
				indexes []string
			}{
				{"orders", orderMembers(client.OrderFilter{}), whole},
				{"orders", orderMembers(client.OrderFilter{Since: 5, Until: 9}), whole},
				{"orders", orderMembers(client.OrderFilter{State: client.OrderHeld}), []string{"orders_state"}},
				{"orders", orderMembers(client.OrderFilter{TenantUserID: "u1"}), []string{"orders_user"}},
				{"orders", orderMembers(client.OrderFilter{TenantUserID: "u1", Since: 5}), []string{"orders_user"}},
				{"orders", orderMembers(client.OrderFilter{TenantUserID: "u1", State: client.OrderHeld}), []string{"orders_user"}},
				{"orders", orderMembers(client.OrderFilter{Address: "a1"}), []string{"orders_address"}},
				{"orders", orderMembers(client.OrderFilter{Address: "a1", TenantUserID: "u1", State: client.OrderHeld}), []string{"orders_address"}},
				{"orders", orderMembers(client.OrderFilter{TxID: "x1"}), []string{"orders_tx"}},
				{"orders", orderMembers(client.OrderFilter{TxID: "x1", Address: "a1", TenantUserID: "u1", State: client.OrderHeld}), []string{"orders_tx"}},
				{"deposits", depositMembers(client.DepositSearch{}), whole},
				{"deposits", depositMembers(client.DepositSearch{Since: 5, Until: 9}), whole},
				{"deposits", depositMembers(client.DepositSearch{State: client.DepositHeld}), []string{"deposits_doubted"}},
				{"deposits", depositMembers(client.DepositSearch{TrackingID: "i1"}), []string{"deposits_tracking"}},
				{"deposits", depositMembers(client.DepositSearch{TrackingID: "i1", TenantUserID: "u1"}), []string{"deposits_tracking"}},
				{"deposits", depositMembers(client.DepositSearch{TxID: "x1", State: client.DepositHeld}), []string{"deposits_tx"}},
				{"deposits", depositMembers(client.DepositSearch{TenantUserID: "u1"}), []string{"deposits_user"}},
				{"deposits", depositMembers(client.DepositSearch{Address: "a1"}), []string{"deposits_address"}},
				{"deposits", depositMembers(client.DepositSearch{Address: "a1", TenantUserID: "u1", State: client.DepositTaken, Until: 9}), []string{"deposits_address"}},
				{"addresses", addressMembers(client.AddressFilter{Address: "a1"}), []string{"addresses_new"}},
				{"addresses", addressMembers(client.AddressFilter{OldAddress: "a1"}), []string{"addresses_old"}},
				{"addresses", addressMembers(client.AddressFilter{Address: "a1", TenantUserID: "u1", State: client.AddressHeld}), []string{"addresses_new"}},
				{"addresses", addressMembers(client.AddressFilter{TenantUserID: "u1", State: client.AddressHeld}), []string{"addresses_user"}},
				{"addresses", addressMembers(client.AddressFilter{State: client.AddressHeld}), []string{"addresses_state"}},
			} {
				list(fmt.Sprintf("%+v before %d", c.members, before), c.table, columns[c.table], conditions(before, c.members), false, c.indexes...)
			}
		}
		check("the first deposit of a transfer", true, firstOfTransferSQL, []any{"i1"}, "inbox_transfer")
		check("deposits", false, listDepositsSQL, []any{int64(1), int64(10)}, "INTEGER PRIMARY KEY", "deposits_pkey")
		searched := endtest.Plan(t, b.DB, searchSQL, []any{"x", "x", int64(1), int64(1), int64(1)})
		for _, index := range []string{"deposits_tracking", "deposits_tx", "deposits_user", "deposits_address", "orders_tx", "orders_user", "orders_address",
			"addresses_user", "addresses_new", "addresses_old"} {
			if !strings.Contains(searched, index) {
				t.Errorf("a search does not read by %s:\n%s", index, searched)
			}
		}
		if whole := regexp.MustCompile(`Seq Scan on (deposits|orders|addresses|inbox|events)|SCAN (deposits|orders|addresses|inbox|events)\b`).FindString(searched); whole != "" {
			t.Errorf("a search reads a whole table: %s\n%s", whole, searched)
		}
		for _, index := range []string{"inbox_open", "deposits_doubted", "addresses_state"} {
			check("what waits", false, waitingSQL, nil, index)
		}
		check("events", false, listEventsSQL, []any{int64(1), int64(10)}, "INTEGER PRIMARY KEY", "events_pkey")
		check("the oldest entry to forward", false, oldestForwardSQL, []any{feedEvents}, "PRIMARY KEY (feed=?", "forwards_pkey")
		check("entries sent in vain", false, failedForwardsSQL, []any{int64(10)}, "forwards_failed")
		check("entries to claim", false, dueForwardsSQL, []any{int64(1), int64(10)}, "forwards_due")
	})
}

// fillForPlans makes many rows: PostgreSQL's planner scans small tables, whatever there
// is for large ones.
func fillForPlans(t testing.TB, b *Book) {
	t.Helper()
	if !b.Dialect().ConcurrentWriters {
		return
	}
	ok(t, b.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		for _, text := range []string{
			`INSERT INTO inbox (seq, type, id, tenant_user_id, call_back_id, content, tx_index, duplicate, claims, lease_until, settled, created, ended)
				SELECT n, CASE WHEN n % 997 = 0 THEN 7 WHEN n % 5 = 0 THEN 2 ELSE 1 END, 'i' || n, 'u' || n % 300, CASE WHEN n % 5 = 0 THEN 'o' || n / 20 ELSE '' END,
				'', 1, 0, 0, 0, CASE WHEN n % 100 = 0 THEN 0 ELSE 1 END, n, n FROM generate_series(1, 20000) AS n`,
			`INSERT INTO orders (call_back_id, tenant_user_id, address, chain_name, symbol, amount, labels, expires, state, created, updated, tx_id)
				SELECT 'o' || n, 'u' || n % 300, 'a' || n % 5000, 'c', 's', '1', '', 9, CASE WHEN n % 50 = 0 THEN 'held' ELSE 'executed' END, n, n, 'x' || n FROM generate_series(1, 20000) AS n`,
			`INSERT INTO deposits (seq, tracking_id, tenant_user_id, tx_id, chain_name, symbol, amount, from_address, to_address, risk_from, risk_to, tx_index, business, state, taken)
				SELECT n, 'i' || n, 'u' || n % 300, 'x' || n, 'c', 's', '1', '', 'a' || n % 5000, 0, 0, 1, 0, CASE WHEN n % 500 = 0 THEN 'held' ELSE 'taken' END, n FROM generate_series(1, 20000) AS n`,
			`INSERT INTO counts SELECT 'orders/' || state, COUNT(*) FROM orders GROUP BY 1`,
		} {
			if _, err := x.Exec(ctx, text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	}))
	dbtest.Tidy(t, b.Dialect().Shared, b.Exec)
}

// checkKept compares the kept numbers with the rows. Every test ends with it.
func checkKept(t testing.TB, d *db.DB) {
	t.Helper()
	want, got := map[string]int64{}, map[string]int64{}
	ok(t, db.Each(ctx, d, `SELECT 'forwards', COUNT(*) FROM forwards
		UNION ALL SELECT 'orders/' || state, COUNT(*) FROM orders GROUP BY state`, nil, func(r db.Rows) error {
		var name string
		var n int64
		err := r.Scan(&name, &n)
		if n != 0 {
			want[name] = n
		}
		return err
	}))
	counts := must(db.Counts(ctx, d))(t)
	for name, n := range counts {
		if n != 0 {
			got[name] = n
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the kept numbers (+) are not those of the rows (-):\n%s", diff)
	}
}

// paged reads a list page by page and returns the ids of all its rows.
func paged[T any](t *testing.T, id func(T) string, page func(before int64) ([]T, int64, error)) (ids []string, pages int) {
	t.Helper()
	for before := int64(0); ; pages++ {
		list, next, err := page(before)
		ok(t, err)
		for _, row := range list {
			ids = append(ids, id(row))
		}
		if before = next; next == 0 {
			return ids, pages + 1
		}
	}
}

// TestFind: deposits, orders and the inbox by what people know of them, exactly and on pages that lead to all of them, with
// numbers that jump and clocks that differ.
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
		ok(t, b.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			for i := range rows {
				seq, to, tx := int64(i+1), fmt.Sprint("T", i%7), fmt.Sprint("x", i)
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
				case 12:
					tx = strings.Repeat("x", 100)
				case 13:
					tx = strings.Repeat("x", 4000) // the same beginning, and longer than an index of PostgreSQL holds
				}
				if _, err := x.Exec(ctx, `INSERT INTO deposits (seq, tracking_id, tenant_user_id, tx_id, chain_name, symbol, amount, from_address, to_address, risk_from, risk_to, tx_index, business, state, taken)
					VALUES ($1, $2, 'u', $3, 'c', 's', '1', '', $4, 0, 0, 1, 0, 'taken', $5)`, seq, fmt.Sprint("d", i), tx, to, int64(made(i))); err != nil {
					return err
				}
			}
			return nil
		}))
		find := func(f client.DepositSearch, limit int) (got []string, pages int) {
			t.Helper()
			return paged(t, func(d client.DepositEntry) string { return d.TrackingID }, func(before int64) ([]client.DepositEntry, int64, error) {
				return b.SearchDeposits(ctx, f, limit, before)
			})
		}
		want := func(from, below int) (list []string) {
			for i := below - 1; i >= from; i-- {
				list = append(list, fmt.Sprint("d", i))
			}
			return list
		}
		for i, c := range []struct {
			f    client.DepositSearch
			want []string
		}{
			{client.DepositSearch{}, want(0, rows)},
			{client.DepositSearch{Since: made(300), Until: made(500)}, want(300, 500)},
			{client.DepositSearch{Since: made(699)}, want(699, rows)},
			{client.DepositSearch{Until: made(1)}, want(0, 1)},
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
			{client.DepositSearch{TrackingID: "d7"}, []string{"d7"}},
			{client.DepositSearch{TrackingID: "d7", State: client.DepositHeld}, nil},
			{client.DepositSearch{TrackingID: "d7", State: client.DepositTaken}, []string{"d7"}},
			{client.DepositSearch{TenantUserID: "nobody"}, nil},
			{client.DepositSearch{TxID: strings.Repeat("x", 100)}, []string{"d12"}},
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
			o := testOrder(fmt.Sprint("o", i), "1")
			o.TenantUserID = fmt.Sprint("u", i%10)
			if _, _, err := b.AddOrder(ctx, o, "", db.Millis(1000+100_000*i)); err != nil {
				t.Fatal(err)
			}
		}
		ok(t, b.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			_, err := x.Exec(ctx, `UPDATE orders SET tx_id = 'x3' WHERE call_back_id = 'o3'`)
			return errors.Join(err, x.Batch(ctx, []db.Statement{db.EndFeed(feedDeposits, 30_000_000_000_000)}))
		}))
		for i := range 3 {
			for _, e := range []merchant.Entry{inboxDeposit(fmt.Sprint("i", i), fmt.Sprint("t", i), -1), question(fmt.Sprint("q", i))} {
				must(b.Claim(ctx, e))(t)
			}
		}
		for i, c := range []struct {
			orders client.OrderFilter
			inbox  client.InboxFilter // if there is one, this list is read
			want   string
		}{
			{orders: client.OrderFilter{TxID: "x3"}, want: "[o3]"},
			{orders: client.OrderFilter{TxID: "x3", State: client.OrderHeld}, want: "[]"},
			{orders: client.OrderFilter{TxID: "x%"}, want: "[]"},
			{orders: client.OrderFilter{TxID: "x\x00"}, want: "[]"},
			{orders: client.OrderFilter{TenantUserID: "u7"}, want: "[o17 o7]"},
			{orders: client.OrderFilter{Since: 301_000, Until: 601_000}, want: "[o5 o4 o3]"},
			{orders: client.OrderFilter{State: client.OrderOpen, Until: 201_000}, want: "[o1 o0]"},
			{inbox: client.InboxFilter{Type: countersign.TypeDeposited}, want: "[i2 i1 i0]"},
			{inbox: client.InboxFilter{Type: countersign.TypeRequestWithdraw}, want: "[q2 q1 q0]"},
			{inbox: client.InboxFilter{Settled: "false"}, want: "[q2 q1 q0]"},
			{inbox: client.InboxFilter{Settled: "false", ID: "i1"}, want: "[]"},
			{inbox: client.InboxFilter{ID: "i1"}, want: "[i1]"},
			{inbox: client.InboxFilter{CallBackID: "q1"}, want: "[q1]"},
		} {
			got, _ := paged(t, func(o Order) string { return o.CallBackID }, func(before int64) ([]Order, int64, error) {
				return b.Orders(ctx, c.orders, 2, before)
			})
			if c.inbox != (client.InboxFilter{}) {
				got, _ = paged(t, func(e client.InboxEntry) string { return e.ID }, func(before int64) ([]client.InboxEntry, int64, error) {
					return b.Entries(ctx, c.inbox, 2, before)
				})
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%d: %+v, %+v finds %v, want %s", i, c.orders, c.inbox, got, c.want)
			}
		}
		if from, below, err := db.NumbersBetween(ctx, b, "orders", "created", 1_000_000_000, 0); err != nil || from == 0 || below != 0 {
			t.Errorf("behind all: %d, %d, %v", from, below, err)
		}
	})
}
