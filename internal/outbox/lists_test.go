package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

// filters are those that a list of callbacks may have.
func filters(yield func(f client.CallbackFilter) bool) {
	for _, merchant := range []string{"", "m0"} {
		for _, typ := range []countersign.Type{0, countersign.TypeDeposited, countersign.TypeNotEnoughHotMoney} {
			for _, state := range append(client.Values[client.CallbackState](), "") {
				for ids := range 8 {
					f := client.CallbackFilter{Merchant: merchant, Type: typ, State: state}
					for i, to := range []*string{&f.TrackingID, &f.CallBackID, &f.TxID} {
						if ids&(1<<i) != 0 {
							*to = "x"
						}
					}
					if !yield(f) {
						return
					}
				}
			}
		}
	}
}

// served lists filters with the index that serves each, of SQLite or of PostgreSQL.
var served = []struct {
	f       client.CallbackFilter
	indexes string
}{
	{client.CallbackFilter{}, "callbacks_recent"},
	{client.CallbackFilter{Merchant: "m0"}, "sqlite_autoindex_callbacks_1 (merchant=?|callbacks_pkey|(merchant = $1)"},
	{client.CallbackFilter{State: client.CallbackSending}, "outbox_lease"},
	{client.CallbackFilter{State: client.CallbackPending}, "outbox_waiting"},
	{client.CallbackFilter{State: client.CallbackPending, Merchant: "m0"}, "o USING PRIMARY KEY (merchant=?|outbox_pkey"},
	{client.CallbackFilter{State: client.CallbackRefused}, "outbox_ended"},
	{client.CallbackFilter{State: client.CallbackRefused, Merchant: "m0"}, "outbox_ended_of"},
	{client.CallbackFilter{Type: countersign.TypeNotEnoughHotMoney}, "callbacks_type"},
	{client.CallbackFilter{Type: countersign.TypeNotEnoughHotMoney, Merchant: "m0"}, "callbacks_type_of|(merchant = $1)"},
	{client.CallbackFilter{Type: countersign.TypeDeposited, TrackingID: "t"}, "sqlite_autoindex_callbacks_2|callbacks_merchant_event_id_type_key"},
	{client.CallbackFilter{Type: countersign.TypeWithdraw, TrackingID: "t"}, "callbacks_tracking"},
	{client.CallbackFilter{TrackingID: "t", CallBackID: "o"}, "callbacks_order"},
	{client.CallbackFilter{TxID: "x", TrackingID: "t", CallBackID: "o", State: client.CallbackRefused}, "callbacks_tx"},
	{client.CallbackFilter{TenantUserID: "u", Merchant: "m0", State: client.CallbackRefused}, "callbacks_user"},
	{client.CallbackFilter{Address: "a", TenantUserID: "u", Type: countersign.TypeDeposited, Since: 1, Until: 1 << 40}, "callbacks_address"},
}

