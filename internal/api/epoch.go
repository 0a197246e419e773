package api

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
)

// Epoch gives the handler that shows the epochs of a database.
func Epoch(of interface {
	Epochs(context.Context) (db.Epochs, error)
}) Handler {
	return Handle(func(c *Call, _ None, _ None) (out client.Epoch, err error) {
		list, err := of.Epochs(c.R.Context())
		for i, e := range list {
			if i > 0 {
				out.Earlier = append(out.Earlier, out.Epoch)
			}
			out.Epoch, out.Began, out.Open, out.Reconciled = e.Number, TimeOf(e.Began), e.Open(), TimeOf(e.Reconciled)
		}
		return out, err
	})
}
