package storetest

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
	"time"

	"github.com/jackc/pgx/v5"
)

var errNoPostgres = errors.New("no PostgreSQL is installed (looked for initdb in /usr/lib/postgresql/*/bin and PATH)")

// cluster is a PostgreSQL server with its data and its socket in a directory of
// its own. It listens on no network.
type cluster struct {
	dir    string
	server *exec.Cmd
	ended  chan error
	log    *bytes.Buffer
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

func startCluster() (_ *cluster, err error) {
	bin, err := binDir()
	if err != nil {
		return nil, err
	}
	// Short: the path of a socket has little room.
	dir, err := os.MkdirTemp("", "cspg")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, ended: make(chan error, 1), log: &bytes.Buffer{}}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	attributes, owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	if owner >= 0 {
		if err := os.Chown(dir, owner, -1); err != nil {
			return nil, err
		}
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, attributes
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	c.server = exec.Command(filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-k", dir,
		"-c", "listen_addresses=", "-c", "max_connections=300", "-c", "fsync="+fsync(), "-c", "autovacuum_naptime=10")
	c.server.Dir, c.server.SysProcAttr = dir, attributes
	c.server.Stdout, c.server.Stderr = c.log, c.log
	if err := c.server.Start(); err != nil {
		c.server = nil
		return nil, err
	}
	go func() { c.ended <- c.server.Wait() }()
	return c, c.wait()
}

// fsync: tests kill programs, not machines, and go faster without. Benchmarks
// measure with it.
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
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *cluster) url(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {c.dir}, "user": {"postgres"}}.Encode()
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
