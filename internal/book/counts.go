package book

import (
	"countersign/client"
	"countersign/internal/db"
)

// The kept numbers; see db.Tx.Counted.
const (
	countForwards = "forwards" // rows of forwards
	countOrders   = "orders/"  // and the state
)

// countMoved adds to list what counts an order that went from one state to another. No
// state stands for a new order.
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