// TestListPlans asks the planner of both databases: every list reads an index in its
// order, and nothing is sorted but what is bounded. Before, a list of pending callbacks
// sorted all of them.
func TestListPlans(t *testing.T) {
	endtest.Each(t, End(), func(t *testing.T, url string) {
		s := openAt(t, url)
		fillForPlans(t, s)
		plans := map[string]string{} // by the text: the arguments change none
		// check asks for the plan of a list, which reads one of indexes, or with none any.
		check := func(what string, sorted bool, text string, args []any, indexes ...string) {
			t.Helper()
			got, known := plans[text]
			if !known {
				got = endtest.Plan(t, s.DB, text, args)
				plans[text] = got
			}
			ok := len(indexes) == 0 || slices.ContainsFunc(indexes, func(i string) bool { return strings.Contains(got, i) })
			for line := range strings.Lines(got) {
				line = strings.TrimSpace(line)
				whole := strings.HasPrefix(line, "SCAN ") && !strings.Contains(line, "INDEX") || strings.Contains(line, "Seq Scan")
				sorts := strings.Contains(line, "TEMP B-TREE") || strings.Contains(line, "Sort Key")
				scans := strings.HasPrefix(line, "Join Filter") && strings.Contains(line, "= c.")
				if scans || whole && !strings.Contains(line, "merchants") && !strings.Contains(line, "SCAN o USING PRIMARY KEY") || sorts && !sorted {
					ok = false
				}
			}
			if !ok {
				t.Errorf("%s: want one of %q, in order\n%s\n%s", what, indexes, text, got)
			}
		}
		lists := func(what, columns string, ls []db.Listing, indexes ...string) {
			t.Helper()
			for _, l := range ls {
				if l.Bounded() {
					text, args := l.EndText()
					check(what, false, text, args, indexes...)
					l.DownTo(db.Place{ID: strings.Repeat("0", db.IDLength), Owner: "m0"})
				}
				check(what, l.Sorted, l.Text(columns, 10), l.Args, indexes...)
			}
		}
		for _, cursor := range []string{"", "m0." + strings.Repeat("0", db.IDLength), "a." + strings.Repeat("z", db.IDLength)} {
			for f := range filters {
				lists(fmt.Sprintf("%+v from %q", f, cursor), callbackColumns, must(callbackListings(nil, f, cursor))(t))
			}
			for _, c := range served {
				lists(fmt.Sprintf("%+v from %q", c.f, cursor), callbackColumns, must(callbackListings(nil, c.f, cursor))(t), strings.Split(c.indexes, "|")...)
			}
			for _, c := range []struct {
				f       client.WithdrawalFilter
				indexes []string
			}{
				{client.WithdrawalFilter{TenantUserID: "u"}, []string{"withdrawals_user"}},
				{client.WithdrawalFilter{Address: "a", TenantUserID: "u", Merchant: "m0"}, []string{"withdrawals_address"}},
				{client.WithdrawalFilter{TxID: "t", State: client.WithdrawalFailed}, []string{"withdrawals_tx"}},
				{client.WithdrawalFilter{}, []string{"withdrawals_recent"}},
				{client.WithdrawalFilter{Merchant: "m0"}, []string{"sqlite_autoindex_withdrawals_1 (merchant=?", "withdrawals_pkey", "(merchant = $1)"}},
				{client.WithdrawalFilter{State: client.WithdrawalFailed}, []string{"withdrawals_state"}},
				{client.WithdrawalFilter{State: client.WithdrawalFailed, Merchant: "m0"}, []string{"withdrawals_state_of", "(merchant = $1)"}},
			} {
				l := must(withdrawalListing(c.f, cursor))(t)
				lists(fmt.Sprintf("withdrawals of %+v from %q", c.f, cursor), withdrawalColumns, []db.Listing{l}, c.indexes...)
			}
		}
		for _, of := range [][]string{{""}, {"m0", "m1"}} {
			text, args := searchText(of, "x")
			plan := endtest.Plan(t, s.DB, text, args)
			for _, index := range []string{"callbacks_tracking", "callbacks_order", "callbacks_tx", "callbacks_user", "callbacks_address",
				"withdrawals_tx", "withdrawals_user", "withdrawals_address", "attempts_failed"} {
				if !strings.Contains(plan, index) {
					t.Errorf("a search does not read by %s:\n%s", index, plan)
				}
			}
			if whole := regexp.MustCompile(`Seq Scan on (callbacks|outbox|withdrawals|attempts)|SCAN (callbacks|withdrawals|attempts|[cow])\b`).FindString(plan); whole != "" {
				t.Errorf("a search reads a whole table: %s\n%s", whole, plan)
			}
		}
		one := []any{int64(1), int64(10)}
		check("decisions", false, listDecisionsSQL, one, "d USING INTEGER PRIMARY KEY", "decisions_pkey")
		check("merchants", false, listMerchantsSQL, []any{"m", int64(10)}, "sqlite_autoindex_merchants_1", "merchants_pkey")
		check("attempts", false, listAttemptsSQL, []any{"m", "x"}, "USING PRIMARY KEY", "attempts_pkey")
	})
}

