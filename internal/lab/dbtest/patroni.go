//go:build linux

package dbtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Patroni is a PostgreSQL cluster as docs/operator/README.md sets it up: three members of etcd,
// three servers under Patroni with a synchronous standby, and HAProxy, which leads to the
// leader.
type Patroni struct {
	t     testing.TB
	dir   string
	attr  *syscall.SysProcAttr
	etcd  []*etcdMember
	proxy *program
	Nodes []*PatroniNode
	Addr  string // HAProxy's, host and port
}

// etcdMember is one etcd of the three.
type etcdMember struct {
	args    []string
	addr    string   // where it listens to clients
	program *program // nil: killed
}

// PatroniNode is one server with its Patroni.
type PatroniNode struct {
	Name  string
	dir   string
	pg    string   // addresses where it listens
	rest  string   //
	Lines []string // the addresses under which others reach it, and it etcd; see NewPatroni

	agent *program
}

// program is a process of the cluster.
type program struct {
	cmd   *exec.Cmd
	log   *bytes.Buffer
	ended chan error
}

// PatroniRetry is how long a leader asks etcd again before it gives up its role.
const PatroniRetry = patroniRetry * time.Second

// patroniTTL is how long a leader that is silent keeps its role, in seconds. Patroni's
// default is 30; it must be at least loop_wait and twice retry_timeout.
const patroniTTL, patroniLoop, patroniRetry = 10, 1, 3

