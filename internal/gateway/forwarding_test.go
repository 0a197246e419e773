package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/web"
)

var testSecret = web.Secret("a secret of thirty-two bytes,ok!")

// application is the merchant's own, which checks signatures and counts.
type application struct {
	*httptest.Server
	mu     sync.Mutex
	told   map[string]int // id → how often it was accepted
	bodies map[string]string
	answer func(id string, attempt int) int
	tries  map[string]int
	errs   []string
	now    func() time.Time
}

// verifies checks a message to the application as its receiver does, at a time of this clock.
func verifies(h http.Header, body []byte, now time.Time) error {
	receiver, err := standardwebhooks.NewWebhookRaw(testSecret)
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(h.Get(web.HeaderTimestamp), 10, 64)
	if off := now.Sub(time.Unix(seconds, 0)); err != nil || off.Abs() > 5*time.Minute {
		return fmt.Errorf("its time is %v from now, %w", off, err)
	}
	return receiver.VerifyIgnoringTimestamp(body, h)
}

func newApplication(t *testing.T) *application {
	a := &application{told: map[string]int{}, bodies: map[string]string{}, tries: map[string]int{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id := r.Header.Get(web.HeaderID)
	if err := verifies(r.Header, body, a.now()); err != nil {
		a.errs = append(a.errs, err.Error())
	}
	if r.Header.Get("Content-Type") != "application/json" || r.Method != http.MethodPost {
		a.errs = append(a.errs, "not a POST of JSON")
	}
	if before, ok := a.bodies[id]; ok && before != string(body) {
		a.errs = append(a.errs, id+" came with another body")
	}
	a.bodies[id] = string(body)
	a.tries[id]++
	status := http.StatusNoContent
	if a.answer != nil {
		status = a.answer(id, a.tries[id])
	}
	if status/100 == 2 {
		a.told[id]++
	}
	w.Header().Set("Location", "/elsewhere")
	w.WriteHeader(status)
}

// TestForwarding: the application is told of everything, signed, again until it says 2xx. What it does not take is
// shown, and sent again at once where a person asks for it.
func TestForwarding(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			a := newApplication(t)
			var mended atomic.Bool
			a.answer = func(id string, attempt int) int {
				switch {
				case id == "deposit_1" && !mended.Load():
					panic(http.ErrAbortHandler) // the connection breaks
				case id == "deposit_2" && attempt < 8:
					return 422
				case id == "deposit_3" && attempt < 2:
					return 302 // a redirect is not followed
				}
				return 204
			}
			url, service := d.url(t), newService(t, countersigntest.ServiceConfig{})
			silent := newRig(t, url, service, nil) // it forwards nothing
			for i := range 3 {
				silent.deliver(countersigntest.Deposit(i))
			}
			silent.order(1)
			silent.confirmed(1)
			if f, err := client.Get[client.Forwarding](t.Context(), silent.client, "/v1/forwarding"); err != nil || f.On || f.Waiting != 0 || f.Begun != 0 {
				t.Errorf("before: %+v, %v", f, err)
			}
			if d.name == "sqlite" {
				ok(t, silent.db.Close())
			}
			r := newRig(t, url, service, func(c *Config) { c.Forward = Forwarding{URL: a.URL, Secret: testSecret} })
			a.now = r.clock.now
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			r.sender.poll = 5 * time.Millisecond // the clock is not the real one
			go func() { ended <- r.Run(ctx) }()
			status := func(want string, is func(client.Forwarding) bool) {
				t.Helper()
				r.until(want, func() bool {
					f := must(client.Get[client.Forwarding](t.Context(), r.client, "/v1/forwarding"))(t)
					return is(f)
				})
			}
			status("three have failed, and one was told", func(f client.Forwarding) bool {
				return f.On && f.Begun != 0 && f.Waiting == 3 && len(f.Failed) == 3 && f.Oldest != 0 &&
					strings.HasPrefix(f.Failed[0].LastError, "failed: ") && f.Failed[1].LastError == "status 422" && f.Failed[2].LastError == "status 302"
			})
			mended.Store(true)
			if n, err := client.Post[client.RetriedForwards](t.Context(), r.client, "/v1/forwarding/retry", nil); err != nil || n.Retried != 3 {
				t.Errorf("%+v retried, %v", n, err)
			}
			for attempt := 2; attempt < 8; attempt++ {
				status("one failed again", func(f client.Forwarding) bool {
					return len(f.Failed) == 1 && f.Failed[0].ID == "deposit_2" && f.Failed[0].Attempts == attempt && !f.Failed[0].Sending
				})
				r.clock.advance(24 * time.Hour) // brings the next attempt
			}
			status("nothing is left", func(f client.Forwarding) bool { return f.Waiting == 0 && f.Oldest == 0 })
			if r.records(`"forwarding.begun"`) != 1 || r.records(`"forward.retried"`) != 1 {
				t.Error("the audit log has other records")
			}
			cancel()
			ok(t, <-ended)
			a.mu.Lock()
			defer a.mu.Unlock()
			if diff := cmp.Diff(map[string]int{"deposit_1": 1, "deposit_2": 1, "deposit_3": 1, "event_1": 1}, a.told); diff != "" || len(a.errs) > 0 {
				t.Errorf("%v\n%s", a.errs, diff)
			}
			checkForwardBodies(t, a)
			if strings.Contains(r.log.String(), a.URL) || strings.Contains(r.log.String(), string(testSecret)) {
				t.Error("the log holds the URL or the secret")
			}
		})
	}
}

