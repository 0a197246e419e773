package outbox

import (
	"context"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// statsSQL reads the stored counts and, for each lane, how many callbacks are in flight, in one snapshot. The inner
// SELECT finds the oldest pending callback of each merchant.
const statsSQL = `
SELECT name, n, 0 FROM ` + db.CountsSQL + ` kept UNION ALL
SELECT CASE lane WHEN 1 THEN 'withdraw' ELSE 'notify' END, CAST(SUM(in_flight) AS BIGINT),
	COALESCE(MIN(CASE WHEN next_due < 4611686018427387904 THEN (
		SELECT o.due FROM outbox o WHERE o.merchant = lanes.merchant AND o.lane = lanes.lane AND o.state = 'pending'
		ORDER BY o.due LIMIT 1) END), 0)
FROM lanes GROUP BY lane`

// Stats returns the number of callbacks by lane and state, each lane with every state, and of withdrawals by state.
// Its cost grows only with the number of merchants.
func (o *Outbox) Stats(ctx context.Context) (client.ServiceStats, error) {
	s := client.ServiceStats{Withdrawals: map[client.WithdrawalState]int64{}}
	counts, due := map[string]int64{}, map[string]db.Millis{}
	err := db.Each(ctx, o, statsSQL, nil, func(r db.Rows) error {
		var name string
		var n int64
		var oldest db.Millis
		err := r.Scan(&name, &n, &oldest)
		counts[name], due[name] = n, oldest
		return err
	})
	if err != nil {
		return s, err
	}
	for lane := range countersign.Lane(Lanes) {
		name := lane.String()
		sending, pending := counts[name], counts[countOfLane(lane)]-counts[name]
		var ended []client.LaneStats
		for _, state := range client.Values[client.CallbackState]()[2:] {
			n := counts[countOfEnded(lane, state)]
			pending -= n
			ended = append(ended, client.LaneStats{Lane: client.Lane(name), State: state, Count: n})
		}
		s.Lanes = append(append(s.Lanes, client.LaneStats{Lane: client.Lane(name), State: client.CallbackPending,
			Count: pending, OldestDue: due[name]}, client.LaneStats{Lane: client.Lane(name), State: client.CallbackSending,
			Count: sending}), ended...)
	}
	for name, n := range counts {
		if state, ok := strings.CutPrefix(name, countOfState("")); ok && n != 0 {
			s.Withdrawals[client.WithdrawalState(state)] = n
		}
	}
	return s, nil
}
