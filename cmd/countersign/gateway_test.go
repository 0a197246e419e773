package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// gatewayKills is how often each database's process is killed.
var gatewayKills = dbtest.Times(25, 5)

// TestGatewayKill kills the gateway with SIGKILL under load, again and again,
// and then holds it to what it had said: every deposit that it answered with
// errCode 0 is in the feed, once; every order that it confirmed stays
// confirmed with the same details; none that it took back is ever confirmed; the
// application was told of every entry of the feeds.
func TestGatewayKill(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test starts fifty processes")
	}
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testGatewayKill(t)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		testGatewayKill(t, "--db", dbtest.Postgres(t))
	})
}

func testGatewayKill(t *testing.T, args ...string) {
	app, secret := newGwApp(t)
	args = append(args, "--forward-url", app.URL, "--forward-secret", secret)
	l := &gatewayLoad{gatewayDaemon: newGatewayDaemon(t, args...), taken: map[string]bool{}, told: map[string]countersign.Details{},
		ordered: map[string]bool{}, cancelled: map[string]bool{}}
	for i := range gatewayKills {
		l.runUntilKilled(func() bool { return i < gatewayKills-1 || l.complete() })
		l.start()
	}
	entries, again := l.allTold(app)
	l.finish()
	t.Logf("%d kills, %d deposits acknowledged, %d orders, %d confirmed, %d cancelled; %d entries forwarded, %d of them more than once", gatewayKills,
		len(l.taken), len(l.ordered), len(l.told), len(l.cancelled), entries, again)
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

// gatewayLoad writes down what was acknowledged.
type gatewayLoad struct {
	*gatewayDaemon
	mu                         sync.Mutex
	n                          int
	taken, ordered, cancelled  map[string]bool
	told                       map[string]countersign.Details // by callBackId, what was confirmed
	lostDeposits, lostQuestion []int                          // whose answer did not come
}

// runUntilKilled loads the process and kills it at a random moment, but not
// before enough: a slow machine may need longer to have something to lose.
func (l *gatewayLoad) runUntilKilled(enough func() bool) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var work sync.WaitGroup
	for _, f := range []func(context.Context) error{l.deposit, l.deposit, l.deposit, l.deposit, l.withdraw, l.withdraw} {
		work.Go(func() { untilKilled(ctx, f) })
	}
	time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
	waitUntil(l.t, "something acknowledged of each kind", l.d.output.String, enough)
	l.d.kill()
	cancel()
	work.Wait()
}

// untilKilled repeats f until ctx ends. A call that fails is followed by the
// next: it may have been cut off by the kill, or by a time-out before it.
func untilKilled(ctx context.Context, f func(context.Context) error) {
	for ctx.Err() == nil {
		if f(ctx) != nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// complete reports whether something of each kind was acknowledged.
func (l *gatewayLoad) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.taken) > 0 && len(l.told) > 0 && len(l.cancelled) > 0
}

// next gives the number of something new, or now and then one whose answer was
// lost.
func (l *gatewayLoad) next(lost *[]int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(*lost); n > 0 && rand.IntN(3) == 0 {
		again := (*lost)[n-1]
		*lost = (*lost)[:n-1]
		return again
	}
	l.n++
	return l.n
}

func (l *gatewayLoad) deposit(ctx context.Context) error {
	n := l.next(&l.lostDeposits)
	result := l.service.Deliver(ctx, l.to, countersigntest.Deposit(n))
	l.mu.Lock()
	defer l.mu.Unlock()
	if result.Err != nil {
		l.lostDeposits = append(l.lostDeposits, n)
		return result.Err
	}
	l.taken[countersigntest.Deposit(n).TrackingID] = true
	return nil
}

