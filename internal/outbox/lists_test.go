package outbox

import (
	"context"
	"fmt"
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
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			s := openAt(t, d.url(t))
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
			check("breakers", false, tokensSQL, nil, "tokens_created")
		})
	}
}

// fillForPlans makes many rows of every kind: PostgreSQL's planner scans small tables,
// whatever there is for large ones.
func fillForPlans(t testing.TB, s *Outbox) {
	t.Helper()
	if !s.Dialect().ConcurrentWriters {
		return // SQLite plans without looking at the rows
	}
	addMerchants(t, s, 20, nil)
	err := s.Write(ctx, func(ctx context.Context, x *db.Tx) error {
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
	})
	if err != nil {
		t.Fatal(err)
	}
	dbtest.Tidy(t, s.Dialect().Shared, s.Exec)
}

// tokensSQL is the list of tokens, which package api reads.
const tokensSQL = `SELECT id FROM tokens ORDER BY created, id`

func placeOf(id string) db.Place {
	merchant, rest, _ := strings.Cut(id, ".")
	return db.Place{ID: rest, Owner: merchant}
}

// testShortPages: pages that end before they are full lead to every row all the same,
// once and in order.
func testShortPages(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	want := map[string][]string{}
	add := func(n int, label string) {
		var items []NewCallback
		for i := range n {
			items = append(items, deposit(fmt.Sprint("m", i%2), fmt.Sprint(label, i), 1))
		}
		for _, k := range must(s.Ingest(ctx, items, 1))(t) {
			want["pending"] = append(want["pending"], k.ID)
		}
	}
	one := func(event string) {
		c := ended(t, s, event, client.CallbackRefused, 1)
		want["refused"] = append(want["refused"], c.ID)
	}
	one("r0")
	accepted := claimOne(t, s, "a0", 1)
	settleAll(t, s, []Claimed{accepted}, 1)
	want["accepted"] = []string{accepted.ID}
	add(db.PageRows+10, "x")
	notice := NewCallback{Merchant: "m1", Type: countersign.TypeWithdraw, EventID: "cb1", TrackingID: "x0", CallBackID: "cb1", Payload: []byte("n"), Due: 1}
	want["about x0"] = append(want["about x0"], want["pending"][0], must(s.Ingest(ctx, []NewCallback{notice}, 1))(t)[0].ID)
	want["pending"] = append(want["pending"], want["about x0"][1])
	add(db.PageRows+10, "y")
	for name, f := range map[string]client.CallbackFilter{
		"pending":  {State: client.CallbackPending},
		"refused":  {State: client.CallbackRefused},
		"about x0": {TrackingID: "x0"},
		"accepted": {State: client.CallbackAccepted},
	} {
		for _, merchant := range []string{"", "m0", "m1"} {
			f.Merchant = merchant
			var got []string
			pages := 0
			for cursor := ""; ; pages++ {
				list, next, err := s.Callbacks(ctx, nil, f, 700, cursor)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range list {
					got = append(got, c.ID)
				}
				if next == "" {
					break
				}
				cursor = next
			}
			var expected []string
			for _, id := range want[name] {
				if strings.HasPrefix(id, merchant) {
					expected = append(expected, id)
				}
			}
			slices.SortFunc(expected, func(a, b string) int { return placeOf(b).Compare(placeOf(a)) })
			if !slices.Equal(got, expected) {
				t.Errorf("%s of %q: %d in %d pages, want %d", name, merchant, len(got), pages, len(expected))
			}
		}
	}
}
