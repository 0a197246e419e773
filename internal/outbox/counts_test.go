package outbox

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// checkKept compares the kept numbers with the rows. Every test ends with it.
func checkKept(t testing.TB, s *Outbox) {
	t.Helper()
	want, got := map[string]int64{}, map[string]int64{}
	count := func(text string) {
		t.Helper()
		ok(t, db.Each(ctx, s, text, nil, func(r db.Rows) error {
			var name string
			var n int64
			err := r.Scan(&name, &n)
			want[name] += n
			return err
		}))
	}
	count(`SELECT 'lane ' || lane || ' ' || state, COUNT(*) FROM outbox GROUP BY lane, state`)
	count(`SELECT 'lane ' || CASE WHEN c.type = 2 THEN 1 ELSE 0 END || ' accepted', COUNT(*) FROM callbacks c
		LEFT JOIN outbox o ON o.merchant = c.merchant AND o.id = c.id WHERE o.id IS NULL GROUP BY CASE WHEN c.type = 2 THEN 1 ELSE 0 END`)
	count(`SELECT 'withdrawals ' || state, COUNT(*) FROM withdrawals GROUP BY state`)
	stats := must(s.Stats(ctx))(t)
	for _, l := range stats.Lanes {
		if l.Count != 0 {
			got[fmt.Sprintf("lane %d %s", slices.Index(client.Values[client.Lane](), l.Lane), l.State)] = l.Count
		}
	}
	for state, n := range stats.Withdrawals {
		got["withdrawals "+string(state)] = n
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the kept numbers (+) are not those of the rows (-):\n%s", diff)
	}
}

// testFolded: the rows of the kept numbers become few, also with two nodes that fold
// them at once, and stay right.
func testFolded(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	other := another(t, s)
	fold := func(want int64) {
		t.Helper()
		done := make(chan error, 2)
		for _, node := range []*Outbox{s, other} {
			go func() { done <- node.FoldCounts(ctx) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		var rows int64
		must(db.One(ctx, s, `SELECT COUNT(*) FROM counts`, nil, &rows))(t)
		if s.Dialect().ConcurrentWriters && rows != want {
			t.Errorf("%d rows, want %d", rows, want)
		}
		checkKept(t, s)
	}
	if s.Dialect().ConcurrentWriters { // as 900 transactions leave them; the schema's migration has made two
		url, _ := urls.Load(s)
		dbtest.Exec(t, url.(string), `INSERT INTO counts (name, n) SELECT 'callbacks/notify', 0 FROM generate_series(1, 900)`)
	}
	for i := range 100 - 2 {
		must(s.Ingest(ctx, []NewCallback{deposit("m0", fmt.Sprint("a", i), 1)}, 1))(t)
		if i == 100-4 {
			fold(999)
		}
	}
	settleAll(t, s, claim(t, s, countersign.LaneNotify, 1, 100), 1)
	fold(2) // all and the accepted ones; a number that is 0 has no row
	before := must(s.Stats(ctx))(t).Withdrawals
	addWithdrawal(t, s, newWithdrawal("cb1", 9000, nil), 107)
	if after := must(s.Stats(ctx))(t).Withdrawals; maps.Equal(before, after) {
		t.Errorf("a withdrawal is not counted: %v", after)
	}
}
