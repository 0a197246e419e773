package outbox

import (
	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// The kept numbers (see db.Tx.Counted). They count all callbacks of a lane, not the waiting ones: the lane's row has
// the numbers in flight and ended, so the waiting ones are the difference and cost no further write.
func countOfLane(l countersign.Lane) string { return "callbacks/" + l.String() }

func countOfState(s client.WithdrawalState) string { return "withdrawals/" + string(s) }

// countMoved adds to list the statements that count n withdrawals from one state to another. An empty from means that
// they are new.
func countMoved(t *db.Tx, list []db.Statement, from, to client.WithdrawalState, n int64) []db.Statement {
	if from != "" {
		list = t.Counted(list, countOfState(from), -n)
	}
	return t.Counted(list, countOfState(to), n)
}
