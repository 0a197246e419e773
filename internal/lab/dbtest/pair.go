//go:build unix

package dbtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pair is a PostgreSQL primary and its synchronous standby: a commit returns when
// the standby has it on disk. Each has its own directory and its own port of
// 127.0.0.1.
type Pair struct {
	t       testing.TB
	Primary *Server
	Standby *Server
}

// Server is one PostgreSQL server of a Pair.
type Server struct {
	cluster
	Addr string // host and port
}

// NewPair starts a pair and ends it after the test. If no PostgreSQL is installed,
// it skips the test, or fails it if the environment has CI=true.
func NewPair(t testing.TB) *Pair {
	t.Helper()
	skipShort(t)
	p := &Pair{t: t}
	err := p.start()
	t.Cleanup(p.stop)
	switch {
	case errors.Is(err, errNoPostgres):
		missing(t, err)
	case err != nil:
		t.Fatal(err)
	}
	return p
}

const standbyName = "countersign_standby"

func (p *Pair) start() error {
	bin, err := binDir()
	if err != nil {
		return err
	}
	if p.Primary, err = newServer(bin); err != nil {
		return err
	}
	if err := p.Primary.initialise(); err != nil {
		return err
	}
	if err := p.Primary.Start(); err != nil {
		return err
	}
	if p.Standby, err = newServer(bin); err != nil {
		return err
	}
	backup := p.Standby.program("pg_basebackup", "-D", filepath.Join(p.Standby.dir, "data"), "-R", "--no-sync", "-c", "fast",
		"-d", p.Primary.url("postgres")+"&application_name="+standbyName)
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	if err := p.Standby.Start(); err != nil {
		return err
	}
	return p.synchronous()
}

// synchronous makes commits of the primary wait for the standby, and returns when
// they do.
func (p *Pair) synchronous() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, text := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + standbyName + "'", "SELECT pg_reload_conf()"} {
		if _, err := p.Primary.Exec(ctx, text); err != nil {
			return err
		}
	}
	for {
		state, err := p.Primary.Exec(ctx, "SELECT sync_state FROM pg_stat_replication")
		if err == nil && state == "sync" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the standby did not become synchronous: %q, %v\n%s", state, err, p.Standby.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// URL names both servers and asks for the one that takes writes. addrs are other
// addresses of them, such as those of a proxy.
func (p *Pair) URL(addrs ...string) string {
	if len(addrs) == 0 {
		addrs = []string{p.Primary.Addr, p.Standby.Addr}
	}
	return "postgres://postgres@" + strings.Join(addrs, ",") + "/postgres?sslmode=disable&target_session_attrs=read-write"
}

// Promote makes the standby the primary. When it returns, the server takes writes,
// and its commits wait for no standby.
func (p *Pair) Promote() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// The base backup was made before synchronous_standby_names was set, so the
	// standby has none.
	done, err := p.Standby.Exec(ctx, "SELECT pg_promote(true, 60)")
	if err != nil || done != "t" {
		p.t.Fatalf("promoting: %q, %v\n%s", done, err, p.Standby.log)
	}
}

func (p *Pair) stop() {
	for _, s := range []*Server{p.Primary, p.Standby} {
		if s == nil {
			continue
		}
		s.Continue()
		s.Kill()
		if err := os.RemoveAll(s.dir); err != nil {
			p.t.Error(err)
		}
	}
}

func newServer(bin string) (*Server, error) {
	c, err := newCluster(bin)
	if err != nil {
		return nil, err
	}
	s := &Server{cluster: *c}
	if s.Addr, err = FreePort(); err != nil {
		return s, err
	}
	_, s.port, err = net.SplitHostPort(s.Addr)
	return s, err
}

// Start starts the server on its data, even after it was killed.
func (s *Server) Start() error {
	// A killed postmaster leaves this file.
	if err := os.Remove(filepath.Join(s.dir, "data", "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := s.run("127.0.0.1", "-c", "max_wal_senders=4", "-c", "wal_retrieve_retry_interval=100ms"); err != nil {
		return err
	}
	return s.wait()
}

// Exec runs a statement on this server and returns its first value, as text.
func (s *Server) Exec(ctx context.Context, text string) (value string, err error) {
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, text).ReadAll()
	if err == nil && len(results) > 0 && len(results[0].Rows) > 0 {
		value = string(results[0].Rows[0][0])
	}
	return value, err
}

// Kill ends every process of the server at once, as a power cut would.
func (s *Server) Kill() {
	if s.server == nil {
		return
	}
	s.signal(syscall.SIGKILL)
	<-s.ended
	s.server = nil
	s.log.Reset()
}

// Stop suspends every process of the server until Continue.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Continue resumes every process of the server.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

// signal signals the postmaster and its children one by one, because each child
// has its own process group.
func (s *Server) signal(sig syscall.Signal) {
	if s.server == nil {
		return
	}
	postmaster := s.server.Process.Pid
	_ = syscall.Kill(postmaster, syscall.SIGSTOP) // so that it starts no more children
	for _, pid := range children(postmaster) {
		_ = syscall.Kill(pid, sig) // it may have ended
	}
	_ = syscall.Kill(postmaster, sig)
}

// children returns the processes that pid has started.
func children(pid int) (list []int) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		panic("a test needs the program ps: " + err.Error())
	}
	for line := range strings.Lines(string(out)) {
		var child, parent int
		if _, err := fmt.Sscan(line, &child, &parent); err == nil && parent == pid {
			list = append(list, child)
		}
	}
	return list
}

// Part cuts the primary off from its standby for ever: the primary still answers,
// but its commits wait.
func (p *Pair) Part() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, text := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		if _, err := p.Standby.Exec(ctx, text); err != nil {
			p.t.Fatal(err)
		}
	}
	for state := "?"; state != "0"; time.Sleep(20 * time.Millisecond) {
		var err error
		if state, err = p.Primary.Exec(ctx, "SELECT COUNT(*) FROM pg_stat_replication"); err != nil {
			p.t.Fatal(err)
		}
	}
}
