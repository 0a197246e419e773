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
	"countersign/internal/outbox"
)

var errDisk = errors.New("disk says no")

// onFaultyStore runs a server whose database fails the way databases do: before the work,
// after it, or by a bug.
func onFaultyStore(t *testing.T, ingest func(calls int, do func() ([]client.Accepted, error)) ([]client.Accepted, error)) (*harness, *syncBuffer) {
	log := &syncBuffer{}
	h := sqlite(t, func(c *Config) {
		calls := 0
		c.ingest = func(ctx context.Context, list []outbox.NewCallback, quota outbox.Quota, now db.Millis) ([]client.Accepted, error) {
			calls++
			return ingest(calls, func() ([]client.Accepted, error) { return c.Outbox.IngestWithin(ctx, list, quota, now) })
		}
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	h.merchant("acme")
	return h, log
}

func TestStoreFails(t *testing.T) {
	h, log := onFaultyStore(t, func(int, func() ([]client.Accepted, error)) ([]client.Accepted, error) {
		return nil, fmt.Errorf("committing: %w", errDisk)
	})
	a := h.raw(client.RoleCore, post, "/v1/deposits", api.TypeJSON, newDeposit("acme", 1))
	if a.status != 500 || strings.Contains(a.body, "disk") {
		t.Errorf("%d %s, want a 500 that does not say why", a.status, a.body)
	}
	if n := strings.Count(log.String(), `error="committing: disk says no"`); n != 1 {
		t.Errorf("the log says the cause %d times, want 1:\n%s", n, log)
	}
}

// The commit was done and the answer lost: the same again says so.
func TestStoreFailsButDoes(t *testing.T) {
	h, _ := onFaultyStore(t, func(calls int, do func() ([]client.Accepted, error)) ([]client.Accepted, error) {
		out, err := do()
		if calls == 1 {
			return nil, context.DeadlineExceeded
		}
		return out, err
	})
	c := h.client(client.RoleCore)
	var p *client.Problem
	if _, err := c.AddDeposits(t.Context(), newDeposit("acme", 1)); !errors.As(err, &p) || p.Status != 503 {
		t.Errorf("%v, want a 503", err)
	}
	if list, err := c.AddDeposits(t.Context(), newDeposit("acme", 1)); err != nil || !list[0].Duplicate {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestPanicIsA500(t *testing.T) {
	h, log := onFaultyStore(t, func(int, func() ([]client.Accepted, error)) ([]client.Accepted, error) { panic("a bug") })
	a := h.raw(client.RoleCore, post, "/v1/deposits", api.TypeJSON, newDeposit("acme", 1))
	if a.status != 500 || strings.Contains(a.body, "bug") || !strings.Contains(log.String(), "msg=panic") {
		t.Errorf("%d %s\n%s", a.status, a.body, log)
	}
}

func TestNewRefusesAHalfConfig(t *testing.T) {
	check := func(string, bool) error { return nil }
	for name, c := range map[string]Config{
		"no outbox":      {Changes: &api.Changes{}, CheckURL: check},
		"no changes":     {Outbox: &outbox.Outbox{DB: &db.DB{}}, CheckURL: check},
		"no CheckURL":    {Outbox: &outbox.Outbox{DB: &db.DB{}}, Changes: &api.Changes{}},
		"body below 0":   {Outbox: &outbox.Outbox{DB: &db.DB{}}, Changes: &api.Changes{}, CheckURL: check, MaxBody: -1},
		"rate below 0":   {Outbox: &outbox.Outbox{DB: &db.DB{}}, Changes: &api.Changes{}, CheckURL: check, RatePerSecond: -1},
		"nothing at all": {},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(Config{Outbox: &outbox.Outbox{DB: &db.DB{}}, Changes: &api.Changes{}, CheckURL: check}); err != nil {
		t.Error(err)
	}
}

// A token of the API opens no way into the private network that the service was not
// started with.
func TestAllowPrivateNeedsTheFlag(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	yes, in := true, newMerchant("local")
	in.AllowPrivate = &yes
	h.raw(client.RoleAdmin, post, "/v1/merchants", api.TypeJSON, string(encode(t, in))).names(t, 422, "body.allowPrivate")
	h.raw(client.RoleAdmin, patch, "/v1/merchants/acme", api.TypeJSON, `{"allowPrivate":true}`).names(t, 422, "body.allowPrivate")
	h.raw(client.RoleAdmin, patch, "/v1/merchants/acme", api.TypeJSON, `{"allowPrivate":true,"notifyUrl":"https://127.0.0.1/n"}`).names(t, 422, "body.allowPrivate")
	if m, err := h.store.Merchant(t.Context(), "acme"); err != nil || m.Private() {
		t.Errorf("%+v, %v", m.MerchantSettings, err)
	}
	h.raw(client.RoleAdmin, patch, "/v1/merchants/acme", api.TypeJSON, `{"allowPrivate":false}`)
	// With the flag, the allowance cannot be taken away from under a URL that needs it.
	h = sqlite(t, func(c *Config) { c.DefaultAllowPrivate = true })
	in = newMerchant("local")
	in.NotifyURL = "https://127.0.0.1/n"
	m, err := h.client(client.RoleAdmin).CreateMerchant(t.Context(), in)
	if err != nil || !m.Private() {
		t.Fatalf("%+v, %v", m.Merchant, err)
	}
	h.raw(client.RoleAdmin, patch, "/v1/merchants/local", api.TypeJSON, `{"allowPrivate":false}`).names(t, 422, "body.notifyUrl")
}
