package outbox

import (
	"context"
	"fmt"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// statsSQL reads the sums of the rows of each lane and the stored counts, in one snapshot. The inner SELECT finds the
// oldest pending callback of each merchant.
var statsSQL = fmt.Sprintf(`%s UNION ALL %s UNION ALL
SELECT name, -1, n, 0, 0, 0, 0, 0 FROM %s kept`, laneSumSQL(0), laneSumSQL(1), db.CountsSQL)

func laneSumSQL(lane int) string {
	return fmt.Sprintf(`
SELECT '', %d, COALESCE(CAST(SUM(in_flight) AS BIGINT), 0), COALESCE(CAST(SUM(accepted) AS BIGINT), 0),
	COALESCE(CAST(SUM(refused) AS BIGINT), 0), COALESCE(CAST(SUM(exhausted) AS BIGINT), 0), COALESCE(CAST(SUM(cancelled) AS BIGINT), 0),
	COALESCE(MIN(CASE WHEN next_due < 4611686018427387904 THEN (
		SELECT o.due FROM outbox o WHERE o.merchant = lanes.merchant AND o.lane = lanes.lane AND o.state = 'pending'
		ORDER BY o.due LIMIT 1) END), 4611686018427387904)
FROM lanes WHERE lane = %[1]d`, lane)
}

// Stats returns the number of callbacks by lane and state, each lane with every state, and of withdrawals by state.
// Its cost grows only with the number of merchants.
func (o *Outbox) Stats(ctx context.Context) (client.ServiceStats, error) {
	s := client.ServiceStats{Withdrawals: map[client.WithdrawalState]int64{}}
	var sums [Lanes]struct {
		sending   int64
		final     [Finals]int64
		oldestDue db.Millis
	}
	counts := map[string]int64{}
	err := db.Each(ctx, o, statsSQL, nil, func(r db.Rows) error {
		var name string
		var lane int
		var n int64
		var final [Finals]int64
		var oldest db.Millis
		err := r.Scan(&name, &lane, &n, &final[0], &final[1], &final[2], &final[3], &oldest)
		switch {
		case err != nil:
		case lane < 0:
			counts[name] = n
		default:
			sums[lane].sending, sums[lane].final, sums[lane].oldestDue = n, final, oldest
		}
		return err
	})
	if err != nil {
		return s, err
	}
	for i, l := range sums {
		lane := countersign.Lane(i)
		add := func(state client.CallbackState, n int64, oldest db.Millis) {
			s.Lanes = append(s.Lanes, client.LaneStats{Lane: client.Lane(lane.String()), State: state, Count: n, OldestDue: oldest})
		}
		pending := counts[countOfLane(lane)] - l.sending
		for _, n := range l.final {
			pending -= n
		}
		add(client.CallbackPending, pending, db.Shown(l.oldestDue))
		add(client.CallbackSending, l.sending, 0)
		for k, state := range finalStates {
			add(state, l.final[k], 0)
		}
	}
	for name, n := range counts {
		if state, ok := strings.CutPrefix(name, countOfState("")); ok && n != 0 {
			s.Withdrawals[client.WithdrawalState(state)] = n
		}
	}
	return s, nil
}
