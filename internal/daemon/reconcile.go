package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/outbox"
	"countersign/internal/reconcile"
)

// Reconcile opens the database of an end and compares it with files of others, by reconcile.Service or
// reconcile.Gateway. It sets c.Now. A missing database is an error: a new, empty one would agree with everything that
// it is not asked for.
func Reconcile(ctx context.Context, s Storage, gateway bool, c reconcile.Config) (ended bool, err error) {
	d, err := s.openMade(ctx, slog.New(slog.DiscardHandler), endOf(gateway))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	ctx, c.Now = journal.At(ctx, "reconcile"), db.MillisOf(time.Now())
	if gateway {
		return reconcile.Gateway(ctx, book.New(d, book.Config{}), c)
	}
	return reconcile.Service(ctx, outbox.New(d), c)
}
