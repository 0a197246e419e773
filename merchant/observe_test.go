package merchant_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// TestRefusalsInTheLog: the line about a refused callback says where it came to and
// from, which callback it is, why it was refused, and what setting would change it.
func TestRefusalsInTheLog(t *testing.T) {
	malformed := `{"type":1,"trackingId":"d-77","amount":2.5,"requestUUID":"u"}`
	lenient := `{"type":1,"trackingId":"d-78","tenantUserId":7,"txId":"x","chainName":"ETH","symbol":"USDT","amount":"1E-7","toAddress":"a","requestUUID":"u"}`
	for name, c := range map[string]struct {
		plain, path, form, key string
		change                 func(*merchant.Config)
		want                   []string
		never                  string
	}{
		"not bound":   {plain: sample(t, 1), want: []string{"reason=not_bound", "path=/callbacks/notify", "trackingId=deposit-1", `setting="--provider other, or --binding seen (Profile.Binding)"`}},
		"lenient":     {plain: lenient, want: []string{"reason=malformed", "trackingId=d-78", `setting="--provider other, or --lenient (Profile.Lenient)"`}},
		"malformed":   {plain: malformed, want: []string{"reason=malformed", "trackingId=d-77", `error="member \"tenantUserId\" is missing"`}, never: "setting="},
		"wrong URL":   {plain: sample(t, 1), path: "/callbacks/withdraw", want: []string{"reason=wrong_url", "path=/callbacks/withdraw", "trackingId=deposit-1", "--withdraw-path"}},
		"wrong key":   {plain: sample(t, 1), key: "wrong", want: []string{"reason=api_key", "status=401", "--callback-api-key, --api-key-header"}},
		"field":       {plain: sample(t, 1), form: `{"payload":"%"}`, want: []string{"reason=not_opened", "--body-field"}},
		"other key":   {plain: "", form: "AAAA", want: []string{"reason=not_opened", "--service-key, --oaep"}},
		"other path":  {plain: sample(t, 1), path: "/hook", want: []string{"reason=path", "status=404", "path=/hook", "method=POST", "--notify-path, --withdraw-path"}},
		"private key": {plain: lenient, change: ownPair, want: []string{"reason=not_opened", "trackingId=d-78", "--lenient"}},
	} {
		var log syncBuffer
		w := newWorld(t, countersigntest.ServiceConfig{Unbound: true}, func(mc *merchant.Config) {
			mc.Profile.Binding = merchant.BindingRequired
			mc.Log = slog.New(slog.NewTextHandler(&log, nil))
			if c.change != nil {
				c.change(mc)
			}
		})
		body := c.form
		if c.plain != "" {
			sealed, err := w.service.Seal([]byte(c.plain))
			if c.change != nil {
				sealed, err = sealTo(c.plain)
			}
			ok(t, err)
			body = strings.ReplaceAll(c.form, "%", string(sealed))
			if c.form == "" {
				body = string(sealed)
			}
		}
		r := httptest.NewRequest(http.MethodPost, "http://merchant"+or(c.path, merchant.DefaultNotifyPath), strings.NewReader(body))
		r.Header.Set("X-API-KEY", or(c.key, w.service.CallbackAPIKey().Reveal()))
		w.handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.Background()))
		line := log.String()
		for _, want := range append(c.want, "remote=192.0.2.1:1234") {
			if !strings.Contains(line, want) {
				t.Errorf("%s: %s is not in %s", name, want, line)
			}
		}
		if c.never != "" && strings.Contains(line, c.never) || strings.Contains(line, "1E-7") {
			t.Errorf("%s: %s", name, line)
		}
	}
}

// TestStrangersInTheLog: a scan of paths and methods, and calls without a key, are counted wholly and
// logged in part, however many come, so that they hide no callback.
func TestStrangersInTheLog(t *testing.T) {
	var log syncBuffer
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for range 50 {
		w.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/wp-login.php", nil))
		w.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, merchant.DefaultNotifyPath, nil))
	}
	scan := strings.Count(log.String(), "reason=")
	for range 6000 {
		w.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, merchant.DefaultNotifyPath, http.NoBody))
	}
	if n := strings.Count(log.String(), "reason=api_key"); scan < 1 || scan > 30 || n < 1 || n > 30 { // ten a minute
		t.Errorf("%d of 100 and %d of 6000 are logged", scan, n)
	}
	counts := map[merchant.Reason]int{}
	for _, o := range w.seen {
		counts[o.Reason]++
	}
	if counts[merchant.ReasonPath] != 50 || counts[merchant.ReasonMethod] != 50 || counts[merchant.ReasonAPIKey] != 6000 {
		t.Errorf("counted are %v", counts)
	}
	w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
	if !strings.Contains(log.String(), "reason=accepted") {
		t.Error("a callback is not in the log")
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// sample is the plaintext of a deposit that is not bound.
func sample(t *testing.T, n int) string {
	t.Helper()
	d := *countersigntest.Deposit(n)
	d.RequestUUID = "7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"
	return string(must(d.Marshal())(t))
}

// ownPair returns the merchant a pair of its own, and sealTo seals to it.
func ownPair(c *merchant.Config) { c.Key = pair() }

func sealTo(plain string) ([]byte, error) {
	return envelope.Seal(pair().Public(), envelope.PKCS1v15, []byte(plain))
}
