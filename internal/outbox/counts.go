package outbox

import (
	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// The stored counts (see db.Tx.Counted). They count all callbacks of a lane and those that ended, and not the waiting
// ones. The lanes' rows have the numbers in flight, so the waiting ones are the difference and cost no further write.
func countOfLane(l countersign.Lane) string { return "callbacks/" + l.String() }

func countOfEnded(l countersign.Lane, s client.CallbackState) string {
	return countOfLane(l) + "/" + string(s)
}

func countOfState(s client.WithdrawalState) string { return "withdrawals/" + string(s) }

// countMoved appends to list the statements that move n withdrawals in the counts from one state to another. An empty
// from means that they are new.
func countMoved(t *db.Tx, list []db.Statement, from, to client.WithdrawalState, n int64) []db.Statement {
	if from != "" {
		list = t.Counted(list, countOfState(from), -n)
	}
	return t.Counted(list, countOfState(to), n)
}
