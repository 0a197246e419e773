package api

import (
	"context"
	"errors"

	"countersign/client"
	"countersign/internal/db"
)

// List returns the changes in a state before a cursor, the newest first, that a token may see: of one
// merchant, or of all where merchant is empty.
func (k *Changes) List(ctx context.Context, state client.ChangeState, merchant string, by Token, cursor string, limit int) (out []client.ChangeEntry, err error) {
	var where db.Conditions
	where.Add("state = ?", string(state))
	if of := by.BoundTo(); of != nil {
		where.Add("merchant {in}?{end}", k.c.DB.Dialect().List(of))
	}
	if merchant != "" {
		where.Add("merchant = ?", merchant)
	}
	if cursor != "" {
		where.Add("id < ?", cursor)
	}
	order := ` ORDER BY id DESC LIMIT CAST(` + where.Arg(limit) + ` AS BIGINT)`
	list, err := readChanges(ctx, k.c.DB, where.Where()+order, where.Args...)
	for i := range list {
		out = append(out, list[i].ChangeEntry)
	}
	return out, err
}

// show is the handler that shows one change.
func (k *Changes) show() Handler {
	return One(func(c *Call, id string, _ None) (client.ChangeEntry, error) {
		return k.Show(c.R.Context(), id, c.Token, c.Now)
	})
}

// Show returns one change, and whether it is stale, if there is one for the token.
func (k *Changes) Show(ctx context.Context, id string, by Token, now db.Millis) (out client.ChangeEntry, err error) {
	change, err := k.find(ctx, id, by)
	if err != nil {
		return out, err
	}
	if out = change.ChangeEntry; !change.open() {
		return out, nil
	}
	if err = k.stale(ctx, &change, now); errors.Is(err, ErrStale) {
		out.Stale, err = err.Error(), nil
	}
	return out, err
}