// fillForPlans makes many rows of every kind: PostgreSQL's planner scans small tables,
// whatever there is for large ones.
func fillForPlans(t testing.TB, s *Outbox) {
	t.Helper()
	if !s.Dialect().ConcurrentWriters {
		return // SQLite plans without looking at the rows
	}
	addMerchants(t, s, 20, nil)
	ok(t, s.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		for _, text := range []string{
			`CREATE TEMP TABLE g AS SELECT 'm' || n % 20 AS merchant, lpad(n::text, 26, '0') AS id, n, (ARRAY[1, 1, 1, 1, 1, 2, 3, 5, 6])[1 + n % 9] AS type,
				(ARRAY['accepted', 'pending', 'refused', 'exhausted'])[1 + n % 4] AS state FROM generate_series(1, 10000) AS n`,
			`UPDATE g SET state = 'cancelled' WHERE n % 77 = 0`,
			`UPDATE g SET type = 7 WHERE n % 997 = 0`,
			`UPDATE g SET state = 'sending' WHERE n % 1000 = 0`,
			`INSERT INTO callbacks (merchant, id, type, event_id, tracking_id, tx_id, call_back_id, payload, deadline, created, tenant_user_id, address)
				SELECT merchant, id, type, 'e' || n, 't' || n / 3, 'x' || n / 3, CASE WHEN type > 1 THEN 'o' || n / 3 ELSE '' END, 'p', 0, 1, 'u' || n / 30, 'a' || n / 10 FROM g`,
			`INSERT INTO outbox (merchant, id, lane, state, due, lease_until, deadline, settled) SELECT merchant, id, CASE WHEN type = 2 THEN 1 ELSE 0 END, state, n,
				CASE WHEN state = 'sending' THEN 1 ELSE 0 END, 4611686018427387904, CASE WHEN state IN ('pending', 'sending') THEN 0 ELSE 1 END FROM g WHERE state <> 'accepted'`,
			`INSERT INTO attempts SELECT merchant, id, 1, 'u', 1, 1, 200, 0, 'accepted', 'accepted', 'n', '', '', 0, CASE WHEN state = 'accepted' THEN 1 ELSE 0 END, 1, 0
				FROM g WHERE state IN ('accepted', 'refused')`,
			`INSERT INTO withdrawals (merchant, id, call_back_id, tenant_user_id, tracking_id, business, state, deadline, created, confirmed_address, tx_id)
				SELECT merchant, id, 'o' || n, 'u' || n / 90, 't' || n, 0, CASE WHEN n % 97 = 0 THEN 'failed' ELSE 'executed' END, 1, 1, 'a' || n / 30, 'x' || n FROM g WHERE type = 2`,
			// The kept numbers, for the check at the end.
			`UPDATE lanes SET in_flight = (SELECT COUNT(*) FROM outbox o WHERE o.merchant = lanes.merchant AND o.lane = lanes.lane AND state = 'sending')`,
			`INSERT INTO counts SELECT CASE WHEN type = 2 THEN 'callbacks/withdraw/' ELSE 'callbacks/notify/' END || state, COUNT(*) FROM g WHERE state NOT IN ('pending', 'sending') GROUP BY 1`,
			`INSERT INTO counts SELECT CASE WHEN type = 2 THEN 'callbacks/withdraw' ELSE 'callbacks/notify' END, COUNT(*) FROM g GROUP BY 1`,
			`INSERT INTO counts SELECT 'withdrawals/' || state, COUNT(*) FROM withdrawals GROUP BY 1`,
			`DROP TABLE g`,
		} {
			if _, err := x.Exec(ctx, text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	}))
	dbtest.Tidy(t, s.Dialect().Shared, s.Exec)
}

// one returns one of list, or, three times out of four, what selects nothing.
func one[T any](r *rand.Rand, list ...T) (v T) {
	if r.IntN(4) > 0 {
		return v
	}
	return list[r.IntN(len(list))]
}

// pages returns what is on all pages of a list, which has most rows. Each page but the last is full, if full.
func pages[T any](t *testing.T, limit, most int, full bool, page func(cursor string) ([]T, string, error)) (all []T) {
	t.Helper()
	cursor := ""
	for range most + 10 {
		list, next, err := page(cursor)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
		if len(list) > limit || full && next != "" && len(list) < limit {
			t.Fatalf("%d of %d on a page", len(list), limit)
		}
		if cursor = next; next == "" {
			break
		}
	}
	return all
}

