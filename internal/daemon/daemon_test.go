package daemon

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/gateway"
	"countersign/internal/lab/dbtest"
	"countersign/internal/web"
	"countersign/merchant"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(rekeyRunEnv); text != "" {
		os.Exit(rekeyChild(text))
	}
	goleak.VerifyTestMain(withDatabases{m})
}

// withDatabases stops the databases that tests have started.
type withDatabases struct{ m *testing.M }

func (w withDatabases) Run() int { return dbtest.Run(w.m) }

// testSecret signs what is posted.
var testSecret = must(web.ParseSecret("whsec_c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMsIG9rIQ=="))

const apiKey countersign.APIKey = "the-api-key-of-the-shop"

// run runs a daemon until stop, which the end of the test calls at the latest. It must end without an error.
func run(t *testing.T, daemon func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- daemon(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// startService runs a service until the test ends, and returns it with its first token.
func startService(t *testing.T, c ServiceConfig) (s *Service, token client.Secret) {
	t.Helper()
	c.Listen = "127.0.0.1:0"
	c.ShowToken = func(first, _ string) { token = client.Secret(first) }
	s = must(NewService(c))
	ok(t, s.Open(t.Context()))
	run(t, s.Run)
	return s, token
}

// serviceAt is a service with its data in dir.
func serviceAt(dir string) *Service {
	return must(NewService(ServiceConfig{Common: Common{Storage: Storage{Dir: dir}}, Listen: "127.0.0.1:0"}))
}

// newPair returns the public part, for the merchant, and the private one, for the
// service.
func newPair(t *testing.T) (*envelope.Key, string) {
	t.Helper()
	pair := must(envelope.GenerateKey(1024))
	private := must(pair.PrivatePEM())
	return pair.Public(), string(private)
}

// bothEnds runs a service and a gateway that know each other as "shop".
type bothEnds struct {
	t       *testing.T
	service *Service
	gateway *Gateway
	api     *client.Service
	there   *client.Gateway
	stop    func() // ends both
}

func startBoth(t *testing.T, dir, serviceDB, gatewayDB string) *bothEnds {
	t.Helper()
	token, gatewayToken := "", ""
	service := must(NewService(ServiceConfig{
		Common: Common{Storage: Storage{Dir: filepath.Join(dir, "service"), DB: serviceDB}, ShowToken: func(first, _ string) { token = first }},
		Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true,
	}))
	key, private := newPair(t)
	g := must(NewGateway(GatewayConfig{
		Common: Common{Storage: Storage{Dir: filepath.Join(dir, "merchant"), DB: gatewayDB}, ShowToken: func(first, _ string) { gatewayToken = first }},
		Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0",
		Callbacks: merchant.Config{Key: key, APIKey: apiKey}, Forward: gateway.Forwarding{URL: "http://127.0.0.1:1/in", Secret: testSecret}, // where nobody listens
	}))
	ok(t, errors.Join(service.Open(t.Context()), g.Open(t.Context())))
	b := &bothEnds{t: t, service: service, gateway: g}
	b.stop = run(t, func(ctx context.Context) error {
		return RunParts(ctx, Part{"service", service.Run}, Part{"gateway", g.Run})
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	b.api = must(client.NewService(client.Config{URL: service.URL(), Token: client.Secret(token), HTTPClient: &http.Client{Transport: transport}}))
	b.there = must(client.NewGateway(client.Config{URL: g.URL(), Token: client.Secret(gatewayToken), HTTPClient: &http.Client{Transport: transport}}))
	must(b.api.CreateMerchant(t.Context(), client.NewMerchant{
		ID:               "shop",
		Key:              &client.KeySpec{PrivateKey: client.Secret(private)},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: g.CallbackURL() + merchant.DefaultNotifyPath, WithdrawURL: g.CallbackURL() + merchant.DefaultWithdrawPath},
		MerchantSecrets:  client.MerchantSecrets{APIKey: client.Secret(apiKey.Reveal())},
	}))
	return b
}

// await polls until ok.
func (b *bothEnds) await(what string, ok func(context.Context) (bool, error)) {
	b.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		done, err := ok(b.t.Context())
		if err != nil {
			b.t.Fatalf("%s: %v", what, err)
		}
		if done {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: it does not happen", what)
		}
	}
}

// figures returns the metrics at url once they have all lines: what a transaction did is counted
// after it, so whoever sees a row may ask before it is counted.
func (b *bothEnds) figures(url string, lines ...string) (metrics string) {
	b.t.Helper()
	for _, line := range lines {
		b.await(url+"/metrics has "+line, func(context.Context) (bool, error) {
			var status int
			status, metrics = get(b.t, url+"/metrics")
			return status == http.StatusOK && strings.Contains(metrics, line), nil
		})
	}
	return metrics
}

func get(t *testing.T, url string) (status int, body string) { return getAs(t, url, "") }

// getAs is get with a host of the caller's; empty: that of the URL.
func getAs(t *testing.T, url, host string) (status int, body string) {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), "GET", url, nil))
	r.Host = host
	transport := &http.Transport{DisableKeepAlives: true}
	resp := must((&http.Client{Transport: transport}).Do(r))
	defer resp.Body.Close()
	b := must(io.ReadAll(resp.Body))
	return resp.StatusCode, string(b)
}

