package db

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// beginListening is the time limit of connecting and the first LISTEN.
const beginListening = 20 * time.Second

// Listen calls notified for each notification on a channel until ctx ends or its connection breaks. That connection
// is outside the pool. A broken connection does not report itself, so if nothing came for the time check, Listen
// tests it and waits as long for the answer. Listen calls begun once it listens; earlier notifications were missed.
// listened reports whether it called begun.
func (l *Links) Listen(ctx context.Context, channel string, check time.Duration, begun func(), notified func(*pgconn.Notification)) (listened bool, err error) {
	start, cancel := context.WithTimeout(ctx, beginListening)
	defer cancel()
	conn, err := l.connect(start, true)
	if err != nil {
		return false, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	listen := `LISTEN ` + channel
	if _, err := conn.Exec(start, listen); err != nil {
		return false, err
	}
	begun()
	for {
		wait, cancel := context.WithTimeout(ctx, check)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			notified(n)
			continue
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return true, err
		}
		test, cancel := context.WithTimeout(ctx, check)
		_, err = conn.Exec(test, listen) // repeating it is harmless
		cancel()
		if err != nil {
			return true, err
		}
	}
}