// NewPatroni starts a cluster and ends it after the test. All that reaches a server or
// that its Patroni asks etcd goes through addresses that line gives, so that the server
// can be cut off. If a program is missing, it skips the test, or fails it if the
// environment has CI=true.
func NewPatroni(t testing.TB, line func(node int, target string) (addr string)) *Patroni {
	t.Helper()
	for _, name := range []string{"patroni", "etcd", "haproxy"} {
		if _, err := exec.LookPath(name); err != nil {
			missing(t, err)
		}
	}
	p := &Patroni{t: t}
	t.Cleanup(p.stop)
	if err := p.start(line); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Patroni) start(line func(int, string) string) error {
	bin, err := binDir()
	if err != nil {
		return err
	}
	attr, owner, err := unprivileged(syscall.SIGTERM) // Patroni stops its server then
	if err != nil {
		return err
	}
	p.attr = attr
	if p.dir, err = os.MkdirTemp("", "csha"); err != nil {
		return err
	}
	if owner >= 0 {
		if err := os.Chown(p.dir, owner, -1); err != nil {
			return err
		}
	}
	var addrs []string
	for range 13 {
		addr, err := FreePort()
		if err != nil {
			return err
		}
		addrs = append(addrs, addr)
	}
	p.Addr = addrs[12]
	var members []string
	for i := range 3 {
		members = append(members, fmt.Sprintf("e%d=http://%s", i, addrs[6+i]))
	}
	for i := range 3 {
		client, peer := "http://"+addrs[9+i], "http://"+addrs[6+i]
		m := &etcdMember{addr: addrs[9+i], args: []string{"--name", fmt.Sprint("e", i), "--data-dir", filepath.Join(p.dir, fmt.Sprint("etcd", i)),
			"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(members, ","), "--unsafe-no-fsync", "--logger", "zap", "--log-level", "error"}}
		p.etcd = append(p.etcd, m)
		if err := p.startEtcd(m); err != nil {
			return err
		}
	}
	// Until the members have agreed on their version, Patroni fails.
	if err := p.await(func() bool {
		return !slices.ContainsFunc(p.etcd, func(m *etcdMember) bool { return !m.agreed() })
	}); err != nil {
		return err
	}
	var servers strings.Builder
	for i := range 3 {
		n := &PatroniNode{Name: fmt.Sprint("n", i+1), pg: addrs[2*i], rest: addrs[2*i+1]}
		n.dir = filepath.Join(p.dir, n.Name)
		n.Lines = []string{line(i, n.pg), line(i, n.rest)}
		for _, m := range p.etcd {
			n.Lines = append(n.Lines, line(i, m.addr))
		}
		p.Nodes = append(p.Nodes, n)
		if err := os.Mkdir(n.dir, 0o700); err != nil {
			return err
		}
		if owner >= 0 {
			if err := os.Chown(n.dir, owner, -1); err != nil {
				return err
			}
		}
		if err := os.WriteFile(n.dir+".yml", []byte(n.settings(bin)), 0o644); err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(n.Lines[1])
		fmt.Fprintf(&servers, "  server %s %s check port %s\n", n.Name, n.Lines[0], port)
		if err := p.Start(n); err != nil {
			return err
		}
		if i == 0 { // the first makes the database
			if err := p.await(func() bool { return p.Leader() == n }); err != nil {
				return err
			}
		}
	}
	config := filepath.Join(p.dir, "haproxy.cfg")
	if err := os.WriteFile(config, []byte(fmt.Sprintf(haproxySettings, p.Addr)+servers.String()), 0o644); err != nil {
		return err
	}
	if p.proxy, err = p.run("haproxy", "-db", "-f", config); err != nil {
		return err
	}
	return p.await(func() bool { return p.whole() == nil })
}

// haproxySettings are those of deploy/proxy/haproxy-postgres.cfg, with quicker checks.
const haproxySettings = `
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  timeout check 1s
listen leader
  bind %s
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
`

func (n *PatroniNode) settings(bin string) string {
	_, port, _ := net.SplitHostPort(n.pg)
	return fmt.Sprintf(`
scope: countersign
name: %[1]s
log: {level: WARNING}
restapi: {listen: "%[2]s", connect_address: "%[3]s"}
etcd3: {hosts: ["%[4]s"], use_proxies: true} # or it would learn the addresses behind the lines
bootstrap:
  dcs:
    ttl: %[5]d
    loop_wait: %[6]d
    retry_timeout: %[7]d
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters: {wal_log_hints: "on", max_connections: 200, wal_keep_size: 512MB}
  initdb: [{encoding: UTF8}, {locale: C}, no-sync]
postgresql:
  listen: "%[8]s"
  connect_address: "%[9]s"
  data_dir: %[10]s/data
  bin_dir: %[11]s
  pgpass: %[10]s/pgpass
  use_unix_socket: true
  authentication: {superuser: {username: postgres}, replication: {username: replicator}}
  parameters: {unix_socket_directories: %[10]s, fsync: "%[12]s"}
  pg_hba: ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
watchdog: {mode: "off"}
`, n.Name, n.rest, n.Lines[1], strings.Join(n.Lines[2:], `", "`), patroniTTL, patroniLoop, patroniRetry, "127.0.0.1:"+port, n.Lines[0], n.dir, bin, fsync())
}

func (p *Patroni) run(name string, args ...string) (*program, error) {
	r := &program{cmd: exec.Command(name, args...), log: &bytes.Buffer{}, ended: make(chan error, 1)}
	r.cmd.Dir, r.cmd.SysProcAttr, r.cmd.Stdout, r.cmd.Stderr = p.dir, p.attr, r.log, r.log
	r.cmd.Env = append(os.Environ(), "HOME="+p.dir, "LC_ALL=C", "ETCD_ENABLE_V2=false")
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { r.ended <- r.cmd.Wait() }()
	return r, nil
}

func (p *Patroni) startEtcd(m *etcdMember) (err error) {
	m.program, err = p.run("etcd", m.args...)
	return err
}

// KillEtcd ends a member of etcd, the one that leads or one that does not, as a power cut
// would. The function that it gives starts the member again.
func (p *Patroni) KillEtcd(leader bool) (again func() error) {
	p.t.Helper()
	var m *etcdMember
	if err := p.await(func() bool {
		for _, of := range p.etcd {
			if of.program == nil {
				continue
			}
			if leads, err := of.leads(); err == nil && leads == leader {
				m = of
			}
		}
		return m != nil
	}); err != nil {
		p.t.Fatal(err)
	}
	m.kill()
	return func() error { return p.startEtcd(m) }
}

// ask calls the member and reads its answer into out.
func (m *etcdMember) ask(method, path, body string, out any) error {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(method, "http://"+m.addr+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(out)
}

// agreed asks the member whether it knows its cluster's version.
func (m *etcdMember) agreed() bool {
	var version struct{ EtcdCluster string }
	return m.ask("GET", "/version", "", &version) == nil && strings.Contains(version.EtcdCluster, ".")
}

// leads asks the member whether it leads.
func (m *etcdMember) leads() (bool, error) {
	var status struct {
		Header struct {
			MemberID string `json:"member_id"`
		}
		Leader string
	}
	if err := m.ask("POST", "/v3/maintenance/status", "{}", &status); err != nil {
		return false, err
	}
	if status.Leader == "" {
		return false, errors.New("there is no leader")
	}
	return status.Leader == status.Header.MemberID, nil
}

func (m *etcdMember) kill() {
	if m.program != nil {
		_ = m.program.cmd.Process.Kill()
		<-m.program.ended
		m.program = nil
	}
}

// Start starts Patroni on a server, which it starts in turn.
func (p *Patroni) Start(n *PatroniNode) (err error) {
	n.agent, err = p.run("patroni", n.dir+".yml")
	return err
}

// Kill ends Patroni and every process of its server at once, as a power cut would.
func (p *Patroni) Kill(n *PatroniNode) {
	for n.agent != nil {
		n.kill()
		select {
		case <-n.agent.ended:
			n.agent = nil
		case <-time.After(100 * time.Millisecond): // Patroni was just starting a server
		}
	}
}

// kill kills the server, all processes of it, and Patroni.
func (n *PatroniNode) kill() {
	_ = n.agent.cmd.Process.Signal(syscall.SIGSTOP) // so that it starts nothing more
	for _, pid := range naming(n.dir + "/") {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		for _, child := range children(pid) {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = n.agent.cmd.Process.Kill()
}

// naming returns the processes whose command lines have text in them.
func naming(text string) (list []int) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,args=").Output()
	if err != nil {
		panic("a test needs the program ps: " + err.Error())
	}
	for line := range strings.Lines(string(out)) {
		var pid int
		if _, err := fmt.Sscan(line, &pid); err == nil && strings.Contains(line, text) {
			list = append(list, pid)
		}
	}
	return list
}

type member struct {
	Name, Role, State string
	Timeline          int
}

// members asks the Patronis, in turn until one answers, for the role of each server.
func (p *Patroni) members() (list []member, err error) {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for _, n := range p.Nodes {
		var resp *http.Response
		if resp, err = client.Get("http://" + n.Lines[1] + "/cluster"); err != nil {
			continue
		}
		var all struct{ Members []member }
		err = json.NewDecoder(resp.Body).Decode(&all)
		resp.Body.Close()
		if err == nil {
			return all.Members, nil
		}
	}
	return nil, err
}

// Leader returns the node that leads; nil if there is none.
func (p *Patroni) Leader() *PatroniNode {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for _, n := range p.Nodes {
		resp, err := client.Get("http://" + n.Lines[1] + "/primary")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return n
		}
	}
	return nil
}

// whole says what is missing until there is a leader that HAProxy leads to, and two
// standbys of which one is synchronous.
func (p *Patroni) whole() error {
	list, err := p.members()
	if err != nil {
		return err
	}
	parts := map[string]int{}
	for _, m := range list {
		if m.State == "running" || m.State == "streaming" {
			parts[m.Role]++
		}
	}
	if parts["leader"] != 1 || parts["sync_standby"] != 1 || parts["leader"]+parts["sync_standby"]+parts["replica"] != 3 {
		return fmt.Errorf("members: %+v", list)
	}
	c, err := net.DialTimeout("tcp", p.Addr, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// AwaitWhole waits until the cluster has a leader and two standbys.
func (p *Patroni) AwaitWhole() {
	p.t.Helper()
	if err := p.await(func() bool { return p.whole() == nil }); err != nil {
		p.t.Fatal(err)
	}
}

// Switchover hands the role of the leader to a standby, as before maintenance.
func (p *Patroni) Switchover(from *PatroniNode) {
	p.t.Helper()
	resp, err := http.Post("http://"+from.Lines[1]+"/switchover", "application/json", strings.NewReader(`{"leader":"`+from.Name+`"}`))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("switchover: %s %s", resp.Status, text)
	}
}

// URL names the database behind HAProxy.
func (p *Patroni) URL(database string) string {
	return "postgres://postgres@" + p.Addr + "/" + database + "?sslmode=disable"
}

// await waits for ok and gives what the processes said if it does not come.
func (p *Patroni) await(ok func() bool) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), 3*time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			var said strings.Builder
			fmt.Fprintln(&said, p.whole())
			for _, n := range p.Nodes {
				if n.agent != nil {
					fmt.Fprintf(&said, "%s:\n%s\n", n.Name, n.agent.log)
				}
			}
			for _, m := range p.etcd {
				if m.program != nil {
					fmt.Fprintf(&said, "%s: %s\n", m.args[1], m.program.log)
				}
			}
			return errors.New("the cluster did not become whole:\n" + said.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

func (p *Patroni) stop() {
	for _, n := range p.Nodes {
		p.Kill(n)
	}
	for _, m := range p.etcd {
		m.kill()
	}
	if p.proxy != nil {
		_ = p.proxy.cmd.Process.Kill()
		<-p.proxy.ended
	}
	if p.dir != "" {
		if err := os.RemoveAll(p.dir); err != nil {
			p.t.Error(err)
		}
	}
}
