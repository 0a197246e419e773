package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"countersign/internal/lab/dbtest"
)

// What connections are set to, and that the URL goes first.
func TestSessionSettings(t *testing.T) {
	for _, c := range []struct{ options, want string }{
		{"", "3s 0 force_generic_plan 0 on"},
		{"&idle_in_transaction_session_timeout=7000&statement_timeout=9000&synchronous_commit=remote_apply", "7s 9s force_generic_plan 0 remote_apply"},
	} {
		s := openAt(t, dbtest.Postgres(t)+c.options)
		var idle, statement, plan, parallel, commit string
		must(One(ctx, s, `SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('statement_timeout'),
			current_setting('plan_cache_mode'), current_setting('max_parallel_workers_per_gather'), current_setting('synchronous_commit')`,
			nil, &idle, &statement, &plan, &parallel, &commit))(t)
		if got := strings.Join([]string{idle, statement, plan, parallel, commit}, " "); got != c.want {
			t.Errorf("with %q: %s, want %s", c.options, got, c.want)
		}
	}
}

// What the errors of a broken connection and of a server are taken for.
func TestUnreachable(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{io.ErrUnexpectedEOF, true}, {net.ErrClosed, true}, {&net.OpError{Op: "read", Err: errors.New("reset")}, true},
		{&pgconn.PgError{Code: "57P01"}, true}, {&pgconn.PgError{Code: "25006"}, true}, {&pgconn.PgError{Code: "08006"}, true},
		{&pgconn.PgError{Code: "42501"}, true}, {&pgconn.PgError{Code: "58030"}, true}, {&pgconn.PgError{Code: "XX001"}, true}, {&pgconn.PgError{Code: "53200"}, true},
		{&pgconn.PgError{Code: "23505"}, false}, {&pgconn.PgError{Code: "57014"}, false}, {ctx.Err(), false}, {ErrConflict, false},
	} {
		if got := c.err != nil && unreachable(fmt.Errorf("inserting: %w", c.err)); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// TestIsolation: a server whose transactions are serializable by default would fail those that wait for each other.
func TestIsolation(t *testing.T) {
	s := openAt(t, dbtest.Postgres(t)+"&default_transaction_isolation=serializable")
	ok(t, s.Write(ctx, func(ctx context.Context, x *Tx) error {
		var level string
		_, err := One(ctx, x, `SELECT current_setting('transaction_isolation')`, nil, &level)
		if level != "read committed" {
			t.Errorf("transactions are %s", level)
		}
		return err
	}))
}

// The bound of connecting, connect_timeout, ends it with the same error as the
// end of the caller's patience would. Only the first is the database's.
func TestConnectTimeout(t *testing.T) {
	mute := must(net.Listen("tcp", "127.0.0.1:0"))(t) // accepts and never answers
	defer mute.Close()
	_, err := pgx.Connect(ctx, "postgres://u@"+mute.Addr().String()+"/db?sslmode=disable&connect_timeout=1")
	if !errors.Is((&postgresDB{}).explain(err), ErrUnavailable) {
		t.Errorf("connecting: %v, want %v", err, ErrUnavailable)
	}
	if err := (&postgresDB{}).explain(fmt.Errorf("acquiring: %w", context.DeadlineExceeded)); errors.Is(err, ErrUnavailable) {
		t.Errorf("the caller's deadline: %v, want no %v", err, ErrUnavailable)
	}
}

// TestPostgresDamaged: a page or an index that the server finds damaged makes the database one that
// takes nothing in any more.
func TestPostgresDamaged(t *testing.T) {
	for _, c := range damagedCodes {
		p := &postgresDB{damage: &damage{log: slog.New(slog.DiscardHandler)}}
		if err := p.explain(&pgconn.PgError{Code: c}); !errors.Is(err, ErrBroken) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", c, err)
		}
		err := p.write(t.Context(), false, func(context.Context, *Tx) error { t.Error("a write runs"); return nil })
		if !errors.Is(err, ErrBroken) || !errors.Is(p.Ping(t.Context()), ErrBroken) {
			t.Errorf("%s: a write gives %v", c, err)
		}
	}
}
