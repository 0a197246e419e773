package proof

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign/client"
	"countersign/merchant"
	"countersign/merchant/sqlinbox"
)

// Config is what Start needs. All is required but what says otherwise.
type Config struct {
	Dir string
	// Program makes a command of countersign, Child one of this test binary, which
	// calls Main first.
	Program func(args ...string) *exec.Cmd
	Child   func() *exec.Cmd
	// Addr gives a free address of this machine.
	Addr func() (string, error)
	// DDL makes the relay's tables in Core.
	DDL       string
	Core      string // URL of an empty PostgreSQL database
	ServiceDB string // URL of an empty PostgreSQL database; empty: SQLite
	Store     Store  // an empty database of the merchant
	// Gateway has the merchant be countersign gateway and an application behind it, in
	// place of a merchant with sqlinbox. GatewayDB is like ServiceDB.
	Gateway   bool
	GatewayDB string
	Forward   bool          // the gateway tells the application, which otherwise reads the feeds
	Bits      int           // of the RSA keys; 0: 1024
	Pace      time.Duration // between two transactions of the core; 0: 50 ms
	Times     bool          // measure the way and kill nothing; see Times
}

// Chain is a core, a relay, a service and a merchant that run.
type Chain struct {
	c       Config
	dir     string
	api     *client.Service
	gateway *client.Gateway
	core    *sql.DB
	store   *sql.DB
	token   map[string]string // by end
	addr    map[string]string
	args    map[string][]string // of processes that are countersign
	roles   map[string]settings // of those that are children

	mu      sync.Mutex
	alive   map[string]*process
	armed   string // a step; empty: none
	victim  string
	struck  chan struct{}
	stopped bool
	idle    bool // the core was told to stop behind a commit, so it makes none any more
	// Steps, Kills count by name. RolledBack are transactions that the core took back.
	Steps, Kills map[string]int
	RolledBack   int
	asked        int               // the next order of the application
	failed       map[string]string // the last failure that each child told
	times        map[string][2]int64
}

type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	log   *os.File
	ended chan struct{}
	ready chan struct{}
}

// Start makes the databases and starts every process.
func Start(ctx context.Context, c Config) (*Chain, error) {
	if c.Bits == 0 {
		c.Bits = 1024
	}
	if c.Pace == 0 {
		c.Pace = 50 * time.Millisecond
	}
	ch := &Chain{c: c, dir: c.Dir, token: map[string]string{}, addr: map[string]string{}, args: map[string][]string{}, roles: map[string]settings{},
		asked: 1, alive: map[string]*process{}, Steps: map[string]int{}, Kills: map[string]int{}, failed: map[string]string{}, times: map[string][2]int64{}}
	if err := ch.begin(ctx); err != nil {
		ch.Close()
		return nil, fmt.Errorf("%w\n%s", err, ch.Logs())
	}
	return ch, nil
}

func (ch *Chain) begin(ctx context.Context) (err error) {
	for _, name := range []string{"service", "merchant", "gateway api", "application"} {
		if ch.addr[name], err = ch.c.Addr(); err != nil {
			return err
		}
	}
	if ch.core, err = sql.Open("pgx", ch.c.Core); err != nil {
		return err
	}
	if _, err := ch.core.ExecContext(ctx, ch.c.DDL+coreTables); err != nil {
		return fmt.Errorf("the core's tables: %w", err)
	}
	if ch.store, err = ch.c.Store.open(); err != nil {
		return err
	}
	for _, text := range ledgerTables {
		if _, err := ch.store.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("the ledger: %w", err)
		}
	}
	serve := []string{"serve", "--data", ch.dir + "/service", "--listen", ch.addr["service"], "--allow-private", "--allow-http",
		"--exchange-timeout", "3s"}
	if ch.c.ServiceDB != "" {
		serve = append(serve, "--db", ch.c.ServiceDB)
	}
	ch.args["service"] = serve
	if err := ch.start(ctx, "service"); err != nil {
		return err
	}
	if err := ch.register(ctx); err != nil {
		return err
	}
	child := settings{Core: ch.c.Core, Service: "http://" + ch.addr["service"], Gateway: "http://" + ch.addr["gateway api"], Store: ch.c.Store,
		Listen: ch.addr["merchant"], Key: ch.dir + "/service.b64", Pace: ch.c.Pace, Times: ch.c.Times}
	if err := ch.startMerchant(ctx, child); err != nil {
		return err
	}
	ch.args["relay"] = []string{"relay", "--from", ch.c.Core, "--to", child.Service, "--token", "@" + ch.dir + "/service/admin.token", "--decisions", "--poll", "500ms"}
	child.Role, child.Token = "core", ch.token["service"]
	ch.roles["core"] = child
	return errors.Join(ch.start(ctx, "relay"), ch.start(ctx, "core"))
}

