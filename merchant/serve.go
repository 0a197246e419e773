package merchant

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"time"

	"countersign"
	"countersign/internal/web"
)

// New checks c and makes a Handler. It starts nothing. Errors wrap ErrConfig.
func New(c Config) (*Handler, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	h := &Handler{
		c:       c,
		openers: openers(&c),
		opening: newOpenings(&c),
		bodies:  web.NewBudget(c.MaxBodies),
		lease:   2*c.Timeout + leaseMargin,
		calls:   map[entryKey]*call{},
		unkept:  map[entryKey]Settlement{},
		holds:   newHolds(c.Profile.MaxWaiting),
		proofs:  newProofs(),
		keyed:   len(c.CallbackAPIKeys) > 0,
	}
	apiKey := c.APIKey
	h.apiKey = func() countersign.APIKey { return apiKey }
	h.knowsAPIKey = keyCheck(c.CallbackAPIKeys)
	h.c.APIKey, h.c.CallbackAPIKeys = "", nil
	return h, nil
}

// keyCheck returns the check of the values of Profile.Header. The check
// compares the digest of the value with that of every accepted key, so that it
// takes the same time for every value of every length. There must be exactly one
// header: of two, a proxy may have checked the other.
func keyCheck(accepted []countersign.APIKey) func(values []string) bool {
	digests := make([]Digest, len(accepted))
	for i, k := range accepted {
		digests[i] = sha256.Sum256([]byte(k.Reveal()))
	}
	return func(values []string) bool {
		if len(digests) == 0 {
			return true
		}
		if len(values) != 1 {
			return false
		}
		got := sha256.Sum256([]byte(values[0]))
		known := 0
		for i := range digests {
			known |= subtle.ConstantTimeCompare(got[:], digests[i][:])
		}
		return known == 1
	}
}

// ServeHTTP routes by the exact paths of Config; any other is 404.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case h.c.NotifyPath:
		h.serve(countersign.LaneNotify, w, r)
	case h.c.WithdrawPath:
		h.serve(countersign.LaneWithdraw, w, r)
	default:
		http.NotFound(w, r)
		h.record(r, time.Now(), reply{status: http.StatusNotFound, reason: ReasonPath})
	}
}

// NotifyHandler takes every type but 2, under whatever path it is mounted.
func (h *Handler) NotifyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(countersign.LaneNotify, w, r) })
}

// WithdrawHandler takes type 2, under whatever path it is mounted.
func (h *Handler) WithdrawHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(countersign.LaneWithdraw, w, r) })
}

// Wait ends calls of Verify and blocks until all of the merchant's functions have
// returned, or until ctx ends. After http.Server.Shutdown no request is left, but a function that
// ignored the end of its context may still run.
func (h *Handler) Wait(ctx context.Context) error {
	h.proofs.end()
	for {
		running := h.running()
		if running == nil {
			return nil
		}
		select {
		case <-running:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the merchant's functions: %w", ctx.Err())
		}
	}
}

// running is closed when one of the functions that run has ended; nil if none runs.
func (h *Handler) running() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		return c.done
	}
	h.proofs.mu.Lock()
	defer h.proofs.mu.Unlock()
	for _, c := range h.proofs.by {
		if !c.ended() {
			return c.done
		}
	}
	return nil
}
