package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
	"countersign/merchant"
)

// TestForwardingRestsWhileNothingCanBeClaimed: what is due stays due while a disk takes no
// claims. The sender must not claim in a loop: each claim that fails is a line in the log.
func TestForwardingRestsWhileNothingCanBeClaimed(t *testing.T) {
	url := endtest.SQLite(book.End())(t)
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		d, err := db.Open(t.Context(), db.Config{URL: url, Keys: testKeys, World: db.World{Write: func(string) error {
			if full.Load() {
				return fmt.Errorf("%w: a test", db.ErrFull)
			}
			return nil
		}}}, book.End())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var log strings.Builder
		g, err := New(Config{Process: api.Process{Log: slog.New(slog.NewTextHandler(&log, nil))}, DB: d, Callbacks: merchant.Config{Key: testPair().Public(), APIKey: "answers"}, Forward: Forwarding{URL: "http://127.0.0.1:1/", Secret: make([]byte, 32)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.BeginForwarding(t.Context()); err != nil {
			t.Fatal(err)
		}
		claim(t, g.book, 1)
		full.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		g.sender.run(ctx)
		if n := strings.Count(log.String(), "forwarding cannot read"); n < 2 || n > 20 {
			t.Errorf("%d claims failed within 10 s", n)
		}
	})
}