// register makes the merchant at the service.
func (ch *Chain) register(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(ch.dir, "service", "admin.token"))
	if err != nil {
		return err
	}
	ch.token["service"] = strings.TrimSpace(string(text))
	if ch.api, err = client.NewService(client.Config{URL: "http://" + ch.addr["service"], Token: client.Secret(ch.token["service"])}); err != nil {
		return err
	}
	shop := "http://" + ch.addr["merchant"]
	often := &client.Schedule{Delays: []client.Duration{0}, Every: client.Duration(time.Second)}
	made, err := ch.api.CreateMerchant(ctx, client.NewMerchant{
		ID:               "shop",
		Key:              &client.KeySpec{Bits: ch.c.Bits},
		MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), Name: "Shop", NotifyURL: shop + merchant.DefaultNotifyPath, WithdrawURL: shop + merchant.DefaultWithdrawPath, Retry: &client.Retry{Notify: often, Withdraw: often}},
		MerchantSecrets:  client.MerchantSecrets{APIKey: client.Secret(apiKey.Reveal())},
	})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(ch.dir+"/service.b64", []byte(made.PublicKey), 0o600), os.WriteFile(ch.dir+"/api.key", []byte(apiKey.Reveal()), 0o600))
}

func (ch *Chain) startMerchant(ctx context.Context, child settings) error {
	if !ch.c.Gateway {
		if err := sqlinbox.Create(ctx, ch.store, ch.c.Store.Dialect); err != nil {
			return err
		}
		child.Role = "merchant"
		ch.roles["merchant"] = child
		return ch.start(ctx, "merchant")
	}
	args := []string{"gateway", "--data", ch.dir + "/gateway", "--listen", ch.addr["merchant"], "--api-listen", ch.addr["gateway api"],
		"--service-key", ch.dir + "/service.b64", "--api-key", "@" + ch.dir + "/api.key", "--grace", "5s", "--policy", ch.dir + "/policy.toml"}
	if err := os.WriteFile(ch.dir+"/policy.toml", []byte("default = \"allow\"\n"), 0o600); err != nil {
		return err
	}
	if ch.c.Forward {
		args = append(args, "--forward-url", "http://"+ch.addr["application"]+"/in")
		child.Listen = ch.addr["application"]
	} else {
		child.Listen = ""
	}
	if ch.c.GatewayDB != "" {
		args = append(args, "--db", ch.c.GatewayDB)
	}
	ch.args["gateway"] = args
	if err := ch.start(ctx, "gateway"); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(ch.dir, "gateway", "admin.token"))
	if err != nil {
		return err
	}
	child.Role, child.Token = "app", strings.TrimSpace(string(text))
	if ch.gateway, err = client.NewGateway(client.Config{URL: child.Gateway, Token: client.Secret(child.Token)}); err != nil {
		return err
	}
	if err := ch.Order(ctx); err != nil {
		return err
	}
	ch.roles["app"] = child
	return ch.start(ctx, "app")
}

// Victims are the processes that Kill takes.
func (ch *Chain) Victims() []string {
	if ch.c.Gateway {
		return []string{"core", "relay", "service", "gateway", "app"}
	}
	return []string{"core", "relay", "service", "merchant"}
}

// StepNames are the steps at which KillAt kills.
func (ch *Chain) StepNames() []string {
	list := []string{"core.written", "core.committed", "core.permitted", "core.executed"}
	if ch.c.Gateway {
		return append(list, "app.written", "app.committed")
	}
	return append(list, "merchant.arrived", "merchant.written", "merchant.confirms", "merchant.answers")
}

