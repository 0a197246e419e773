package outbox

import (
	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// The kept numbers (see db.Tx.Counted). All callbacks of a lane are counted and not
// those that wait: claims and settlements keep the others in the lane's row, so the
// rest waits, and they write nothing more for it.
func countOfLane(l countersign.Lane) string { return "callbacks/" + l.String() }

func countOfState(s client.WithdrawalState) string { return "withdrawals/" + string(s) }

// countMoved adds to list what counts n withdrawals that went from one state to another.
// No state stands for a new withdrawal.
func countMoved(t *db.Tx, list []db.Statement, from, to client.WithdrawalState, n int64) []db.Statement {
	if from != "" {
		list = t.Counted(list, countOfState(from), -n)
	}
	return t.Counted(list, countOfState(to), n)
}
