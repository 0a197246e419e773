package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"countersign/client"
	"countersign/internal/db"
)

const setCursorSQL = `UPDATE countersign_relay SET decisions = $2 WHERE decisions = $1`

// MoveCursor moves the cursor of decisions in the core's database at the URL from, which is the number of the last one
// that was written, to where to says. A nil to moves nothing. MoveCursor returns where the cursor was and is.
func MoveCursor(ctx context.Context, from string,
	to func(context.Context, int64) (int64, error)) (was, is int64, err error) {
	pool, _, err := connect(from, idleTime, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, 0, err
	}
	defer pool.Close()
	if err := pool.QueryRow(ctx, cursorSQL).Scan(&was); err != nil {
		return 0, 0, fmt.Errorf("the core's database: %w", err)
	}
	if to == nil {
		return was, was, nil
	}
	if is, err = to(ctx, was); err != nil {
		return was, was, err
	}
	tag, err := pool.Exec(ctx, setCursorSQL, was, is)
	switch {
	case err != nil:
		return was, was, fmt.Errorf("the core's database: %w", err)
	case tag.RowsAffected() == 0:
		return was, was, fmt.Errorf("the cursor of decisions was moved meanwhile from %d: look again", was)
	}
	return was, is, nil
}

// NextEpoch returns where the cursor of decisions continues after a restore of the service: the place before the first
// decision of the epoch after the cursor's. It fails while the service is not reconciled. It also fails while decisions
// from before the restore are not written yet, because moving the cursor would lose them.
//
// If the service does not know the cursor's epoch, its backup was made before that epoch began, or from another copy.
// The decisions written may then have other ids than the service has now, so the feed is read again from its beginning,
// which changes nothing else.
func NextEpoch(ctx context.Context, api *client.Service, cursor int64) (int64, error) {
	e, err := api.Epoch(ctx)
	switch {
	case err != nil:
		return 0, fmt.Errorf("asking for the service's epoch: %w", err)
	case e.Open:
		return 0, fmt.Errorf("the service was restored and is not reconciled: countersign reconcile comes first")
	}
	next, known := int64(0), append(e.Earlier, e.Epoch)
	for _, number := range known {
		if base := (db.Epoch{Number: number}).Base(); base > cursor && (next == 0 || base < next) {
			next = base
		}
	}
	if next == 0 {
		return 0, fmt.Errorf("the service has no epoch after %d, where the cursor is", cursor)
	}
	part, err := api.Decisions(ctx, client.FeedOptions{After: cursor, Limit: 1})
	switch {
	case errors.Is(err, client.ErrConflict): // the restore lost the entry at the cursor
		if of := cursor / epochGap; of > 0 && !slices.Contains(known, of) {
			return 0, nil
		}
	case err != nil:
		return 0, fmt.Errorf("asking for decisions: %w", err)
	case len(part.Items) > 0 && part.Items[0].Seq <= next:
		return 0, fmt.Errorf("entry %d is from before the restore and not written yet: let a relay run with --decisions first; its log says what stops it", part.Items[0].Seq)
	}
	return next, nil
}
