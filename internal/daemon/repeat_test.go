package daemon

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// TestRepeated sends all that two merchants have accepted once more, by name. Both
// answer as to a repetition, and nothing has its effect again.
func TestRepeated(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testRepeated(t, "", "") })
	t.Run("postgres", func(t *testing.T) { testRepeated(t, dbtest.Postgres(t), dbtest.Postgres(t)) })
}

func testRepeated(t *testing.T, serviceDB, gatewayDB string) {
	b := startBoth(t, t.TempDir(), serviceDB, gatewayDB)
	ctx := t.Context()
	lib := startLibrary(t, b.api)
	addOrders(t, b)
	for _, to := range []string{"shop", "library"} {
		everyType(t, b, to)
	}
	effects := func() (deposits, events int) {
		d, err := b.gateway.Book().Deposits(ctx, 0, 100)
		e, more := b.gateway.Book().Events(ctx, 0, 100)
		if err := errors.Join(err, more); err != nil {
			t.Fatal(err)
		}
		return len(d), len(e)
	}
	lib.mu.Lock()
	told := maps.Clone(lib.told)
	lib.mu.Unlock()
	deposits, events := effects()

	if r, err := b.api.ResendCallbacks(ctx, client.Resend{Filter: client.CallbackFilter{Merchant: "shop"}}); err != nil || r.Count != 0 {
		t.Errorf("by a filter: %+v, %v", r, err)
	}
	if _, err := b.api.ResendCallbacks(ctx, client.Resend{Filter: client.CallbackFilter{State: client.CallbackAccepted}}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("by their state: %v", err)
	}
	var repeated []string
	for c, err := range client.All(ctx, b.api.Callbacks, client.CallbackFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.api.ResendCallback(ctx, c.ID); !errors.Is(err, client.ErrConflict) {
			t.Errorf("%s, not asked for as accepted: %v", c.Name, err)
		}
		switch again, err := b.api.RepeatCallback(ctx, c.ID); {
		case c.Type == 2:
			if !errors.Is(err, client.ErrConflict) {
				t.Errorf("a question: %v", err)
			}
		case err != nil || again.ID != c.ID:
			t.Errorf("%s: %+v, %v", c.Name, again, err)
		default:
			repeated = append(repeated, c.ID)
		}
	}
	if len(repeated) != 16 {
		t.Errorf("%d are sent again", len(repeated))
	}
	for _, id := range repeated {
		b.await("the second attempt of "+id, func(ctx context.Context) (bool, error) {
			c, err := b.api.Callback(ctx, id)
			if err != nil || c.State != client.CallbackAccepted || c.Repeated {
				return false, err
			}
			if len(c.Attempts) != 2 || c.Attempts[0].Repeated || !c.Attempts[1].Repeated || c.Attempts[1].Result != client.AttemptAccepted {
				t.Errorf("%s has attempts %+v", c.Name, c.Attempts)
			}
			return true, nil
		})
	}
	if d, e := effects(); d != deposits || e != events {
		t.Errorf("the gateway has %d deposits and %d events, and had %d and %d", d, e, deposits, events)
	}
	lib.mu.Lock()
	if !maps.Equal(told, lib.told) {
		t.Errorf("the merchant's code was called %v times, and before %v", lib.told, told)
	}
	lib.mu.Unlock()

	p, err := b.api.AuditAbout(ctx, client.AuditAboutOptions{ID: repeated[0]})
	if err != nil || !slices.ContainsFunc(p.Entries, func(e client.AuditEntry) bool { return bytes.Contains(e.Record, []byte(`"callbacks.sent_again"`)) }) {
		t.Errorf("the log does not tell who asked: %+v, %v", p, err)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
}