// withdraw orders a withdrawal, takes some back, and lets the service ask.
func (l *gatewayLoad) withdraw(ctx context.Context) error {
	n := l.next(&l.lostQuestion)
	w, details := countersigntest.Withdrawal(n), countersigntest.Order(n)
	lost := func(err error) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lostQuestion = append(l.lostQuestion, n)
		return err
	}
	err := l.call(ctx, "POST", "/v1/orders", map[string]any{"callBackId": w.CallBackID, "tenantUserId": w.TenantUserID, "address": details.Address,
		"chainName": details.ChainName, "symbol": details.Symbol, "amount": details.Amount.String()}, nil)
	if err != nil {
		return lost(err)
	}
	l.mu.Lock()
	l.ordered[w.CallBackID] = true
	l.mu.Unlock()
	if n%3 == 0 {
		err := l.call(ctx, "POST", "/v1/orders/"+w.CallBackID+"/cancel", map[string]any{}, nil)
		var refused *apiError
		switch {
		case errors.As(err, &refused) && refused.status == http.StatusConflict: // confirmed before an answer was lost
		case err != nil:
			return lost(err)
		default:
			l.mu.Lock()
			l.cancelled[w.CallBackID] = true
			l.mu.Unlock()
		}
	}
	return l.ask(ctx, n, lost)
}