func checkForwardBodies(t *testing.T, a *application) {
	var m struct {
		Type      string
		Timestamp time.Time
		Data      struct {
			Seq        int64
			TrackingID string
			CallBackID string
			Amount     string
		}
	}
	ok(t, json.Unmarshal([]byte(a.bodies["deposit_1"]), &m))
	if m.Type != "deposit.taken" || m.Data.Seq != 1 || m.Data.TrackingID != "deposit-0" || m.Data.Amount != "1.00" || m.Timestamp.Year() != 2030 {
		t.Errorf("deposit: %s", a.bodies["deposit_1"])
	}
	ok(t, json.Unmarshal([]byte(a.bodies["event_1"]), &m))
	if m.Type != string(client.EventOrderConfirmed) || m.Data.CallBackID != "order-1" {
		t.Errorf("event: %s", a.bodies["event_1"])
	}
}

func TestConfig(t *testing.T) {
	s := openDB(t, dialects[0].url(t))
	callbacks := newService(t, countersigntest.ServiceConfig{}).MerchantConfig()
	const app = "https://app.example/in"
	bad := []Config{{}, {DB: s}}
	for _, f := range []Forwarding{
		{URL: app}, {URL: app, Secret: web.Secret("short")}, {URL: "http://app.example/in", Secret: testSecret}, {URL: "http://10.0.0.1/in", Secret: testSecret},
		{URL: "http://localhost.example/in", Secret: testSecret}, {URL: "nats://127.0.0.1/feeds", Secret: testSecret}, {URL: "ftp://app.example/in", Secret: testSecret},
		{URL: "https://u:p@app.example/in", Secret: testSecret}, {URL: "https:///in", Secret: testSecret},
	} {
		bad = append(bad, Config{DB: s, Callbacks: callbacks, Forward: f})
	}
	for _, v := range []Verifying{
		{URL: "ftp://x", Secret: testSecret}, {URL: "http://u:p@x", Secret: testSecret}, {URL: "http://x", Secret: testSecret[:8]},
		{URL: "http://x", Secret: testSecret, Timeout: -1}, {URL: "http://x", Secret: testSecret, For: -1},
	} {
		bad = append(bad, Config{DB: s, Callbacks: callbacks, Verify: v})
	}
	for _, c := range bad {
		if _, err := New(c); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s, %s: %v", c.Forward.URL, c.Verify.URL, err)
		}
	}
	for _, text := range []string{app, "http://localhost:1/in", "http://127.8.0.1/in", "http://[::1]:80/in"} {
		if _, err := New(Config{DB: s, Callbacks: callbacks, Forward: Forwarding{URL: text, Secret: testSecret}}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
