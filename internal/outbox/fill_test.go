package outbox

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"

	"github.com/google/go-cmp/cmp"
)

// TestFillAccepted: what was filled in is, row by row and byte by byte, what the
// way through Ingest, Claim and Settle leaves.
func TestFillAccepted(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			worked, filled := openAt(t, d.url(t)), openAt(t, d.url(t))
			addMerchants(t, worked, 3, nil)
			addMerchants(t, filled, 3, nil)
			var items []NewCallback
			for i := range 250 {
				item := deposit(fmt.Sprintf("m%d", i%3), fmt.Sprint("t", i), 5)
				item.Type = []countersign.Type{countersign.TypeDeposited, countersign.TypeWithdraw}[i%2]
				items = append(items, item)
			}
			must(worked.Ingest(ctx, items, 5))(t)
			code := int64(0)
			attempt := Attempt{Attempt: client.Attempt{RequestUUID: "uuid", Started: 5, HTTPStatus: 200, ErrCode: &code, Result: "accepted",
				Reason: "accepted", Node: "n1", RequestHash: strings.Repeat("ab", 32), ResponseHash: strings.Repeat("cd", 32)}, Duration: 7000}
			var settlements []Settlement
			for _, c := range claim(t, worked, countersign.LaneNotify, 5, len(items)) {
				a := attempt
				a.Number = c.Attempt
				settlements = append(settlements, Settlement{Merchant: c.Merchant, CallbackID: c.ID, State: client.CallbackAccepted, Reached: true, Attempt: a})
			}
			if len(settlements) != len(items) {
				t.Fatalf("claimed %d", len(settlements))
			}
			must(worked.Settle(ctx, settlements, 5))(t)
			if err := filled.FillAccepted(ctx, items, attempt, 5); err != nil {
				t.Fatal(err)
			}
			// Ids are new in each database: an event's name stands for them.
			for _, table := range []string{
				`SELECT event_id, merchant, type, tracking_id, tx_id, call_back_id, CAST(payload AS TEXT), deadline, created, length(id) FROM callbacks ORDER BY event_id`,
				`SELECT c.event_id, a.merchant, number, request_uuid, started, duration, http_status, err_code, outcome, reason, node,
					CAST(request_hash AS TEXT), CAST(response_hash AS TEXT), late, accepted, settled, failed
				FROM attempts a JOIN callbacks c ON c.merchant = a.merchant AND c.id = a.callback ORDER BY c.event_id`,
				`SELECT merchant, id FROM outbox`,
				`SELECT merchant, lane, active, concurrency, in_flight, next_due, failures, open_until, accepted, refused, exhausted, cancelled
				FROM lanes ORDER BY merchant, lane`,
			} {
				want, got := dump(t, worked, table), dump(t, filled, table)
				if diff := cmp.Diff(want, got); diff != "" || strings.Contains(table, "FROM outbox") != (len(want) == 0) {
					t.Errorf("%s\n%d rows, %s", table, len(want), diff)
				}
			}
			if err := filled.FillAccepted(ctx, items[:1], attempt, 6); !errors.Is(err, db.ErrConflict) {
				t.Errorf("filled in twice: %v", err)
			}
		})
	}
}

// dump returns the rows of a query as texts.
func dump(t *testing.T, s *Outbox, text string) (list []string) {
	t.Helper()
	columns := strings.Count(text[:strings.Index(text, "FROM")], ",") + 1
	err := db.Each(ctx, s, text, nil, func(r db.Rows) error {
		values := make([]any, columns)
		for i := range values {
			values[i] = new(any)
		}
		if err := r.Scan(values...); err != nil {
			return err
		}
		var line strings.Builder
		for _, v := range values {
			fmt.Fprintf(&line, "%v|", reflect.ValueOf(v).Elem().Elem())
		}
		list = append(list, line.String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
