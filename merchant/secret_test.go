package merchant_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
)

// TestNothingPrintsSecrets: TestMain looks through all that was logged; this
// covers what a program prints by mistake.
func TestNothingPrintsSecrets(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	var log strings.Builder
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	holder := struct{ h *merchant.Handler }{w.handler}
	for _, v := range []any{w.handler, holder, &holder, w.service.MerchantConfig(), merchant.Answer{}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&log, verb+"\n", v)
		}
		logger.Info("x", "v", v)
	}
	for _, secret := range []string{
		w.service.APIKey().Reveal(), w.service.CallbackAPIKey().Reveal(), w.service.MerchantKey().PublicBase64()[40:80],
		fmt.Sprintf("%x", w.service.APIKey().Reveal()),
	} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("a secret is printed: %.200s", log.String())
		}
	}
	if !strings.Contains(log.String(), "merchant handler of /callbacks/notify") {
		t.Error("a handler does not say what it is")
	}
}

// TestLog: one line a request, with what a person needs and no value that the
// peer could make up at length.
func TestLog(t *testing.T) {
	var log syncBuffer
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	d := countersigntest.Deposit(1)
	d.Business = 3
	d.Extra = countersign.Members{{Name: "memo", Value: `"do not log this value"`}, {Name: strings.Repeat("n", 500), Value: "1"}}
	d.TrackingID = strings.Repeat("t", 500)
	w.accepted(t, w.deliver(d), merchant.ReasonAccepted)
	text := log.String()
	if strings.Count(text, "\n") != 1 {
		t.Errorf("not one line: %s", text)
	}
	for _, part := range []string{`"msg":"callback"`, `"status":200`, `"reason":"accepted"`, `"errCode":0`, `"type":1`,
		`"seq":1`, `"business":3`, `"unknownMembers":["memo","nnn`} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	if strings.Contains(text, "do not log") || strings.Contains(text, strings.Repeat("t", 200)) || strings.Contains(text, strings.Repeat("n", 200)) {
		t.Errorf("too much in %s", text)
	}
}

// TestReasons: every reason that a request can end with is in the list that
// metrics are made from, once.
func TestReasons(t *testing.T) {
	seen := map[merchant.Reason]bool{}
	for _, r := range merchant.Reasons {
		if seen[r] || r == "" {
			t.Errorf("%q is listed twice or empty", r)
		}
		seen[r] = true
	}
	if len(seen) < 25 {
		t.Errorf("%d reasons", len(seen))
	}
}
