package gateway

import (
	"context"
	"strconv"

	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/merchant"
)

// audit answers the routes of the audit log.
func (a *server) audit() api.Audit {
	return api.Audit{Log: a.c.Audit, Subject: func(ctx context.Context, withdrawal, callback string) (journal.Subject, error) {
		if withdrawal != "" {
			return a.lists.SubjectOfOrder(ctx, withdrawal)
		}
		seq, err := strconv.ParseInt(callback, 10, 64)
		if err != nil {
			return journal.Subject{}, db.ErrNotFound
		}
		return a.lists.SubjectOfEntry(ctx, seq)
	}}
}

// onAnswer keeps an answer before it is sent.
func (g *Gateway) onAnswer(ctx context.Context, e merchant.Exchange) error {
	return g.book.RecordAnswer(ctx, e, db.MillisOf(g.c.Now()))
}