func (l *gatewayLoad) ask(ctx context.Context, n int, lost func(error) error) error {
	id := countersigntest.Withdrawal(n).CallBackID
	result := l.service.Deliver(ctx, l.to, countersigntest.Withdrawal(n))
	var refused *countersigntest.Refusal
	switch {
	case errors.As(result.Err, &refused) && refused.Code == countersign.CodeInternal:
		return lost(nil) // another process had been deciding when it died
	case errors.As(result.Err, &refused):
		if refused.Code != countersign.CodeOrderCancelled {
			l.t.Errorf("%s: errCode %d", id, refused.Code)
		}
		return nil
	case result.Err != nil:
		return lost(result.Err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancelled[id] {
		l.t.Errorf("%s was confirmed after it was taken back", id)
	}
	if before, ok := l.told[id]; ok && before.Differs(result.Withdrawal.Details) != "" {
		l.t.Errorf("%s was confirmed with %v and then %v", id, before, result.Withdrawal.Details)
	}
	l.told[id] = result.Withdrawal.Details
	return nil
}

// allTold waits until nothing is left to be forwarded, and wants the application to
// have been told of every entry. It says how many there are, and how many came again.
func (l *gatewayLoad) allTold(app *gwApp) (entries, again int) {
	l.t.Helper()
	var stats struct{ Deposits, Events, Forwards int }
	await(l.t, l.d, func() bool {
		if err := l.call(l.t.Context(), "GET", "/v1/stats", nil, &stats); err != nil {
			l.t.Fatal(err)
		}
		return stats.Forwards == 0
	})
	app.mu.Lock()
	defer app.mu.Unlock()
	for _, n := range app.tries {
		if n > 1 {
			again++
		}
	}
	if entries = stats.Deposits + stats.Events; len(app.tries) != entries || len(app.faults) > 0 {
		l.t.Errorf("%d messages for %d entries; %v", len(app.tries), entries, app.faults)
	}
	return entries, again
}

// finish checks everything against the last process.
func (l *gatewayLoad) finish() {
	t, ctx := l.t, l.t.Context()
	inFeed := map[string]bool{}
	for after := int64(0); ; {
		var page struct {
			Deposits []struct {
				Seq        int64
				TrackingID string
				State      string
			}
		}
		if err := l.call(ctx, "GET", fmt.Sprintf("/v1/deposits?limit=1000&after=%d", after), nil, &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Deposits) == 0 {
			break
		}
		for _, d := range page.Deposits {
			if after++; d.Seq != after || inFeed[d.TrackingID] || d.State != "taken" {
				t.Errorf("the feed has %+v as number %d", d, after)
			}
			inFeed[d.TrackingID] = true
		}
	}
	for trackingID := range l.taken {
		if !inFeed[trackingID] {
			t.Errorf("deposit %s was acknowledged and is not in the feed", trackingID)
		}
	}
	for id := range l.ordered {
		var o struct{ State string }
		if err := l.call(ctx, "GET", "/v1/orders/"+id, nil, &o); err != nil {
			t.Errorf("order %s was acknowledged: %v", id, err)
		}
		_, told := l.told[id]
		if told && o.State != "confirmed" || l.cancelled[id] && o.State != "cancelled" {
			t.Errorf("order %s: told %v, cancelled %v, and is %s", id, told, l.cancelled[id], o.State)
		}
		if told { // asked once more, the same is said
			var n int
			if _, err := fmt.Sscanf(id, "order-%d", &n); err != nil {
				t.Fatal(err)
			}
			if err := l.ask(ctx, n, func(err error) error { return fmt.Errorf("no answer: %w", err) }); err != nil {
				t.Errorf("order %s: %v", id, err)
			}
		}
	}
	if status := l.d.stop(t); status != 0 {
		t.Errorf("it ended with status %d:\n%s", status, l.d.output)
	}
}

// TestGatewayByHand does what a new merchant does: start, order, be asked, look,
// stop, start again.
func TestGatewayByHand(t *testing.T) {
	t.Parallel()
	g := newGatewayDaemon(t, "--forward-url", "http://127.0.0.1:1/in")
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
	if status, _, errOut := shell(t, "", append([]string{"orders", "show", "none"}, flags...)...); status != exitFailed || !strings.Contains(errOut, "404 Not Found: there is no such order") {
		t.Errorf("no such order: %d %s", status, errOut)
	}
	own := `{"callBackId":"order-2","tenantUserId":"60001","address":"TX","chainName":"TRON","symbol":"USDT","amount":"2.50"}`
	mustShell(t, &o, own, append([]string{"orders", "add", "-"}, flags...)...)
	if status, _, errOut := shell(t, strings.Replace(own, "2.50", "3", 1), append([]string{"orders", "add", "-"}, flags...)...); status != exitFailed ||
		strings.Count(errOut, "is in use by an order with another amount") != 1 {
		t.Errorf("other content under its id: %d %s", status, errOut)
	}
	if status, _, errOut := shell(t, "", append([]string{"orders", "approve", "order-2"}, flags...)...); status != exitFailed ||
		!strings.Contains(errOut, "another approver's token can") {
		t.Errorf("approving its own order: %d %s", status, errOut)
	}
	app := filepath.Join(t.TempDir(), "app.token")
	mustShell(t, nil, "", append([]string{"token", "new", "till", "--gateway", "--role", "app", "--out", app}, flags...)...)
	mustShell(t, &o, order, "orders", "add", "-", "--api", g.d.url, "--token", "@"+app)
	if status, _, errOut := shell(t, "", "orders", "approve", "order-1", "--api", g.d.url, "--token", "@"+app); status != exitFailed ||
		!strings.Contains(errOut, "403") {
		t.Errorf("the application approves: %d %s", status, errOut)
	}
	mustShell(t, &o, order, append([]string{"orders", "approve", "order-1", "--reason", "seen"}, flags...)...)
	if o.State != "approved" || o.Reason != "seen" {
		t.Errorf("approved: %+v", o)
	}
	result := g.service.Deliver(t.Context(), g.to, countersigntest.Withdrawal(1))
	if result.Err != nil || result.Withdrawal.Address != "TX" {
		t.Fatalf("%+v, %v", result.Withdrawal, result.Err)
	}
	mustShell(t, &o, "", append([]string{"orders", "show", "order-1"}, flags...)...)
	if o.State != "confirmed" || o.Amount != "2.50" {
		t.Errorf("confirmed: %+v", o)
	}
	for _, again := range []string{"cancel", "decline"} {
		if status, _, errOut := shell(t, "", append([]string{"orders", again, "order-1"}, flags...)...); status != exitFailed || !strings.Contains(errOut, "409") {
			t.Errorf("%s: %d %s", again, status, errOut)
		}
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
	if out := g.d.output.String(); strings.Contains(out, g.token) || !strings.Contains(out, "admin token  in "+filepath.Join(g.data, tokenFile)) {
		t.Errorf("standard output is no terminal; it must name the first token's file and not show the token:\n%s", out)
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

// TestForwardByHand does what a merchant does who adds the forwarding later, to an
// application that does not take everything at first.
func TestForwardByHand(t *testing.T) {
	t.Parallel()
	g := newGatewayDaemon(t)
	for n := range 2 {
		if result := g.service.Deliver(t.Context(), g.to, countersigntest.Deposit(n)); result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	if status := g.d.stop(t); status != 0 {
		t.Fatalf("status %d\n%s", status, g.d.output)
	}
	app, secret := newGwApp(t)
	app.mu.Lock()
	app.refuse = true
	app.mu.Unlock()
	g.args = append(g.args, "--forward-url", app.URL, "--forward-secret", secret, "--forward-from", "0")
	g.start()
	shown := func(command ...string) (f struct {
		On      bool
		Waiting int
		Skipped any // a number, or a time
		Retried int
		ID      string
		Reason  string
		Failed  []struct{ ID, LastError string }
	}) {
		t.Helper()
		mustShell(t, &f, "", append(command, "--api", g.d.url, "--data", g.data)...)
		return f
	}
	await(t, g.d, func() bool {
		f := shown("forward", "status")
		return f.On && f.Waiting == 2 && len(f.Failed) == 2 && f.Failed[0].ID == "deposit_1" && f.Failed[0].LastError == "status 503"
	})
	if out := g.d.output.String(); !strings.Contains(out, "not forwarded") || strings.Contains(out, "msg=forwarded") {
		t.Errorf("the log:\n%s", out)
	}
	if f := shown("forward", "skip", "deposit_1", "--reason", "booked by hand"); f.ID != "deposit_1" || f.Reason != "booked by hand" {
		t.Errorf("given up: %+v", f)
	}
	if status, _, errOut := shell(t, "", "forward", "skip", "deposit_2", "--api", g.d.url, "--data", g.data); status != exitUsage || !strings.Contains(errOut, "--reason") {
		t.Errorf("without a reason: %d %s", status, errOut)
	}
	if status, _, errOut := shell(t, "", "forward", "retry", "deposit_3", "--api", g.d.url, "--data", g.data); status != exitFailed || !strings.Contains(errOut, "404") {
		t.Errorf("what there is not: %d %s", status, errOut)
	}
	// While it is being sent it does not wait, and there is nothing to retry.
	await(t, g.d, func() bool { return shown("forward", "retry").Retried == 1 })
	app.mu.Lock()
	app.refuse = false
	app.mu.Unlock()
	await(t, g.d, func() bool {
		shown("forward", "retry")
		f := shown("forward", "status")
		return f.Waiting == 0 && f.Skipped == 1.0
	})
	if f := shown("forward", "list", "--skipped"); f.ID != "deposit_1" || f.Reason != "booked by hand" {
		t.Errorf("the list: %+v", f)
	}
	// The same setting again forwards nothing again.
	if status := g.d.stop(t); status != 0 {
		t.Fatalf("status %d\n%s", status, g.d.output)
	}
	g.start()
	if f := shown("forward", "status"); f.Waiting != 0 || f.Skipped != 1.0 {
		t.Errorf("started again: %+v", f)
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
		"forward from":    {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "http://x", "--forward-from", "-1"}, "--forward-from"},
		"forward what":    {[]string{"--api-key", "k", "--service-key", key, "--forward-from", "0"}, "--forward-from: there is no --forward-url"},
		"forward beyond":  {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "http://x", "--forward-from", "3"}, "--forward-from: the feed of deposits ends at 0, and 3 was given"},
		"forward secret":  {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "http://x", "--forward-secret", "SECRET"}, "forward secret"},
		"one secret":      {[]string{"--api-key", "k", "--service-key", key, "--forward-url", "http://x", "--db", "postgres://nowhere.invalid/x"}, "--forward-secret is missing"},
		"no text":         {[]string{"--config", file("c.toml", "[gateway]\napi-key = 5")}, "--api-key: [gateway] of the settings file has no text for it"},
		"no texts":        {[]string{"--config", file("d.toml", "[gateway]\ncallback-api-key = [\"a\", 5]")}, "--callback-api-key: [gateway] of the settings file has no text"},
		"no response key": {[]string{"--api-key", "k", "--callback-api-key", "c", "--service-key", pair}, "--response-key is missing"},
		"no callback key": {[]string{"--api-key", "k", "--service-key", pair, "--response-key", key}, "--callback-api-key is missing"},
		"binding":         {[]string{"--api-key", "k", "--service-key", key, "--binding", "maybe"}, "--binding"},
	} {
		status, out, errOut := shell(t, "", append(append([]string{}, good...), c.args...)...)
		if status == exitDone || !strings.Contains(errOut, c.want) || strings.Contains(out+errOut, "SECRET") {
			t.Errorf("%s: %d %s", name, status, errOut)
		}
	}
}
