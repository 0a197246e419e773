package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign/internal/admin"
	"countersign/internal/store"
)

// firstToken makes the first token of the API where the database has none. It is
// in its file before it is in the database: a token that nobody knows would lock
// everybody out. show is told the token and its file; it may be nil.
func (s Storage) firstToken(ctx context.Context, db *store.Store, now time.Time, show func(token, file string)) error {
	has, err := db.HasTokens(ctx)
	if err != nil || has {
		return err
	}
	path := s.file(TokenFile)
	fresh, _ := admin.MintToken()
	token, err := keepSecret(path, fresh.Reveal())
	if err != nil {
		return fmt.Errorf("admin token: %w", err)
	}
	if !admin.IsToken(token) {
		return fmt.Errorf("admin token: %s does not hold a token", path)
	}
	err = db.CreateToken(ctx, admin.NewStoreToken("first", store.RoleOperator, store.MillisOf(now)), admin.HashToken(token))
	if errors.Is(err, store.ErrConflict) {
		return nil // another node, started at the same time on the same directory, has kept and shown it
	}
	if err != nil {
		return fmt.Errorf("admin token: %w", err)
	}
	if show != nil {
		show(token, path)
	}
	return nil
}
