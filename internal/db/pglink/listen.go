package pglink

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// beginListening bounds the connecting and the first LISTEN.
const beginListening = 20 * time.Second

// Listen calls heard for each notification on a channel until ctx ends or its connection, which is outside the pool,
// breaks. A broken connection does not report itself: if nothing came for check, it is tested, and has as long to
// answer. begun is called once it listens: earlier notifications were missed. listened reports whether begun was
// called.
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
