package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

const tokenFile = daemon.TokenFile

// gatewayKills is how often each database's process is killed.
var gatewayKills = dbtest.Times(25, 8)

// TestGatewayKill kills the gateway with SIGKILL under load, again and again,
// and then holds it to what it had said: every deposit that it answered with
// errCode 0 is in the feed, once; every order that it confirmed stays
// confirmed with the same details; none that it took back is ever confirmed; the
// application was told of every entry of the feeds.
func TestGatewayKill(t *testing.T) {
	dbtest.Whole(t, "this test starts fifty processes")
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testGatewayKill(t, "")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := dbtest.Postgres(t)
		testGatewayKill(t, url, url)
	})
}

func testGatewayKill(t *testing.T, urls ...string) {
	app, secret := newGwApp(t)
	l := newGwLoad(newGwNodes(t, []string{"--forward-url", app.URL, "--forward-secret", secret}, urls...))
	for i := range gatewayKills {
		n, mark := l.nodes[i%len(l.nodes)], time.Now()
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
		l.until("it takes", func() bool { return l.allTake(mark) })
		d, _ := n.process()
		d.kill()
		n.start(t)
	}
	l.until("something of each kind", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.cancelled) > 0 && len(l.outcomes) > len(l.cancelled)
	})
	l.checkTold(app)
	t.Logf("%d kills", gatewayKills)
	l.finish()
}

// gatewayDaemon is a gateway process and the honest service that calls it.
type gatewayDaemon struct {
	t       *testing.T
	args    []string
	data    string
	service *countersigntest.Service
	d       *process
	to      countersigntest.Endpoint
	token   string
}

