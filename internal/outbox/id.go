package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"countersign/internal/db"
)

// joinID returns the id that callers see.
func joinID(merchant, id string) string { return merchant + "." + id }

// splitID inverts joinID. It returns ErrNotFound if id is not such a text.
func splitID(id string) (merchant, rest string, err error) {
	merchant, rest, ok := strings.Cut(id, ".")
	if !ok || !db.ValidID(rest) || !ValidMerchantID(merchant) {
		return "", "", db.ErrNotFound
	}
	return merchant, rest, nil
}

// sortedByID returns the indexes of n items in the order of their ids. Items with the same id keep their order.
func sortedByID(n int, id func(int) string) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(id(a), id(b)) })
	return order
}

// write runs fn in a transaction, with the parts of id.
func (o *Outbox) write(ctx context.Context, id string, fn func(ctx context.Context, t *db.Tx, merchant,
	rest string) error) error {
	merchant, rest, err := splitID(id)
	if err != nil {
		return err
	}
	return o.Write(ctx, func(ctx context.Context, t *db.Tx) error { return fn(ctx, t, merchant, rest) })
}

// from makes l continue after a cursor and limits it to a period. The cursor is the id of a row, or empty for the
// beginning; ids sort by time. Call from before EndWalk.
func from(l *db.Listing, cursor string, since, end db.Millis) error {
	until := ""
	if end != 0 {
		until = db.IDAt(end)
	}
	if since != 0 {
		l.Since = db.IDAt(since)
	}
	if cursor != "" {
		merchant, id, err := splitID(cursor)
		if err != nil {
			return fmt.Errorf("cursor is %w", db.ErrInvalid)
		}
		if until == "" || id < until {
			l.Below(db.Place{ID: id, Owner: merchant})
			return nil
		}
	}
	if until != "" {
		l.Before(until)
	}
	return nil
}

// readPage is db.ReadListing for rows whose ids joinID made. idOf returns the id of a row. next is the cursor of the
// next page.
func readPage[T any](ctx context.Context, o *Outbox, columns string, ls []db.Listing, limit int, idOf func(T) string,
	scan func(db.Rows) (T, error)) (list []T, next string, err error) {
	list, last, err := db.ReadListing(ctx, o, columns, ls, limit, func(r db.Rows) (v db.Placed[T], err error) {
		v.Value, err = scan(r)
		v.Owner, v.ID, _ = strings.Cut(idOf(v.Value), ".")
		return v, err
	})
	if last != (db.Place{}) {
		next = joinID(last.Owner, last.ID)
	}
	return list, next, err
}
