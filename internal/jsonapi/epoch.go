package jsonapi

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

// Epoch gives the handler that shows the epoch of a database.
func Epoch(of interface {
	LastEpoch(context.Context) (db.Epoch, error)
}) Handler {
	return Handle(func(c *Call, _ None, _ None) (client.Epoch, error) {
		e, err := of.LastEpoch(c.R.Context())
		return client.Epoch{Epoch: e.Number, Began: TimeOf(e.Began), Open: e.Open(), Reconciled: TimeOf(e.Reconciled)}, err
	})
}
