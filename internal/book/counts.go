package book

import (
	"countersign/client"
	"countersign/internal/db"
)

// The names of the kept counts; see db.Tx.Counted.
const (
	countForwards = "forwards" // rows of forwards
	countOrders   = "orders/"  // and the state
)

// countMoved appends to list the changes of the counts for an order that moved between two states. An empty from stands
// for a new order.
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
