//go:build linux

package dbtest

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// PgBouncer returns a URL of the database that leads through a PgBouncer in session mode,
// whose pool holds most connections. If PgBouncer is missing, it skips the test, or fails
// it if the environment has CI=true.
func PgBouncer(t testing.TB, database string, most int) string {
	t.Helper()
	name, err := exec.LookPath("pgbouncer")
	if err != nil {
		missing(t, err)
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	attr, owner, err := unprivileged(syscall.SIGINT)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	dir := t.TempDir()
	settings := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\nauth_type = any\npool_mode = session\ndefault_pool_size = %d\nmax_client_conn = 500\n",
		u.Query().Get("host"), u.Query().Get("port"), port, most)
	if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if owner >= 0 { // it must read its settings
		for _, d := range []string{filepath.Dir(dir), dir} {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	var log bytes.Buffer
	cmd := exec.Command(name, settings)
	cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = attr, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return "postgres://postgres@" + addr + u.Path + "?sslmode=disable"
		}
		if time.Now().After(deadline) {
			t.Fatalf("PgBouncer does not answer: %v\n%s", err, log.String())
		}
	}
}
