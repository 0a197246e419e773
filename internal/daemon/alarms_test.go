package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/web"
)

// alarmApp takes alarms, refuses the first attempt of each and writes down what came.
type alarmApp struct {
	*httptest.Server
	secret web.Secret
	t      *testing.T
	takes  atomic.Bool // also the first attempt
	mu     sync.Mutex
	bodies map[string][]string // by webhook-id
}

func startAlarmApp(t *testing.T) *alarmApp {
	a := &alarmApp{secret: testSecret, t: t, bodies: map[string][]string{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *alarmApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	receiver, _ := standardwebhooks.NewWebhookRaw(a.secret)
	if err := receiver.Verify(body, r.Header); err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id := r.Header.Get(web.HeaderID)
	a.bodies[id] = append(a.bodies[id], string(body))
	if len(a.bodies[id]) == 1 && !a.takes.Load() {
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
				if len(got) != n || withoutCheckpoint(a.t, b) != withoutCheckpoint(a.t, got[0]) {
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

// withoutCheckpoint is a message without what is of the time of its attempt. It must have one.
func withoutCheckpoint(t *testing.T, body string) string {
	t.Helper()
	before, after, found := strings.Cut(body, `"checkpoint":"countersign-`)
	_, end, whole := strings.Cut(after, `"`)
	if !found || !whole {
		t.Errorf("no checkpoint is in %s", body)
	}
	return before + end
}

// TestAlarmURL: a service posts what there is to tell of its alarms until it is taken, also what
// happened while nobody posted or before a process died, and nothing after it was taken,
// whatever restarts.
func TestAlarmURL(t *testing.T) {
	alarmDelay = func(int, float64) time.Duration { return 50 * time.Millisecond }
	defer func() { alarmDelay = web.RetryDelay }()
	often := World{World: db.World{Every: func(time.Duration) time.Duration { return 10 * time.Millisecond }}}
	app := startAlarmApp(t)
	dir, token := t.TempDir(), ""
	open := func() *Service {
		s := must(NewService(ServiceConfig{Common: Common{Storage: Storage{Dir: filepath.Join(dir, "service"), World: often}, Alarms: AlarmPosting{URL: app.URL, Secret: app.secret}, ShowToken: func(first, _ string) { token = first }},
			Listen: "127.0.0.1:0"}))
		ok(t, s.Open(t.Context()))
		return s
	}
	start := func() (api *client.Service, stop func()) {
		s := open()
		return must(client.NewService(client.Config{URL: s.URL(), Token: client.Secret(token)})), run(t, s.Run)
	}
	api, stop := start()
	must(api.Freeze(t.Context(), "a token was lost"))
	app.told("service_alarm_1", 1)
	stop() // its second attempt is another process's
	died := open()
	ok(t, died.Outbox().RaiseAlarm(t.Context(), client.Alarm{Merchant: "shop", Kind: client.AlarmAnswerUnusable, Subject: "shop.x", First: db.MillisOf(time.Now()), Number: 400}))
	ok(t, died.Close()) // it never ran
	api, stop = start()
	read := func(id string) (m client.PostedAlarm) {
		t.Helper()
		ok(t, json.Unmarshal([]byte(app.told(id, 2)), &m))
		return m
	}
	if m := read("service_alarm_1"); m.Event != client.MessageAlarmRaised || m.Data.Kind != client.AlarmFrozen || m.Data.Subject != "a token was lost" || m.Data.Seq != 1 ||
		m.Timestamp != m.Data.First || m.Data.Acked != 0 {
		t.Errorf("told %+v", m)
	}
	if m := read("service_alarm_2"); m.Data.Kind != client.AlarmAnswerUnusable || m.Data.Number != 400 { // one message
		t.Errorf("told %+v", m)
	}
	must(api.AckAlarm(t.Context(), 1, client.Ack{Note: "looked at"}))
	must(api.Thaw(t.Context()))
	if m := read("service_alarm_1_ended"); m.Event != client.MessageAlarmEnded || m.Data.Kind != client.AlarmFrozen || m.Timestamp != m.Data.Ended || m.Data.EndedText != client.AlarmFrozen.Ended() || m.Data.Acked != 0 {
		t.Errorf("told %+v", m)
	}
	read("service_alarm_3") // that it was resumed
	for i, taken := range []bool{false, true, true} {
		// The application refuses the first attempt of each message, and a test is not tried again.
		if i == 1 {
			app.takes.Store(true)
		}
		if test, err := client.Post[client.AlarmTest](t.Context(), api, "/v1/alarms/test", nil); err != nil || test.Taken != taken || test.Status/100 != map[bool]int{false: 5, true: 2}[taken] {
			t.Errorf("a test: %+v, %v", test, err)
		}
	}
	time.Sleep(20 * time.Millisecond) // for what must not come
	stop()
	app.mu.Lock()
	tests := 0
	for id, got := range app.bodies {
		if strings.HasPrefix(id, "service_alarm_test_") {
			if tests++; len(got) != 1 || !strings.Contains(got[0], `"event":"alarm.test"`) || strings.Contains(got[0], `"data"`) {
				t.Errorf("a test was posted as %q", got)
			}
			continue
		}
		if len(got) != 2 {
			t.Errorf("%s was told %d times", id, len(got))
		}
	}
	if tests != 3 || len(app.bodies) != 4+3 {
		t.Errorf("told %d messages", len(app.bodies))
	}
	app.mu.Unlock()
}
