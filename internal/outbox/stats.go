package outbox

import (
	"context"

	"countersign"
	"countersign/internal/db"
)

const (
	pendingSQL = `SELECT lane, COUNT(*), MIN(due) FROM outbox WHERE state = 'pending' GROUP BY lane`

	lanesSumSQL = `
SELECT lane, CAST(SUM(in_flight) AS BIGINT), CAST(SUM(accepted) AS BIGINT), CAST(SUM(refused) AS BIGINT),
	CAST(SUM(exhausted) AS BIGINT), CAST(SUM(cancelled) AS BIGINT)
FROM lanes GROUP BY lane`
)

// Stats counts callbacks by lane and state; each lane has every state. Its cost grows
// with the pending callbacks and the merchants, not with the settled ones.
func (o *Outbox) Stats(ctx context.Context) ([]LaneStats, error) {
	var list []LaneStats
	at := map[countersign.Lane]map[CallbackState]*LaneStats{}
	for _, lane := range []countersign.Lane{countersign.LaneNotify, countersign.LaneWithdraw} {
		for _, state := range append([]CallbackState{CallbackPending, CallbackSending}, finalStates[:]...) {
			list = append(list, LaneStats{Lane: lane, State: state, OldestDue: db.Never})
		}
		at[lane] = map[CallbackState]*LaneStats{}
	}
	for i := range list {
		at[list[i].Lane][list[i].State] = &list[i]
	}
	err := db.Each(ctx, o, pendingSQL, nil, func(r db.Rows) error {
		var p LaneStats
		err := r.Scan(&p.Lane, &p.Count, &p.OldestDue)
		if err == nil {
			at[p.Lane][CallbackPending].Count, at[p.Lane][CallbackPending].OldestDue = p.Count, p.OldestDue
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = db.Each(ctx, o, lanesSumSQL, nil, func(r db.Rows) error {
		var lane countersign.Lane
		var sending int64
		var final [finals]int64
		err := r.Scan(&lane, &sending, &final[0], &final[1], &final[2], &final[3])
		if err != nil {
			return err
		}
		at[lane][CallbackSending].Count = sending
		for i, state := range finalStates {
			at[lane][state].Count = final[i]
		}
		return nil
	})
	return list, err
}

// 5 is BreakerThreshold.
const breakersSQL = `
SELECT merchant, lane, failures, open_until FROM lanes WHERE failures >= 5 ORDER BY merchant, lane`

// Breakers lists the merchants' lanes whose breaker is open or half open. A breaker is
// half open when its OpenUntil has passed; its lane then tries one exchange at a time.
func (o *Outbox) Breakers(ctx context.Context, now db.Millis) ([]BreakerState, error) {
	var list []BreakerState
	err := db.Each(ctx, o, breakersSQL, nil, func(r db.Rows) error {
		var b BreakerState
		err := r.Scan(&b.Merchant, &b.Lane, &b.Failures, &b.OpenUntil)
		list = append(list, b)
		return err
	})
	return list, err
}
