package gateway

import (
	"context"

	"countersign/internal/db"
	"countersign/merchant"
)

// onAnswer keeps an answer before it is sent.
func (g *Gateway) onAnswer(ctx context.Context, e merchant.Exchange) error {
	return g.book.RecordAnswer(ctx, e, db.MillisOf(g.c.Now()))
}
