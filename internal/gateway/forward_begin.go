package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"countersign/internal/book"
	"countersign/internal/db"
)

// ParseForwardFrom reads which entry of each feed is the first to be forwarded: 0 for
// the first, a number for the entry with that number, now for the next new entry. Two
// of them, separated by a comma, are for the deposits and for the events, and one is
// for both. The empty text is the zero value.
func ParseForwardFrom(text string) (from book.ForwardFrom, err error) {
	if text == "" {
		return from, nil
	}
	deposits, events, two := strings.Cut(text, ",")
	if !two {
		events = deposits
	}
	if from.Deposits, err = parseForwardStart(deposits); err == nil {
		from.Events, err = parseForwardStart(events)
	}
	return from, err
}

func parseForwardStart(text string) (book.ForwardStart, error) {
	if text == "now" {
		return book.ForwardStart{Set: true, Now: true}, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return book.ForwardStart{}, fmt.Errorf("%.40q is not 0, now, or the number of an entry; two of them, separated by a comma, are for deposits and events", text)
	}
	return book.ForwardStart{Set: true, From: int64(n)}, nil
}

// BeginForwarding sets where forwarding starts, if it has not begun or Forward.From
// says something new. It does nothing where nothing is forwarded.
func (g *Gateway) BeginForwarding(ctx context.Context) error {
	if g.sender == nil {
		return nil
	}
	feeds, moved, err := g.book.BeginForwarding(ctx, g.c.Forward.From, db.MillisOf(g.c.Now()))
	var beyond *db.ConflictError
	if errors.As(err, &beyond) {
		return fmt.Errorf("--forward-from: %w; two numbers, separated by a comma, are for deposits and events", err)
	}
	if err != nil {
		return fmt.Errorf("beginning to forward: %w", err)
	}
	for i, f := range feeds {
		if moved[i] {
			g.c.Log.Info("forwarding begins", "feed", f.Feed.String(), "from", f.Seq+1, "waiting", f.Fresh)
		}
	}
	return nil
}
