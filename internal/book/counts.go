package book

import (
	"countersign/client"
	"countersign/internal/db"
)

// The names of the stored counts; see db.Tx.Counted.
const (
	countForwards = "forwards" // rows of forwards
	countOrders   = "orders/"  // followed by the state
)

// countMoved appends to list the statements that move an order in the counts from one state to another. An empty from
// means a new order.
func countMoved(t *db.Tx, list []db.Statement, from, to client.OrderState) []db.Statement {
	switch from {
	case to:
		return list
	case "":
	default:
		list = t.Counted(list, countOrders+string(from), -1)
	}
	return t.Counted(list, countOrders+string(to), 1)
}
