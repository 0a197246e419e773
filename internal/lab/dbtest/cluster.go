package dbtest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

var errNoPostgres = errors.New("no PostgreSQL is installed (looked for initdb in /usr/lib/postgresql/*/bin and PATH)")

// cluster is a PostgreSQL server with its data and its socket in one directory.
type cluster struct {
	bin, dir   string
	port       string // names the socket; a server on the network listens on it
	attributes *syscall.SysProcAttr
	server     *exec.Cmd
	ended      chan error
	log        *bytes.Buffer
	conn       *pgx.Conn // to the database postgres; nil until connect
}

// connect returns the one connection by which databases are made: each costs a process.
func (c *cluster) connect(ctx context.Context) (_ *pgx.Conn, err error) {
	if c.conn == nil || c.conn.IsClosed() {
		c.conn, err = pgx.Connect(ctx, c.url("postgres"))
	}
	return c.conn, err
}

// binDir finds the newest installed PostgreSQL.
func binDir() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		slices.SortFunc(found, func(a, b string) int {
			if len(a) != len(b) {
				return len(a) - len(b) // 9 before 15
			}
			return bytes.Compare([]byte(a), []byte(b))
		})
		return filepath.Dir(found[len(found)-1]), nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errNoPostgres
}

// startCluster returns a server that listens on no network.
func startCluster() (_ *cluster, err error) {
	bin, err := binDir()
	if err != nil {
		return nil, err
	}
	c, err := newCluster(bin)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	if err := c.copyOrInitialise(); err != nil {
		return nil, err
	}
	if err := c.run("", "-c", "max_connections=300"); err != nil {
		return nil, err
	}
	if err := c.wait(); err != nil {
		return nil, err
	}
	return c, nil
}

// newCluster makes the directory.
func newCluster(bin string) (*cluster, error) {
	attributes, owner, err := unprivileged(syscall.SIGINT)
	if err != nil {
		return nil, err
	}
	// A short name, because the path of a socket must be short.
	dir, err := os.MkdirTemp("", "cspg")
	if err != nil {
		return nil, err
	}
	if owner >= 0 {
		if err := os.Chown(dir, owner, -1); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return &cluster{bin: bin, dir: dir, port: "5432", attributes: attributes, ended: make(chan error, 1), log: &bytes.Buffer{}}, nil
}

// program makes a command of one of PostgreSQL's programs.
func (c *cluster) program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr = c.dir, c.attributes
	return cmd
}

// copyOrInitialise copies what initialise made for an earlier test binary, which takes a tenth of its processor time,
// or keeps what it makes for later ones. The copies have one system identifier, so no server follows another of them.
func (c *cluster) copyOrInitialise() error {
	version, err := c.program("initdb", "--version").Output()
	if err != nil {
		return fmt.Errorf("initdb --version: %w", err)
	}
	data, kept := filepath.Join(c.dir, "data"), ""
	if cache, err := os.UserCacheDir(); err == nil {
		kept = filepath.Join(cache, "countersign-tests", url.PathEscape(strings.TrimSpace(string(version))))
	}
	if kept != "" && copyTree(kept, data) == nil {
		return nil
	}
	if err := errors.Join(os.RemoveAll(data), c.initialise()); err != nil || kept == "" {
		return err
	}
	// Another binary may do the same: the first has its name, and what cannot be kept is made again.
	part := fmt.Sprint(kept, ".", os.Getpid())
	_ = os.RemoveAll(part) // of a process that was killed
	if os.MkdirAll(filepath.Dir(kept), 0o700) != nil || copyTree(data, part) != nil || os.Rename(part, kept) != nil {
		_ = os.RemoveAll(part)
	}
	return nil
}

// copyTree copies a directory to a path that does not exist, with modes and owners.
func copyTree(from, to string) error { return exec.Command("cp", "-a", from, to).Run() }

func (c *cluster) initialise() error {
	initdb := c.program("initdb", "-D", filepath.Join(c.dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// run starts the server. It listens on its socket and, if host is not empty, on
// host.
func (c *cluster) run(host string, settings ...string) error {
	server := c.program("postgres", append([]string{"-D", filepath.Join(c.dir, "data"), "-k", c.dir, "-p", c.port,
		"-c", "listen_addresses=" + host, "-c", "fsync=" + fsync()}, settings...)...)
	server.Stdout, server.Stderr = c.log, c.log
	if err := server.Start(); err != nil {
		return err
	}
	c.server = server
	go func() { c.ended <- server.Wait() }()
	return nil
}

// fsync is off in tests, which kill processes but not machines, and on in
// benchmarks.
func fsync() string {
	if f := flag.Lookup("test.bench"); f != nil && f.Value.String() != "" {
		return "on"
	}
	return "off"
}

// wait returns when the server answers.
func (c *cluster) wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, c.url("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case err := <-c.ended:
			c.ended <- err
			return fmt.Errorf("PostgreSQL ended at once: %w\n%s", err, c.log)
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL did not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *cluster) url(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {c.dir}, "port": {c.port}, "user": {"postgres"}}.Encode()
}

// stop ends the server at once, its clients with it, and removes everything.
func (c *cluster) stop() error {
	if c.server != nil {
		if err := c.server.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-c.ended
	}
	return os.RemoveAll(c.dir)
}
