package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// EndApprovers revokes the tokens of all approvers of an end, so that changes no longer wait for anybody, and returns
// their ids. No process may have a SQLite database open.
func EndApprovers(ctx context.Context, s Storage, gateway bool, log *slog.Logger) (ids []string, err error) {
	d, err := s.openMade(ctx, log, endOf(gateway))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return api.EndApprovers(journal.At(ctx, "no-approvers"), d, db.MillisOf(time.Now()))
}
