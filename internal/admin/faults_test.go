package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// TestAllowPrivate: where the service was started so, the allowance cannot be taken away from under a URL that needs it.
func TestAllowPrivate(t *testing.T) {
	h := sqlite(t, func(c *Config) { c.DefaultAllowPrivate = true })
	in := newMerchant("local")
	in.NotifyURL = "https://127.0.0.1/n"
	m, err := h.client(client.RoleAdmin).CreateMerchant(t.Context(), in)
	if err != nil || !m.Private() {
		t.Fatalf("%+v, %v", m.Merchant, err)
	}
	h.raw(client.RoleAdmin, patch, "/v1/merchants/local", api.TypeJSON, `{"allowPrivate":false}`).Names(t, 422, "body.notifyUrl")
}

// TestStoreFails: a database fails before the work, after it, or by a bug: the answer does not say why, the log does,
// and where only the answer of the commit was lost, the same again says so.
func TestStoreFails(t *testing.T) {
	var log dbtest.Log
	var fault func(do func() ([]client.Accepted, error)) ([]client.Accepted, error)
	h := sqlite(t, func(c *Config) {
		c.ingest = func(ctx context.Context, list []outbox.NewCallback, quota outbox.Quota, now db.Millis) ([]client.Accepted, error) {
			return fault(func() ([]client.Accepted, error) { return c.Outbox.IngestWithin(ctx, list, quota, now) })
		}
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	h.merchant("acme")
	type do = func() ([]client.Accepted, error)
	for _, c := range []struct {
		fault  func(do) ([]client.Accepted, error)
		status int
		log    string
	}{
		{func(do) ([]client.Accepted, error) {
			return nil, fmt.Errorf("committing: %w", errors.New("disk says no"))
		}, 500, `error="committing: disk says no"`},
		{func(do) ([]client.Accepted, error) { panic("a bug") }, 500, "msg=panic"},
		{func(d do) ([]client.Accepted, error) { _, _ = d(); return nil, context.DeadlineExceeded }, 503, ""},
	} {
		fault = c.fault
		a := h.raw(client.RoleCore, post, "/v1/deposits", api.TypeJSON, []any{newDeposit("acme", 1)})
		if a.Status != c.status || strings.Contains(a.Body, "disk") || strings.Contains(a.Body, "bug") || c.log != "" && strings.Count(log.String(), c.log) != 1 {
			t.Errorf("%d %s, want %d; the log:\n%s", a.Status, a.Body, c.status, &log)
		}
	}
	fault = func(d do) ([]client.Accepted, error) { return d() }
	if !addDeposit(h, newDeposit("acme", 1)).Duplicate {
		t.Error("what was committed is no duplicate")
	}
}
