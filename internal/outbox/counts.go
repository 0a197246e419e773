package outbox

import (
	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// The stored counts (see db.Tx.Count). They count all callbacks of a lane and those that ended, and not the waiting
// ones. The lanes' rows have the numbers in flight, so the waiting ones are the difference and cost no further write.
func countOfLane(l countersign.Lane) string { return "callbacks/" + l.String() }

func countOfEnded(l countersign.Lane, s client.CallbackState) string {
	return countOfLane(l) + "/" + string(s)
}

func countOfState(s client.WithdrawalState) string { return "withdrawals/" + string(s) }

// countMoved moves a withdrawal in the counts from one state to another. An empty from means that it is new.
func countMoved(t *db.Tx, from, to client.WithdrawalState) {
	if from != "" {
		t.Count(countOfState(from), -1)
	}
	t.Count(countOfState(to), 1)
}