// TestNoticed: who watches is told first, and what runs ends after the notice, or when a part has failed.
func TestNoticed(t *testing.T) {
	for _, notice := range []time.Duration{0, time.Millisecond, time.Hour} {
		ctx, end := context.WithCancel(t.Context())
		left := make(chan struct{})
		run, cancel := noticed(ctx, notice, func() { close(left) })
		if run.Err() != nil {
			t.Error("it ended before its time")
		}
		end()
		<-left
		if notice == time.Hour {
			if run.Err() != nil {
				t.Error("it ended before the notice was over")
			}
			cancel() // a part has failed
		}
		<-run.Done()
		cancel()
	}
}

// TestRefusedStarts: what cannot work is said by New or Open, which leave nothing open. A first start leaves nothing
// behind that lacks what is required or cannot listen.
func TestRefusedStarts(t *testing.T) {
	_, taken := served(t, 10, http.NotFoundHandler())
	key, _ := newPair(t)
	dir, ours, exposed, fresh := t.TempDir(), t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "data")
	ok(t, os.WriteFile(filepath.Join(exposed, MasterKeyFile), []byte(strings.Repeat("ab", 32)), 0o644))
	refused := func(want string, end interface{ Open(context.Context) error }, err error) {
		t.Helper()
		for range 2 { // the second time shows that the first has left the directory free
			is := err
			if is == nil {
				is = end.Open(t.Context())
			}
			if is == nil || !strings.Contains(is.Error(), want) {
				t.Errorf("%v, want %q", is, want)
			}
		}
	}
	service := func(want, dir string, change func(*ServiceConfig)) {
		t.Helper()
		c := ServiceConfig{Common: Common{Storage: Storage{Dir: dir}}, Listen: "127.0.0.1:0"}
		change(&c)
		s, err := NewService(c)
		refused(want, s, err)
	}
	shop := func(want, dir string, change func(*GatewayConfig)) {
		t.Helper()
		c := GatewayConfig{Common: Common{Storage: Storage{Dir: dir}}, Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0",
			Callbacks: merchant.Config{Key: key, APIKey: apiKey}}
		change(&c)
		g, err := NewGateway(c)
		refused(want, g, err)
	}
	service("ServiceConfig.Dir is missing", "", func(*ServiceConfig) {})
	service("ServiceConfig.Listen is missing", fresh, func(c *ServiceConfig) { c.Listen = "" })
	service("listening on "+taken, fresh, func(c *ServiceConfig) { c.MetricsListen = taken })
	shop("GatewayConfig.Dir is missing", "", func(*GatewayConfig) {})
	shop("APIListen is missing", fresh, func(c *GatewayConfig) { c.APIListen = "" })
	shop("listening on "+taken, fresh, func(c *GatewayConfig) { c.APIListen = taken })
	if _, err := os.Stat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s was made: %v", fresh, err)
	}
	service("can be read by others (mode 0644)", exposed, func(*ServiceConfig) {})
	service("a setting is below 0", dir, func(c *ServiceConfig) { c.ExchangeTimeout = -time.Second })
	service("listening on "+taken, dir, func(c *ServiceConfig) { c.Listen = taken }) // its database is there
	shop("belongs to the service", dir, func(*GatewayConfig) {})
	shop("APIKey", ours, func(c *GatewayConfig) { c.Callbacks.APIKey = "" })
	shop("forward URL", ours, func(c *GatewayConfig) { c.Forward = gateway.Forwarding{URL: "ftp://app", Secret: testSecret} })
}

var ok = dbtest.OK

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestStartOnFullDisk: a start beside an existing master key writes no other one, and
// says what is the matter.
func TestStartOnFullDisk(t *testing.T) {
	dir := dbtest.SmallDisk(t, 2<<20)
	data := filepath.Join(dir, "data")
	open := func() error {
		s := serviceAt(data)
		if err := s.Open(t.Context()); err != nil {
			return err
		}
		return s.Close()
	}
	ok(t, open())
	names := func() string {
		var list []string
		for _, f := range must(os.ReadDir(data)) {
			if !strings.Contains(f.Name(), "-") { // the log comes and goes
				list = append(list, f.Name())
			}
		}
		return strings.Join(list, " ")
	}
	before := names()
	f := must(os.Create(filepath.Join(dir, "ballast")))
	defer f.Close()
	for err := error(nil); err == nil; _, err = f.Write(make([]byte, 512)) {
	}
	if err := open(); err != nil && !errors.Is(err, db.ErrFull) {
		t.Errorf("on a full disk: %v", err)
	}
	if found := serviceAt(data).Check(t.Context())[1]; found.OK || !strings.Contains(found.Text, "has 0 KiB left") {
		t.Errorf("on a full disk, the check finds %+v", found)
	}
	if after := names(); after != before {
		t.Errorf("the files were %s and are %s", before, after)
	}
}

// TestRunParts: the end or failure of one part ends the others, and each failure
// is named.
func TestRunParts(t *testing.T) {
	drained := false
	err := RunParts(t.Context(),
		Part{"one", func(context.Context) error { return errors.New("broken") }},
		Part{"two", func(ctx context.Context) error { <-ctx.Done(); drained = true; return ctx.Err() }},
		Part{"three", func(ctx context.Context) error { <-ctx.Done(); return errors.New("late") }})
	if !drained || err == nil || !strings.Contains(err.Error(), "one: broken") || !strings.Contains(err.Error(), "three: late") ||
		strings.Contains(err.Error(), "two") {
		t.Errorf("drained %v, error %v", drained, err)
	}
}
