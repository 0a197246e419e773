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
	"strings"
	"syscall"
	"testing"
	"time"
)

// Patroni is a PostgreSQL cluster as docs/cluster.md sets it up: an etcd, three servers
// under Patroni with a synchronous standby, and HAProxy, which leads to the leader.
type Patroni struct {
	t     testing.TB
	dir   string
	attr  *syscall.SysProcAttr
	etcd  *program
	proxy *program
	Nodes []*PatroniNode
	Addr  string // HAProxy's, host and port
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
	attr, owner, err := unprivileged()
	if err != nil {
		return err
	}
	own := *attr
	own.Pdeathsig = syscall.SIGTERM // Patroni stops its server then
	p.attr = &own
	if p.dir, err = os.MkdirTemp("", "csha"); err != nil {
		return err
	}
	if owner >= 0 {
		if err := os.Chown(p.dir, owner, -1); err != nil {
			return err
		}
	}
	var addrs []string
	for range 9 {
		addr, err := FreePort()
		if err != nil {
			return err
		}
		addrs = append(addrs, addr)
	}
	etcd, peer := addrs[0], addrs[1]
	p.Addr = addrs[2]
	p.etcd, err = p.run("etcd", "--name", "e", "--data-dir", filepath.Join(p.dir, "etcd"), "--listen-client-urls", "http://"+etcd, "--advertise-client-urls", "http://"+etcd,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "e=http://"+peer, "--unsafe-no-fsync", "--logger", "zap", "--log-level", "error")
	if err != nil {
		return err
	}
	var servers strings.Builder
	for i := range 3 {
		n := &PatroniNode{Name: fmt.Sprint("n", i+1), pg: addrs[3+2*i], rest: addrs[4+2*i]}
		n.dir = filepath.Join(p.dir, n.Name)
		n.Lines = []string{line(i, n.pg), line(i, n.rest), line(i, etcd)}
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

// haproxySettings are those of docs/cluster.md, with quicker checks.
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
etcd3: {hosts: ["%[4]s"], use_proxies: true} # or it would learn the address behind the line
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
`, n.Name, n.rest, n.Lines[1], n.Lines[2], patroniTTL, patroniLoop, patroniRetry, "127.0.0.1:"+port, n.Lines[0], n.dir, bin, fsync())
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

// Start starts Patroni on a server, which it starts in turn.
func (p *Patroni) Start(n *PatroniNode) (err error) {
	n.agent, err = p.run("patroni", n.dir+".yml")
	return err
}

// Kill ends Patroni and every process of its server at once, as a power cut would.
func (p *Patroni) Kill(n *PatroniNode) {
	if n.agent == nil {
		return
	}
	n.signal(syscall.SIGKILL)
	<-n.agent.ended
	n.agent = nil
}

// signal signals Patroni, the server that it started and all processes of that.
func (n *PatroniNode) signal(sig syscall.Signal) {
	_ = n.agent.cmd.Process.Signal(syscall.SIGSTOP)
	if text, err := os.ReadFile(filepath.Join(n.dir, "data", "postmaster.pid")); err == nil {
		var pid int
		if _, err := fmt.Sscan(string(text), &pid); err == nil && pid > 1 && ownedBy(pid, n.dir) {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // so that it starts no more children
			for _, child := range children(pid) {
				_ = syscall.Kill(child, sig)
			}
			_ = syscall.Kill(pid, sig)
		}
	}
	_ = n.agent.cmd.Process.Signal(sig)
}

// ownedBy reports whether pid is a server on the data under dir: a pid in a file may be
// another process's by now.
func ownedBy(pid int, dir string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(text), dir)
}

type member struct {
	Name, Role, State string
	Timeline          int
}

// members asks the Patronis, in turn until one answers, who plays which part.
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

// Leader gives the node that leads; nil if there is none.
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

// whole reports what is missing until there is a leader that HAProxy leads to, and two
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
			return errors.New("the cluster does not get whole:\n" + said.String() + p.etcd.log.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

func (p *Patroni) stop() {
	for _, n := range p.Nodes {
		p.Kill(n)
	}
	for _, r := range []*program{p.proxy, p.etcd} {
		if r != nil {
			_ = r.cmd.Process.Kill()
			<-r.ended
		}
	}
	if p.dir != "" {
		if err := os.RemoveAll(p.dir); err != nil {
			p.t.Error(err)
		}
	}
}
