package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
)

// firstToken makes the first token of the API, an admin's, if the database has none. It writes the token to its file
// first: one that is only in the database could not be used, and no other could be made. show is called with the token
// and its file; it may be nil.
func (s Storage) firstToken(ctx context.Context, d *db.DB, now time.Time, show func(token, file string)) error {
	tokens := api.NewTokens(d)
	list, err := tokens.List(ctx)
	if err != nil || len(list) > 0 {
		return err
	}
	path := s.file(TokenFile)
	fresh, _ := api.MintToken()
	token, err := keepSecret(path, fresh.Reveal())
	if err != nil {
		return fmt.Errorf("admin token: %w", err)
	}
	if !api.IsToken(token) {
		return fmt.Errorf("admin token: %s does not hold a token", path)
	}
	err = tokens.Create(ctx, api.NewStoreToken("first", client.RoleAdmin, db.MillisOf(now)), api.HashToken(token))
	if errors.Is(err, db.ErrConflict) {
		return nil // another node with the same directory, started at the same time, has stored and shown it
	}
	if err != nil {
		return fmt.Errorf("admin token: %w", err)
	}
	if show != nil {
		show(token, path)
	}
	return nil
}