func newGatewayDaemon(t *testing.T, args ...string) *gatewayDaemon {
	dir := t.TempDir()
	g := &gatewayDaemon{t: t, data: filepath.Join(dir, "data"), service: countersigntest.NewService(t)}
	if i := slices.Index(args, "--data"); i >= 0 {
		g.data = args[i+1]
		args = slices.Delete(slices.Clone(args), i, i+2)
	}
	key, secret, apiKey := filepath.Join(dir, "key"), filepath.Join(dir, "callback-api-key"), filepath.Join(dir, "api-key")
	for path, text := range map[string]string{key: g.service.MerchantKey().PublicBase64(), secret: g.service.CallbackAPIKey().Reveal(), apiKey: g.service.APIKey().Reveal()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.args = append([]string{"gateway", "--data", g.data, "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--service-key", key,
		"--api-key", "@" + apiKey, "--callback-api-key", "@" + secret, "--grace", "1ms"}, args...)
	g.start()
	return g
}

func (g *gatewayDaemon) start() {
	g.t.Helper()
	g.d = startDaemon(g.t, g.args...)
	g.to = countersigntest.ToURLs(g.d.urls["callbacks"]+merchant.DefaultNotifyPath, g.d.urls["callbacks"]+merchant.DefaultWithdrawPath, http.DefaultClient)
	if g.token == "" {
		g.token = adminToken(g.t, g.data)
	}
}

func (g *gatewayDaemon) call(ctx context.Context, method, path string, in, out any) error {
	return call(ctx, method, g.d.url+path, g.token, in, out)
}

// TestGatewayByHand does what a new merchant does: start, order, be asked, look,
// stop, start again.
func TestGatewayByHand(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "policy.toml")
	if err := os.WriteFile(policy, []byte(`default = "ask"`), 0o600); err != nil {
		t.Fatal(err)
	}
	g := newGatewayDaemon(t, "--forward-url", "http://127.0.0.1:1/in", "--policy", policy)
	for _, name := range []string{daemon.MasterKeyFile, tokenFile, daemon.DatabaseFile, daemon.ForwardSecretFile} {
		info, err := os.Stat(filepath.Join(g.data, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	order := `{"callBackId":"order-1","tenantUserId":"60001","address":"TX","chainName":"TRON","symbol":"USDT","amount":"2.50"}`
	flags := []string{"--api", g.d.url, "--data", g.data}
	var o struct{ CallBackID, State, Amount, Reason string }
	if status, _, errOut := shell(t, "{}", append([]string{"orders", "add", "-"}, flags...)...); status != exitFailed ||
		strings.Count(errOut, "body.") != 6 || !strings.Contains(errOut, "body.amount is missing") {
		t.Errorf("an order without members: %d %s", status, errOut)
	}
	if status, _, errOut := shell(t, "", append([]string{"api", "order", "none"}, flags...)...); status != exitFailed || !strings.Contains(errOut, "404 Not Found: there is no such order") {
		t.Errorf("no such order: %d %s", status, errOut)
	}
	app := filepath.Join(t.TempDir(), "app.token")
	mustShell(t, nil, "", append([]string{"token", "new", "till", "--gateway", "role=app", "--out", app}, flags...)...)
	mustShell(t, &o, order, "orders", "add", "-", "--api", g.d.url, "--token", "@"+app)
	ann := filepath.Join(t.TempDir(), "ann.token")
	mustShell(t, nil, "", append([]string{"token", "new", "ann", "--gateway", "role=approver", "--out", ann}, flags...)...)
	mustShell(t, nil, "", "tasks", "approve", "order.order-1", "reason=seen", "--gateway", "--api", g.d.url, "--token", "@"+ann)
	mustShell(t, &o, "", append([]string{"api", "order", "order-1"}, flags...)...)
	if o.State != "approved" || o.Reason != "seen" {
		t.Errorf("approved: %+v", o)
	}
	result := g.service.Deliver(t.Context(), g.to, countersigntest.Withdrawal(1))
	if result.Err != nil || result.Details().Address != "TX" {
		t.Fatalf("%+v, %v", result.Details(), result.Err)
	}
	mustShell(t, &o, "", append([]string{"api", "order", "order-1"}, flags...)...)
	if o.State != "confirmed" || o.Amount != "2.50" {
		t.Errorf("confirmed: %+v", o)
	}
	if result := g.service.Deliver(t.Context(), g.to, countersigntest.Deposit(1)); result.Err != nil {
		t.Fatal(result.Err)
	}
	if status := g.d.stop(t); status != 0 {
		t.Errorf("status %d\n%s", status, g.d.output)
	}
	secrets := []string{g.service.APIKey().Reveal(), g.service.CallbackAPIKey().Reveal(), g.service.MerchantKey().PublicBase64()}
	for _, secret := range secrets {
		if strings.Contains(g.d.output.String(), secret) {
			t.Error("a secret was printed")
		}
	}
	if out := g.d.output.String(); strings.Contains(out, g.token) || !strings.Contains(out, "are new here\" file="+filepath.Join(g.data, tokenFile)) {
		t.Errorf("the log must name the first token's file and not show the token:\n%s", out)
	}
	g.start()
	var stats struct {
		Deposits int
		Orders   map[string]int
	}
	if err := g.call(t.Context(), "GET", "/v1/stats", nil, &stats); err != nil || stats.Deposits != 1 || stats.Orders["confirmed"] != 1 {
		t.Errorf("after the restart: %+v, %v", stats, err)
	}
}

// TestGatewayKeys: both sets of keys are those of the flags, each with its own key for answers.
func TestGatewayKeys(t *testing.T) {
	var files []string
	var prints [2]string
	for i := range prints {
		key, _ := pairOf(t)
		files, prints[i] = append(files, filepath.Join(t.TempDir(), "key")), key.Fingerprint()
		if err := os.WriteFile(files[i], []byte(key.PublicBase64()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var m merchant.Config
	c := &gatewayCmd{ServiceKey: files, ResponseKey: []string{files[1], files[0]}}
	if err := c.readKeys(&m, streams{}); err != nil {
		t.Fatal(err)
	}
	if got := [4]string{m.Key.Fingerprint(), m.NextKey.Fingerprint(), m.ResponseKey.Fingerprint(), m.NextResponseKey.Fingerprint()}; got != [4]string{prints[0], prints[1], prints[1], prints[0]} {
		t.Errorf("%q of %q", got, prints)
	}
}

// TestGatewayStartsWrongly: what cannot work is said at the start.
func TestGatewayStartsWrongly(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	service := countersigntest.NewService(t)
	key, noKey := file("key", service.MerchantKey().PublicBase64()), file("nokey", "SECRET")
	own, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	ownPEM, err := own.PrivatePEM()
	if err != nil {
		t.Fatal(err)
	}
	pair := file("pair", string(ownPEM))
	signingPEM, err := envelope.GenerateSigningKey().PrivatePEM()
	if err != nil {
		t.Fatal(err)
	}
	signing := file("signing", string(signingPEM))
	good := []string{"gateway", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no key":          {[]string{"--api-key", "k"}, "--service-key is missing"},
		"no api key":      {[]string{"--service-key", key}, "--api-key is missing"},
		"bad key":         {[]string{"--api-key", "k", "--service-key", noKey}, "--service-key:"},
		"no file":         {[]string{"--api-key", "@" + dir + "/none", "--service-key", key}, "--api-key"},
		"same paths":      {[]string{"--api-key", "k", "--service-key", key, "--notify-path", "/a", "--withdraw-path", "/a"}, "a path of its own"},
		"policy":          {[]string{"--api-key", "k", "--service-key", key, "--policy", file("p.toml", "nonsense = 1")}, "--policy"},
		"forward url":     {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "ftp://x"}, "forward URL"},
		"forward scheme":  {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "amqp://u:SECRET@x/q"}, "the forward URL must be https://HOST/PATH"},
		"forward plain":   {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "http://app.example/SECRET"}, "give https://, or http:// to 127.0.0.1"},
		"forward what":    {[]string{"--api-key", "k", "--service-key", key, "--forward-only-new"}, "--forward-only-new: there is no --forward-url"},
		"forward secret":  {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "https://x", "--forward-secret", "SECRET"}, "--forward-secret:"},
		"one secret":      {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "https://x", "--db", "postgres://nowhere.invalid/x"}, "--forward-secret is missing"},
		"no text":         {[]string{"--config", file("c.toml", "[gateway]\napi-key = 5")}, "--api-key: [gateway] of the settings file has a value that is not a text"},
		"no texts":        {[]string{"--config", file("d.toml", "[gateway]\ncallback-api-key = [\"a\", 5]")}, "--callback-api-key: [gateway] of the settings file has a value that is not a text"},
		"no response key": {[]string{"--api-key", "k", "--callback-api-key", "c", "--service-key", pair}, "--response-key is missing"},
		"a private key":   {[]string{"--api-key", "k", "--service-key", pair}, "--service-key: that is a private key"},
		"private answers": {[]string{"--api-key", "k", "--service-key", key, "--response-key", pair}, "--response-key: that is a private key"},
		"private signer": {[]string{"--api-key", "k", "--service-key", key, "--public-url", "https://x", "--service-signing-key", signing},
			"--service-signing-key: that is a private key"},
		"typed private key": {[]string{"--api-key", "k", "--service-key", string(ownPEM)}, "that is a private key"},
		"no callback key":   {[]string{"--api-key", "k", "--service-key", pair, "--response-key", key}, "--callback-api-key is missing"},
		"binding":           {[]string{"--api-key", "k", "--service-key", key, "--binding", "maybe"}, "--binding"},
	} {
		status, out, errOut := shell(t, "", append(append([]string{}, good...), c.args...)...)
		if status == exitDone || !strings.Contains(errOut, c.want) || strings.Contains(out+errOut, "SECRET") || strings.Contains(out+errOut, "BEGIN PRIVATE") {
			t.Errorf("%s: %d %s", name, status, errOut)
		}
	}
}
