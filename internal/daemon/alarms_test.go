package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/signed"
)

// alarmApp takes alarms, refuses the first attempt of each and writes down what came.
type alarmApp struct {
	*httptest.Server
	secret signed.Secret
	t      *testing.T
	mu     sync.Mutex
	bodies map[string][]string // by webhook-id
}

func startAlarmApp(t *testing.T) *alarmApp {
	secret, err := signed.ParseSecret("whsec_c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMsIG9rIQ==")
	if err != nil {
		t.Fatal(err)
	}
	a := &alarmApp{secret: secret, t: t, bodies: map[string][]string{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *alarmApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if err := signed.Verify(a.secret, r.Header, body, time.Now(), signed.DefaultTolerance); err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id := r.Header.Get(signed.HeaderID)
	a.bodies[id] = append(a.bodies[id], string(body))
	if len(a.bodies[id]) == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// told waits until the alarm was told in n attempts, all with the same body, and gives
// that.
func (a *alarmApp) told(id string, n int) (body string) {
	a.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		a.mu.Lock()
		got := a.bodies[id]
		a.mu.Unlock()
		if len(got) >= n {
			for _, b := range got {
				if len(got) != n || b != got[0] {
					a.t.Errorf("%s was told in %d attempts, want %d: %q", id, len(got), n, got)
				}
			}
			return got[0]
		}
		if time.Since(began) > 5*time.Minute {
			a.t.Fatalf("%s was told in %d attempts, want %d", id, len(got), n)
		}
	}
}

// TestAlarmURL: both ends post their alarms until they are taken, also those that were
// raised while nobody posted, and none after it was taken, whatever restarts.
func TestAlarmURL(t *testing.T) {
	app := startAlarmApp(t)
	dir := t.TempDir()
	start := func() (api *client.Service, stop func()) {
		token := ""
		s, err := NewService(ServiceConfig{Storage: Storage{Dir: filepath.Join(dir, "service")}, Listen: "127.0.0.1:0",
			Alarms: AlarmPosting{URL: app.URL, Secret: app.secret}, ShowToken: func(first, _ string) { token = first }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := s.Open(ctx); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		if token != "" {
			if api, err = client.NewService(client.Config{URL: s.URL(), Token: client.Secret(token)}); err != nil {
				t.Fatal(err)
			}
		}
		return api, func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	api, stop := start()
	if _, err := api.Freeze(t.Context(), "a token was lost"); err != nil {
		t.Fatal(err)
	}
	app.told("service_alarm_1", 1)
	stop() // its second attempt is another process's
	_, stop = start()
	var m client.PostedAlarm
	if err := json.Unmarshal([]byte(app.told("service_alarm_1", 2)), &m); err != nil || m.Type != client.MessageAlarmRaised || m.Data.Kind != client.AlarmFrozen ||
		m.Data.Subject != "a token was lost" || m.Data.Seq != 1 || m.Timestamp != m.Data.First || m.Data.Acked != 0 {
		t.Errorf("told %+v, %v", m, err)
	}
	time.Sleep(2 * alarmPoll)
	stop()
	app.told("service_alarm_1", 2)

	if _, err := NewService(ServiceConfig{Storage: Storage{Dir: dir, DB: "postgres://x"}, Listen: "127.0.0.1:0", Alarms: AlarmPosting{URL: app.URL}}); !errors.Is(err, ErrAlarmSecret) {
		t.Errorf("no secret beside a shared database: %v", err)
	}
}

// TestGatewayAlarmURL: a gateway posts its alarms, signed with the secret that its first
// start makes.
func TestGatewayAlarmURL(t *testing.T) {
	app := startAlarmApp(t)
	dir := t.TempDir()
	secret, err := Storage{Dir: dir}.signingSecret(AlarmSecretFile)
	if err != nil {
		t.Fatal(err)
	}
	app.secret = secret
	key, _ := newPair(t)
	c := GatewayConfig{Storage: Storage{Dir: dir}, Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0", Alarms: AlarmPosting{URL: app.URL}}
	c.Callbacks.Key, c.Callbacks.APIKey = key, apiKey
	g, err := NewGateway(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := g.Open(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	time.Sleep(100 * time.Millisecond) // posting has begun: what was raised before is not posted
	if err := g.Book().RaiseAlarm(ctx, db.Alarm{Kind: "order_unknown", Subject: "w-1", At: 5}); err != nil {
		t.Fatal(err)
	}
	var m client.PostedAlarm
	if err := json.Unmarshal([]byte(app.told("gateway_alarm_1", 2)), &m); err != nil || m.Data.Kind != "order_unknown" || m.Data.Subject != "w-1" {
		t.Errorf("told %+v, %v", m, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