func errorOf[T any](_ []T, _ string, err error) error { return err }

// testLists: a list has those of all callbacks, or withdrawals, that its filter names, exactly, each once, the newest
// first, on full pages; where a page reads a part of the rows only, the pages lead to all of them nevertheless.
func testLists(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	const hostile = "u%_'\"\\–\u202e🦊"
	found := map[string][2]string{} // the user and the address of callbacks
	ended(t, s, "refused", client.CallbackRefused, 100)
	ended(t, s, "exhausted", client.CallbackExhausted, 101)
	settleAll(t, s, []Claimed{claimOne(t, s, "accepted", 102)}, 102)
	claimOne(t, s, "sending", 103)
	for i, d := range [][4]string{{"m0", "pending", "u1", "T1"}, {"m1", "accepted", "u1", "T2"}, {"m0", "c", hostile, "T1"}, {"m0", "d", "nul\x00\xff", "T3"}} {
		n := deposit(d[0], d[1], 104+db.Millis(i))
		n.TenantUserID, n.Address = d[2], d[3]
		id := must(s.Ingest(ctx, []NewCallback{n}, n.Due))(t)[0].ID
		found[id] = [2]string{strings.ReplaceAll(strings.ReplaceAll(d[2], "\x00", "\ufffd"), "\xff", "\ufffd"), d[3]}
	}
	notice := NewCallback{Merchant: "m1", Type: countersign.TypeWithdraw, EventID: "cb1", TrackingID: "accepted", TxID: "tx-refused", CallBackID: "cb1",
		Payload: []byte("n"), Due: 1, Deadline: db.Never}
	must(s.Ingest(ctx, []NewCallback{notice}, 110))(t)
	confirmed, _ := confirmedWithdrawal(t, s, "confirmed", 200) // was not ordered with details
	other := newWithdrawal("other", 500_000, nil)
	other.Merchant, other.TenantUserID = "m1", hostile
	withdrawals := []Withdrawal{confirmed, addWithdrawal(t, s, newWithdrawal("cb1", 500_000, someDetails(t, "1")), 300),
		addWithdrawal(t, s, newWithdrawal("gone", 500_000, nil), 301), addWithdrawal(t, s, other, 302)}
	must(s.CancelWithdrawal(ctx, withdrawals[2].ID, 303))(t)
	must(s.Release(ctx, confirmed.ID, Holder{"h", "core"}, "p", 304))(t)
	if _, _, err := s.RecordOutcome(ctx, confirmed.ID, executedBy(confirmed, "p", "tx-done", 305), 305); err != nil {
		t.Fatal(err)
	}
	for i, w := range withdrawals {
		found[w.ID] = [2]string{w.TenantUserID, targetOf(w.Ordered)}
		withdrawals[i] = must(s.Withdrawal(ctx, w.ID))(t)
	}

	r := rand.New(rand.NewPCG(1, 2))
	users, addresses := []string{"u1", "U1", "u%", hostile, "nul\ufffd\ufffd", "user", strings.Repeat("u", 100_000)}, []string{"T1", "T2", "TAddress", "taddress"}
	check := func(filters int, full bool) {
		all := must(db.List(ctx, s, `SELECT merchant, id FROM callbacks ORDER BY id DESC, merchant DESC`, nil, func(r db.Rows) (c Callback, err error) {
			var id string
			if err = r.Scan(&c.Merchant, &id); err == nil {
				c.ID = joinID(c.Merchant, id)
			}
			return c, err
		}))(t)
		for i := range all {
			all[i] = must(s.Callback(ctx, all[i].ID))(t)
			if all[i].TxID == "tx-done" {
				found[all[i].ID] = [2]string{"user", "TAddress"}
			}
		}
		slices.SortFunc(withdrawals, func(x, y Withdrawal) int { return strings.Compare(y.ID[3:], x.ID[3:]) })
		rows := [2]int{}
		for range filters {
			of, merchant := [][]string{nil, {"m0"}, {"m1", "m0"}}[r.IntN(3)], ""
			if of == nil {
				merchant = one(r, "m0", "m1", "nobody")
			}
			since, until := one[db.Millis](r, 102, 105, 300, 900), one[db.Millis](r, 1, 105, 110, 302)
			of1 := func(m string, created db.Millis) bool {
				return (of == nil || slices.Contains(of, m)) && (merchant == "" || m == merchant) && created >= since && (until == 0 || created < until)
			}
			is := func(want, value string) bool { return want == "" || want == value }
			f := client.CallbackFilter{Merchant: merchant, Since: since, Until: until,
				Type:       one(r, countersign.TypeDeposited, countersign.TypeWithdraw, countersign.TypeRequestWithdraw, countersign.TypeNotEnoughHotMoney),
				State:      one(r, client.Values[client.CallbackState]()...),
				TrackingID: one(r, "accepted", "refused", "c", "track-cb1"), CallBackID: one(r, "cb1", "confirmed"),
				TxID: one(r, "tx-refused", "tx-c", "tx-done", "nothing"), TenantUserID: one(r, users...), Address: one(r, addresses...)}
			var want []Callback
			for _, c := range all {
				if of1(c.Merchant, c.Created) && (f.Type == 0 || f.Type == c.Type) && (f.State == "" || f.State == c.State) && is(f.TrackingID, c.TrackingID) &&
					is(f.CallBackID, c.CallBackID) && is(f.TxID, c.TxID) && is(f.TenantUserID, found[c.ID][0]) && is(f.Address, found[c.ID][1]) {
					want = append(want, c)
				}
			}
			limit := 1 + r.IntN(4) + len(want)/3
			got := pages(t, limit, len(want), full, func(cursor string) ([]Callback, string, error) { return s.Callbacks(ctx, of, f, limit, cursor) })
			if rows[0] += len(got); !reflect.DeepEqual(got, want) {
				t.Fatalf("%.400v of %q: %d callbacks, want %d", f, of, len(got), len(want))
			}
			g := client.WithdrawalFilter{Merchant: merchant, Since: since, Until: until, State: one(r, client.Values[client.WithdrawalState]()...),
				CallBackID: one(r, "cb1", "confirmed", "other"), TxID: one(r, "tx-done", "nothing"), TenantUserID: f.TenantUserID, Address: f.Address}
			var wanted []Withdrawal
			for _, w := range withdrawals {
				if of1(w.Merchant, w.Created) && (g.State == "" || g.State == w.State) && is(g.CallBackID, w.CallBackID) && is(g.TxID, w.TxID) &&
					is(g.TenantUserID, w.TenantUserID) && is(g.Address, targetOf(cmp.Or(w.Details, w.Ordered))) {
					wanted = append(wanted, w)
				}
			}
			gotten := pages(t, 1, len(wanted), false, func(cursor string) ([]Withdrawal, string, error) { return s.Withdrawals(ctx, of, g, 1, cursor) })
			if rows[1] += len(gotten); !reflect.DeepEqual(gotten, wanted) {
				t.Fatalf("%.400v of %q: withdrawals\n%+v, want\n%+v", g, of, gotten, wanted)
			}
		}
		if rows[0] < filters || rows[1] < filters/4 {
			t.Errorf("%d filters find %d rows", filters, rows)
		}
	}
	check(250, true)
	for _, merchant := range []string{"m0", "m1"} {
		var many []NewCallback
		for i := range db.PageRows + 10 {
			many = append(many, deposit(merchant, fmt.Sprint("x", i), 400))
		}
		must(s.Ingest(ctx, many, 400))(t)
	}
	check(60, false)

	for name, err := range map[string]error{
		"a state that is none": errorOf(s.Callbacks(ctx, nil, client.CallbackFilter{State: "'"}, 9, "")),
		"a NUL":                errorOf(s.Callbacks(ctx, nil, client.CallbackFilter{Address: "a\x00"}, 9, "")),
		"no cursor":            errorOf(s.Callbacks(ctx, nil, client.CallbackFilter{}, 9, "nonsense")),
		"no UTF-8":             errorOf(s.Withdrawals(ctx, nil, client.WithdrawalFilter{TxID: "\xff"}, 9, "")),
		"nonsense":             errorOf(s.Withdrawals(ctx, nil, client.WithdrawalFilter{}, 9, "nonsense")),
	} {
		if !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
