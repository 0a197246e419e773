package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"countersign/internal/db"
)

// TestNotReady: whatever the database does, who probes has an answer within a second, which has the
// cause and no address. The log has each cause once, until it is another one.
func TestNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		check func(context.Context) error
		want  string
	}{
		"stands still": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "the database does not answer"},
		"refuses": {func(context.Context) error {
			return fmt.Errorf("%w: %w", db.ErrUnavailable, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7)}, Err: errors.New("connection refused")})
		}, "connection refused"},
		"is a standby": {func(context.Context) error {
			return fmt.Errorf("%w: %w", db.ErrUnavailable, &pgconn.PgError{Code: "25006", Message: "cannot execute INSERT in a read-only transaction"})
		}, "read-only transaction"},
		"is full": {func(context.Context) error { return db.ErrFull }, "disk"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			e := newEnd(t)
			e.c.Log = slog.New(slog.NewTextHandler(&log, nil))
			call := &Call{a: e.API, R: httptest.NewRequest(http.MethodGet, "/readyz", nil)}
			for range 3 {
				began := time.Now()
				p := e.ProblemOf(call.Ready(c.check))
				if took := time.Since(began); p.Status != 503 || !strings.Contains(p.Detail, c.want) || strings.Contains(p.Detail, "10.0.0.7") || took >= time.Second {
					t.Errorf("%s: %+v after %v", name, p, took)
				}
			}
			if err := call.Ready(func(context.Context) error { return nil }); err != nil || strings.Count(log.String(), "not ready") != 1 {
				t.Errorf("%s: %v\n%s", name, err, &log)
			}
			_ = call.Ready(c.check)
			if strings.Count(log.String(), "not ready") != 2 {
				t.Errorf("%s again: %s", name, &log)
			}
		})
	}
}