// start starts a process and waits until it works.
func (ch *Chain) start(ctx context.Context, name string) error {
	log, err := os.OpenFile(filepath.Join(ch.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	p := &process{log: log, ended: make(chan struct{}), ready: make(chan struct{})}
	var out io.ReadCloser
	if args, is := ch.args[name]; is {
		p.cmd = ch.c.Program(args...)
		p.cmd.Stdout = log
		close(p.ready)
	} else {
		p.cmd = ch.c.Child()
		text, err := json.Marshal(ch.roles[name])
		if err != nil {
			return err
		}
		p.cmd.Env = append(p.cmd.Environ(), childVariable+"="+string(text))
		if out, err = p.cmd.StdoutPipe(); err != nil {
			return err
		}
		if p.in, err = p.cmd.StdinPipe(); err != nil {
			return err
		}
	}
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	ch.mu.Lock()
	ch.alive[name] = p
	ch.mu.Unlock()
	go func() {
		if out != nil {
			ch.listen(name, p, out)
		}
		_ = p.cmd.Wait()
		_ = log.Close()
		close(p.ended)
	}()
	select {
	case <-p.ready:
	case <-p.ended:
	case <-ctx.Done():
	}
	addr := map[string]string{"service": ch.addr["service"], "gateway": ch.addr["gateway api"]}[name]
	for addr != "" {
		if resp, err := http.Get("http://" + addr + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended; see its log", name)
		case <-ctx.Done():
			return fmt.Errorf("%s does not get ready: %w", name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return ctx.Err()
}

// listen answers a child's steps.
func (ch *Chain) listen(name string, p *process, out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 1 && words[0] == "ready":
			close(p.ready)
		case len(words) == 3 && words[0] == "step":
			ch.step(name, words[2])
			word := "go"
			ch.mu.Lock()
			if ch.stopped {
				word = "stop"
				ch.idle = ch.idle || words[2] == "core.committed"
			}
			ch.mu.Unlock()
			_, _ = fmt.Fprintln(p.in, words[1], word)
		case len(words) == 3 && (words[0] == "committed" || words[0] == "credited"):
			var at int64
			_, _ = fmt.Sscan(words[2], &at)
			ch.mu.Lock()
			v := ch.times[words[1]]
			v[map[string]int{"committed": 0, "credited": 1}[words[0]]] = at
			ch.times[words[1]] = v
			ch.mu.Unlock()
		case len(words) > 0:
			ch.mu.Lock()
			if words[0] == "rolled" {
				ch.RolledBack++
			} else {
				ch.failed[name] = lines.Text()
			}
			ch.mu.Unlock()
		}
	}
}

// step kills the victim if this is the step that is waited for.
func (ch *Chain) step(name, step string) {
	ch.mu.Lock()
	ch.Steps[step]++
	strike := ch.armed == step
	if strike {
		ch.armed = ""
	}
	victim, struck := ch.victim, ch.struck
	ch.mu.Unlock()
	if strike {
		ch.kill(victim, name != victim)
		close(struck)
	}
}

// kill sends SIGKILL. With wait it returns when the process has ended.
func (ch *Chain) kill(name string, wait bool) {
	ch.mu.Lock()
	p := ch.alive[name]
	ch.Kills[name]++
	ch.mu.Unlock()
	_ = p.cmd.Process.Kill()
	if wait {
		<-p.ended
	}
}

// KillAt kills a process at the next step of that name, whoever makes it, and starts it
// again after a while. If the step does not come within a bound, it kills anyway.
func (ch *Chain) KillAt(ctx context.Context, step, victim string) error {
	_ = ch.Order(ctx)
	ch.mu.Lock()
	ch.armed, ch.victim, ch.struck = step, victim, make(chan struct{})
	struck, p := ch.struck, ch.alive[victim]
	ch.mu.Unlock()
	select {
	case <-struck:
	case <-time.After(10 * time.Second):
		ch.mu.Lock()
		late := ch.armed == ""
		ch.armed = ""
		ch.mu.Unlock()
		if late {
			<-struck
		} else {
			ch.kill(victim, true)
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	<-p.ended
	time.Sleep(rand.N(150 * time.Millisecond))
	return ch.start(ctx, victim)
}

// Kill kills a process at any moment, and starts it again.
func (ch *Chain) Kill(ctx context.Context, victim string) error {
	_ = ch.Order(ctx)
	time.Sleep(rand.N(200 * time.Millisecond))
	ch.kill(victim, true)
	time.Sleep(rand.N(150 * time.Millisecond))
	return ch.start(ctx, victim)
}

// Close kills what runs.
func (ch *Chain) Close() {
	ch.mu.Lock()
	list := ch.alive
	ch.alive = map[string]*process{}
	ch.mu.Unlock()
	for _, p := range list {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	for _, db := range []*sql.DB{ch.core, ch.store} {
		if db != nil {
			_ = db.Close()
		}
	}
}

// Times returns how long each deposit took from the core's commit to the merchant's, in
// order of their lengths. It is for chains with Config.Times.
func (ch *Chain) Times() []time.Duration {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	var list []time.Duration
	for _, v := range ch.times {
		if v[0] != 0 && v[1] != 0 {
			list = append(list, time.Duration(v[1]-v[0]))
		}
	}
	slices.Sort(list)
	return list
}

// Store is the merchant's database.
func (ch *Chain) Store() *sql.DB { return ch.store }

// Logs returns the end of what each process wrote.
func (ch *Chain) Logs() string {
	var b strings.Builder
	for _, name := range ch.Victims() {
		text, _ := os.ReadFile(filepath.Join(ch.dir, name+".log"))
		fmt.Fprintf(&b, "%s:\n%s\n", name, text[max(0, len(text)-2000):])
	}
	return b.String()
}
