package admin

import (
	"context"
	"errors"
	"testing"
	"time"

	"countersign/client"
)

// stored counts pending callbacks.
func (h *harness) stored() (n int64) {
	stats := must(h.store.Stats(context.Background()))(h.t)
	for _, l := range stats.Lanes {
		if l.State == client.CallbackPending {
			n += l.Count
		}
	}
	return n
}

// A reader who waits for an entry of a feed is turned away when the token is
// revoked.
func TestWaitingReaderOfARevokedToken(t *testing.T) {
	h := sqlite(t)
	list := must(h.kept.List(t.Context()))(t)
	ended := make(chan error, 1)
	go func() {
		_, err := h.client(client.RoleViewer).Decisions(t.Context(), client.FeedOptions{Wait: time.Minute})
		ended <- err
	}()
	time.Sleep(100 * time.Millisecond) // most likely it waits
	for _, k := range list {
		if k.Role == client.RoleViewer {
			ok(t, h.kept.Revoke(t.Context(), k.ID, 1, nil))
		}
	}
	select {
	case err := <-ended:
		if !errors.Is(err, client.ErrUnauthorized) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Error("it waits on")
	}
}

// How long a batch takes from the first byte to the answer.
func BenchmarkBatchOverHTTP(b *testing.B) {
	h := sqlite(b, func(c *Config) { c.RatePerSecond = 1e9 })
	h.merchant("acme")
	c := h.client(client.RoleCore)
	list := make([]client.NewDeposit, maxBatch)
	n := 0
	var worst time.Duration
	for b.Loop() {
		for i := range list {
			n++
			list[i] = newDeposit("acme", n)
		}
		start := time.Now()
		must(c.AddDeposits(b.Context(), list...))(b)
		worst = max(worst, time.Since(start))
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "deposits/s")
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms/batch")
}
