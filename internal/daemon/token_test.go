package daemon

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// Nodes that start at once on one fresh database and one directory have one token,
// and one of them shows it.
func TestFirstTokenOfNodesThatStartTogether(t *testing.T) {
	for range 10 {
		storage := Storage{Dir: t.TempDir()}
		d := must(db.Open(t.Context(), db.Config{URL: dbtest.SQLite(t), Keys: db.NewMasterKey([32]byte{1})}, outbox.End()))
		var shown atomic.Int32
		var nodes sync.WaitGroup
		for range 4 {
			nodes.Go(func() {
				show := func(token, file string) {
					shown.Add(1)
					kept, err := os.ReadFile(file)
					if err != nil || strings.TrimSpace(string(kept)) != token {
						t.Errorf("the file holds another token than was shown, error %v", err)
					}
				}
				if err := storage.firstToken(t.Context(), d, time.Now(), show); err != nil {
					t.Error(err)
				}
			})
		}
		nodes.Wait()
		list, err := api.NewTokens(d).List(t.Context())
		if err != nil || len(list) != 1 || shown.Load() != 1 {
			t.Errorf("%d tokens, shown %d times, error %v", len(list), shown.Load(), err)
		}
		ok(t, d.Close())
	}
}
