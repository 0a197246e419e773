package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"countersign/internal/db"
)

// readyTimeout limits the check of /readyz. A prober waits only a second or two.
const readyTimeout = 900 * time.Millisecond

// Health is the answer of the probes.
type Health struct {
	Status string `json:"status" enum:"ok,ready" doc:"ok: the process runs; ready: this end can work"`
	Frozen bool   `json:"frozen,omitempty" doc:"true: a person has frozen the service, so nothing is sent, decided or released"`
}

// Ready returns nil if /readyz should answer 200. It returns a 503 if the end is about to stop, or if check fails or
// takes longer than readyTimeout. The answer states the cause without host names. A cause is logged once, and again
// after another one.
func (c *Call) Ready(check func(context.Context) error) error {
	if c.a.leaving.Load() {
		return ErrStopping
	}
	ctx, cancel := context.WithTimeout(c.R.Context(), readyTimeout)
	defer cancel()
	err := check(ctx)
	if err == nil {
		c.a.notReady.Store("")
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", db.ErrUnavailable, err)
	}
	detail := c.a.ProblemOf(err).Detail
	if cause := db.Cause(err); cause != "" {
		detail += ": " + cause
	}
	if c.a.notReady.Swap(detail) != detail {
		c.a.c.Log.Warn("not ready", "error", err.Error())
	}
	return NewProblem(http.StatusServiceUnavailable, detail)
}
