package outbox

import (
	"fmt"
	"strings"
	"testing"

	"countersign"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

// TestHotPlans: what is run for every callback looks up by the index that it was
// written for, whatever PostgreSQL knew of the tables when it made the plan: it
// keeps plans, and tables grow.
func TestHotPlans(t *testing.T) {
	hot := []struct{ name, types, text, want string }{
		{"pick", "(bigint, bigint, bigint, bigint, bigint)", pickLanesSQL, "lanes_ready | (lane = $1) AND (ready <= $2)"},
		{"take", "(text, bigint, bigint, bigint)", takeSQL,
			"outbox_due | ((merchant = $1) AND (lane = $2) AND (due <= $3)) & callbacks_recent | (id = o.id)"},
		{"mark", "(bigint, text, text)", markSQL, "outbox_pkey | ((merchant = $2) AND (id = $3))"},
		{"claim lane", "(bigint, bigint, bigint, float8, bigint, text, bigint)", claimLaneSQL,
			"lanes_pkey | ((merchant = $6) AND (lane = $7)) & outbox_due | ((merchant = lanes.merchant) AND (lane = lanes.lane))"},
		{"recheck", "(bigint, text, bigint)", recheckSQL, "lanes_pkey | ((merchant = $2) AND (lane = $3)) & outbox_due | ((merchant = lanes.merchant) AND (lane = lanes.lane))"},
		{"asleep", "(bigint, text[], bigint, bigint)", asleepSQL, "lanes_pkey | (merchant = ANY ($2)) & outbox_due | ((merchant = lanes.merchant) AND (lane = lanes.lane))"},
		{"wake", "(bigint, text[], bigint, bigint)", wakeFreeSQL,
			"lanes_pkey | (merchant = ANY ($2)) & lanes_pkey | (merchant = ANY ($5))"},
		{"next due", "(bigint, bigint)", nextDueSQL, "lanes_ready | (lane = $1)"},
		{"give back", "(text, text, bigint, bigint)", giveBackSQL, "outbox_pkey | ((merchant = $1) AND (id = $2))"},
		{"accept", "(text, text, bigint)", settleAcceptedSQL, "outbox_pkey | ((merchant = $1) AND (id = $2))"},
		{"settle", "(text, text, bigint, text, bigint, bigint, text, bigint, bigint)", settleOtherSQL, "outbox_pkey | ((merchant = $1) AND (id = $2))"},
		{"decide", "(text, text, bigint)", settleDecisionSQL, "outbox_pkey | (id = $2)"},
		{"merchants", "(text[])", merchantsByIDSQL, "merchants_pkey | (id = ANY ($1))"},
		{"lock lanes", "(text[], bigint)", lockLanesSQL, "lanes_pkey | (merchant = ANY ($1))"},
		{"change lane", "(bigint, bigint, bigint, bigint, bigint, text, bigint)", changeLaneSQL,
			"lanes_pkey | ((merchant = $6) AND (lane = $7))"},
		{"leases", "(bigint, bigint)", lostLeasesSQL, "outbox_lease | (lease_until <= $1)"},
		{"same event", "(text, text, bigint)", sameEventSQL, "callbacks_merchant_event_id_type_key | ((merchant = $1) AND (event_id = $2) AND (type = $3)) & outbox_pkey"},
	}
	s := openAt(t, endtest.Postgres(End())(t))
	check := func(when string) {
		for _, h := range hot {
			got := endtest.PlanKept(t, s.DB, h.types, h.text, `(`+strings.Repeat("NULL, ", strings.Count(h.types, ","))+`NULL)`)
			if strings.Contains(got, "Seq Scan on") {
				t.Errorf("%s, %s: a scan of the whole table\n%s", when, h.name, got)
			}
			for _, want := range strings.Split(h.want, " & ") {
				index, condition, _ := strings.Cut(want, " | ")
				if !strings.Contains(got, index) || !strings.Contains(got, condition) {
					t.Errorf("%s, %s: want %s in\n%s", when, h.name, want, got)
				}
			}
		}
	}
	check("never looked at")
	analyze := func() {
		dbtest.Tidy(t, s.Dialect().Shared, s.Exec)
	}
	ids := addMerchants(t, s, 30, nil)
	for i := range 60 {
		must(s.Ingest(ctx, []NewCallback{deposit(ids[i%30], fmt.Sprint("few", i), 1)}, 1))(t)
	}
	settleAll(t, s, claim(t, s, countersign.LaneNotify, 1, 60), 1)
	settleAll(t, s, claim(t, s, countersign.LaneNotify, 1, 60), 1)
	analyze()
	check("nothing waits")
	must(s.Ingest(ctx, []NewCallback{deposit(ids[0], "one", 1)}, 1))(t)
	analyze()
	check("one waits")
	var items []NewCallback
	for i := range 2000 {
		items = append(items, deposit(ids[i%20], fmt.Sprint("many", i), 1))
	}
	must(s.Ingest(ctx, items, 1))(t)
	claim(t, s, countersign.LaneNotify, 5, 500)
	analyze()
	check("many wait, a quarter is sending")
}
