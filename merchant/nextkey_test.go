package merchant_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// TestNextKey: while keys change, both open, and each answer is sealed for the pair that
// belongs to the key of its request.
func TestNextKey(t *testing.T) {
	ours, next := mustKey(1024), mustKey(2048)
	answers := mustKey(1024)
	for _, c := range []struct {
		name     string
		old, new countersigntest.ServiceConfig
		change   func(c *merchant.Config, next *countersigntest.Service)
	}{
		{"service", countersigntest.ServiceConfig{}, countersigntest.ServiceConfig{Key: next},
			func(c *merchant.Config, next *countersigntest.Service) { c.NextKey = next.MerchantKey() }},
		{"service, seen blocks", countersigntest.ServiceConfig{Unbound: true}, countersigntest.ServiceConfig{Key: next, Unbound: true},
			func(c *merchant.Config, next *countersigntest.Service) {
				c.NextKey, c.Profile.Binding = next.MerchantKey(), merchant.BindingWhenPresent
			}},
		{"merchant", countersigntest.ServiceConfig{Key: answers, RequestKey: ours.Public()}, countersigntest.ServiceConfig{Key: answers, RequestKey: next.Public()},
			func(c *merchant.Config, _ *countersigntest.Service) { c.Key, c.NextKey = ours, next }},
		{"merchant-oaep, answers too", countersigntest.ServiceConfig{RequestKey: ours.Public(), Padding: envelope.OAEP},
			countersigntest.ServiceConfig{RequestKey: next.Public(), Padding: envelope.OAEP},
			func(c *merchant.Config, other *countersigntest.Service) {
				c.Key, c.NextKey, c.NextResponseKey = ours, next, other.MerchantKey()
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var other *countersigntest.Service
			w := newWorld(t, c.old, func(mc *merchant.Config) {
				c.new.APIKey, c.new.CallbackAPIKey = mc.APIKey, mc.CallbackAPIKeys[0]
				other = newService(t, c.new)
				c.change(mc, other)
			})
			ctx := context.Background()
			for i, s := range []*countersigntest.Service{w.service, other, w.service} {
				w.accepted(t, s.Deliver(ctx, w.to, countersigntest.Deposit(10+i)), merchant.ReasonAccepted)
				w.accepted(t, s.Deliver(ctx, w.to, countersigntest.Withdrawal(10+i)), merchant.ReasonConfirmed)
			}
			// What one key brought is known when the other brings it again.
			w.accepted(t, other.Deliver(ctx, w.to, countersigntest.Deposit(10)), merchant.ReasonRepeated)
			w.accepted(t, other.Deliver(ctx, w.to, countersigntest.Withdrawal(10)), merchant.ReasonRepeated)
			if n := w.effects(countersigntest.Deposit(10).TrackingID); n != 1 {
				t.Errorf("a deposit that came under both keys had %d effects", n)
			}
			stranger := newService(t, countersigntest.ServiceConfig{Key: answers, RequestKey: answers, APIKey: w.service.APIKey(), CallbackAPIKey: w.service.CallbackAPIKey()})
			w.refused(t, stranger.Deliver(ctx, w.to, countersigntest.Deposit(20)), http.StatusBadRequest, countersign.CodeCannotOpen, merchant.ReasonNotOpened)
			if w.inboxHas(20) {
				t.Error("a deposit under a third key had an effect")
			}
		})
	}
}

func (w *world) inboxHas(n int) bool { return w.effects(countersigntest.Deposit(n).TrackingID) != 0 }

// TestNextKeyIsNoOracle: nonsense under either of two private parts gets one response.
func TestNextKeyIsNoOracle(t *testing.T) {
	ours, next := mustKey(1024), mustKey(1024)
	w := newWorld(t, countersigntest.ServiceConfig{RequestKey: ours.Public()}, func(c *merchant.Config) {
		c.Key, c.NextKey = ours, next
	})
	var first string
	for i, key := range []*envelope.Key{ours, next, mustKey(1024)} {
		for _, plaintext := range []string{"not json", `{"type":1}`, `{"a":1,"a":2}`} {
			body := must(envelope.Seal(key.Public(), envelope.PKCS1v15, []byte(plaintext)))(t)
			r := w.service.Post(context.Background(), w.to, merchant.DefaultNotifyPath, body)
			got := fmt.Sprint(r.Status, r.Header, string(r.Raw))
			if first == "" {
				first = got
			}
			if r.Status != http.StatusBadRequest || got != first {
				t.Errorf("%s under key %d is answered with\n%s, and another with\n%s", plaintext, i, got, first)
			}
		}
	}
}

func TestNextKeyConfig(t *testing.T) {
	service, other := newService(t, countersigntest.ServiceConfig{}), mustKey(1024)
	for name, change := range map[string]func(*merchant.Config){
		"NextResponseKey needs NextKey": func(c *merchant.Config) { c.NextResponseKey = other.Public() },
		"NextKey is empty":              func(c *merchant.Config) { c.NextKey = &envelope.Key{} },
		"must be of one scheme":         func(c *merchant.Config) { c.NextKey = other },
		"are the same key":              func(c *merchant.Config) { c.NextKey = service.MerchantKey() },
		"NextResponseKey has a private": func(c *merchant.Config) { c.NextKey, c.NextResponseKey = other.Public(), other },
	} {
		c := service.MerchantConfig()
		c.Inbox = merchant.NewMemoryInbox()
		change(&c)
		if _, err := merchant.New(c); !errors.Is(err, merchant.ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
