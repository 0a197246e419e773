package api

import (
	"context"
	"net/http"
	"time"
)

// readyTimeout bounds the check of /readyz.
const readyTimeout = 5 * time.Second

// Ready answers /readyz: 503 when the end is about to stop, or if check fails. The answer says
// what is the matter in a fixed sentence, the log with the cause.
func (c *Call) Ready(check func(context.Context) error) error {
	if c.a.leaving.Load() {
		return ErrStopping
	}
	ctx, cancel := context.WithTimeout(c.R.Context(), readyTimeout)
	defer cancel()
	err := check(ctx)
	if err == nil {
		return nil
	}
	c.a.c.Log.Warn("not ready", "error", err.Error())
	return NewProblem(http.StatusServiceUnavailable, c.a.ProblemOf(err).Detail)
}
