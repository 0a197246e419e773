package dbtest

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

var errNoMariaDB = errors.New("no MariaDB is installed (looked for mariadbd in /usr/sbin and PATH)")

// mariaDB is a server with its data and its socket in one directory.
type mariaDB struct {
	dir    string
	server *exec.Cmd
	ended  chan error
	log    *bytes.Buffer
}

// MariaDB returns the data source name of an empty database, for the driver "mysql", in a
// private server that the first call starts. If no MariaDB is installed, it skips
// the test, or fails it if the environment has CI=true.
func MariaDB(t testing.TB) (dsn string) {
	t.Helper()
	skipShort(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		t.Fatal("dbtest.MariaDB needs a TestMain that calls dbtest.Run")
	}
	if !shared.triedMaria {
		shared.triedMaria = true
		shared.maria, shared.mariaErr = startMariaDB()
	}
	switch {
	case errors.Is(shared.mariaErr, errNoMariaDB):
		missing(t, shared.mariaErr)
	case shared.mariaErr != nil:
		t.Fatal(shared.mariaErr)
	}
	shared.databases++
	name := fmt.Sprintf("test%d", shared.databases)
	db, err := sql.Open("mysql", shared.maria.dsn(""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// The default collation of many servers: it ignores case and padding.
	if _, err := db.Exec("CREATE DATABASE " + name + " CHARACTER SET latin1 COLLATE latin1_swedish_ci"); err != nil {
		t.Fatal(err)
	}
	return shared.maria.dsn(name)
}

func mariaProgram() (string, error) {
	for _, path := range []string{"/usr/sbin/mariadbd", "mariadbd"} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", errNoMariaDB
}

// startMariaDB returns a server that listens on no network. It has no system tables, which
// take seconds to make, and so neither users nor passwords.
func startMariaDB() (_ *mariaDB, err error) {
	program, err := mariaProgram()
	if err != nil {
		return nil, err
	}
	attributes, owner, err := unprivileged(syscall.SIGKILL) // it has nothing to keep
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "csmy") // short, because the path of a socket must be short
	if err != nil {
		return nil, err
	}
	m := &mariaDB{dir: dir, ended: make(chan error, 1), log: &bytes.Buffer{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.stop())
		}
	}()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	if owner >= 0 {
		for _, path := range []string{dir, data} {
			if err := os.Chown(path, owner, -1); err != nil {
				return nil, err
			}
		}
	}
	flush := "0"
	if fsync() == "on" {
		flush = "1"
	}
	server := exec.Command(program, "--no-defaults", "--datadir="+data, "--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"),
		"--skip-networking", "--skip-grant-tables", "--innodb-flush-log-at-trx-commit="+flush, "--innodb-log-file-size=16M",
		"--innodb-buffer-pool-size=32M", "--performance-schema=0", "--max-connections=300")
	server.Dir, server.SysProcAttr = dir, attributes
	server.Stdout, server.Stderr = m.log, m.log
	if err := server.Start(); err != nil {
		return nil, err
	}
	m.server = server
	go func() { m.ended <- server.Wait() }()
	if err := m.wait(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *mariaDB) dsn(database string) string {
	return "root@unix(" + filepath.Join(m.dir, "s") + ")/" + database
}

// wait returns when the server answers.
func (m *mariaDB) wait() error {
	db, err := sql.Open("mysql", m.dsn(""))
	if err != nil {
		return err
	}
	defer db.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if err = db.Ping(); err == nil {
			return nil
		}
		select {
		case err := <-m.ended:
			m.ended <- err
			return fmt.Errorf("MariaDB ended at once: %w\n%s", err, strings.TrimSpace(m.log.String()))
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("MariaDB does not answer: %w\n%s", err, m.log)
		}
	}
}

// stop ends the server at once and removes everything.
func (m *mariaDB) stop() error {
	if m.server != nil {
		if err := m.server.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-m.ended
	}
	return os.RemoveAll(m.dir)
}
