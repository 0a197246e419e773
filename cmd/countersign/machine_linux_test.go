package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// The faults of a machine: a full disk, too few files, a data directory that goes, a
// power cut during the first start.

// newMachine starts a service on SQLite with a merchant.
func newMachine(t *testing.T, data string, args ...string) *cluster {
	t.Helper()
	// An exchange ends the time to stop in, which a busy machine needs.
	return newClusterIn(t, data, append([]string{"--exchange-timeout", "10s"}, args...), 16, "")
}

// readyz returns the status of /readyz and what it says.
func readyz(t *testing.T, d *process) (status int, detail string) {
	t.Helper()
	resp, err := http.Get(d.url + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	var problem struct{ Detail string }
	_ = json.NewDecoder(resp.Body).Decode(&problem)
	return resp.StatusCode, problem.Detail
}

// status returns the status of a call's error, 200 if there is none.
func status(t *testing.T, err error) int {
	t.Helper()
	var refused *apiError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &refused):
		return refused.status
	}
	t.Fatal(err)
	return 0
}

// TestFullDisk: on a full disk both ends say so in their answers and on /readyz, keep
// what they acknowledged, and go on when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("serve", func(t *testing.T) {
		dir := dbtest.SmallDisk(t, 8<<20)
		l := newMachine(t, filepath.Join(dir, "data"))
		testFullDisk(t, dir, l.nodes[0].daemon(), func() error { return l.addDeposit(l.nodes[0]) })
		l.finish()
	})
	t.Run("gateway", func(t *testing.T) {
		dir := dbtest.SmallDisk(t, 8<<20)
		g := newGatewayDaemon(t, "--data", filepath.Join(dir, "data"))
		n := 0
		testFullDisk(t, dir, g.d, func() error {
			n++
			return g.call(t.Context(), "POST", "/v1/orders", map[string]any{"callBackId": fmt.Sprint("order-", n), "tenantUserId": "7",
				"address": "TX", "chainName": "TRON", "symbol": "USDT", "amount": "1"}, nil)
		})
	})
}

func testFullDisk(t *testing.T, dir string, d *process, write func() error) {
	if err := write(); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil { // until the disk is full
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	refused := 0
	waitUntil(t, "a write that is refused", d.output.String, func() bool { refused = status(t, write()); return refused != http.StatusOK })
	if refused != http.StatusInsufficientStorage {
		t.Errorf("on a full disk the API answers %d, want 507\n%s", refused, d.output)
	}
	waitUntil(t, "/readyz says 503", d.output.String, func() bool {
		status, detail := readyz(t, d)
		return status == http.StatusServiceUnavailable && strings.Contains(detail, "full")
	})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "/readyz says 200", d.output.String, func() bool { status, _ := readyz(t, d); return status == http.StatusOK })
	if err := write(); err != nil {
		t.Error(err)
	}
}

// limit sets a limit of a running process.
func limit(t *testing.T, d *process, what int, to uint64) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Prlimit(d.cmd.Process.Pid, what, nil, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(d.cmd.Process.Pid, what, &unix.Rlimit{Cur: min(to, was.Max), Max: was.Max}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestTooManyOpenFiles: a node without file descriptors blames no merchant for it.
func TestTooManyOpenFiles(t *testing.T) {
	t.Parallel()
	l := newMachine(t, t.TempDir())
	api := []string{"--api", l.nodes[0].daemon().url, "--token", l.token}
	// The connection of this test stays open, so the API still answers.
	if err := l.addDeposit(l.nodes[0]); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the first deposits are accepted", l.nodes[0].daemon().output.String, l.told)
	l.m.CloseClientConnections()
	limit(t, l.nodes[0].daemon(), unix.RLIMIT_NOFILE, 3) // those that are open stay
	waitUntil(t, "deposits are taken", l.nodes[0].daemon().output.String, func() bool { return l.addDeposit(l.nodes[0]) == nil })
	waitUntil(t, "an attempt without files", l.nodes[0].daemon().output.String, func() bool { return strings.Contains(l.nodes[0].daemon().output.String(), "reason=open_files") })
	limit(t, l.nodes[0].daemon(), unix.RLIMIT_NOFILE, unix.RLIM_INFINITY)
	waitUntil(t, "all deposits are accepted", l.nodes[0].daemon().output.String, l.told)
	status, out, errOut := shell(t, "", append([]string{"callbacks", "list"}, api...)...)
	if status != exitDone {
		t.Fatal(errOut)
	}
	for line := range strings.Lines(out) {
		var c struct{ Attempt, Failed int }
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Failed > 1 {
			t.Errorf("an attempt counts against the merchant: %s%v", line, err)
		}
	}
}

// told reports whether the merchant was told of every deposit.
func (c *cluster) told() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m.knows(c.deposits)
}

// finish checks all that was said and stops.
func (c *cluster) finish() {
	c.checkAll()
	c.stop()
}

// TestDataDirectoryGoes: a process whose data directory was moved away ends and says
// so. What it had acknowledged is in the directory that was moved.
func TestDataDirectoryGoes(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	l := newMachine(t, data)
	if err := l.addDeposit(l.nodes[0]); err != nil {
		t.Fatal(err)
	}
	moved := data + ".moved"
	if err := os.Rename(data, moved); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-l.nodes[0].daemon().exited:
		l.nodes[0].daemon().exited <- err
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(l.nodes[0].daemon().output.String(), "removed or replaced") {
			t.Errorf("it ended with %v:\n%s", err, l.nodes[0].daemon().output)
		}
	case <-time.After(wholeRun(t)):
		t.Fatalf("it goes on:\n%s", l.nodes[0].daemon().output)
	}
	l.dir = moved
	l.start(l.nodes[0])
	l.finish()
}

// TestDrainNotice: after SIGTERM /readyz says 503 and everything goes on for the time of
// the notice. A second signal ends it.
func TestDrainNotice(t *testing.T) {
	t.Parallel()
	l := newMachine(t, t.TempDir(), "--drain-notice", "1h")
	if err := l.nodes[0].daemon().cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "/readyz says 503", l.nodes[0].daemon().output.String, func() bool {
		status, _ := readyz(t, l.nodes[0].daemon())
		return status == http.StatusServiceUnavailable
	})
	if err := l.addDeposit(l.nodes[0]); err != nil {
		t.Errorf("during the notice: %v", err)
	}
	waitUntil(t, "the deposits are accepted", l.nodes[0].daemon().output.String, l.told)
	if status := l.nodes[0].daemon().stop(t); status == exitDone {
		t.Errorf("the second signal ends it with %d", status)
	}
}

// TestNoSecondProcess: two processes never serve from the same data.
func TestNoSecondProcess(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	l := newMachine(t, data)
	if err := os.Remove(filepath.Join(data, daemon.DatabaseFile+".lock")); err != nil {
		t.Fatal(err)
	}
	second := func(dir string) {
		t.Helper()
		c := exec.Command(os.Args[0], "serve", "--data", dir, "--listen", "127.0.0.1:0")
		c.Env = append(os.Environ(), runAsCountersign+"=1")
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "in use") {
			t.Errorf("a second process on %s: %v\n%s", dir, err, out)
		}
	}
	second(data)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	second(link)
	l.finish()
}

// TestKillDuringFirstStart: whenever a first start is killed, the next start works, and
// nothing but the known files is left, and at most one that was not finished.
func TestKillDuringFirstStart(t *testing.T) {
	dbtest.Whole(t, "this test starts many processes")
	known := []string{daemon.DatabaseFile, daemon.DatabaseFile + ".lock", daemon.DatabaseFile + "-wal", daemon.DatabaseFile + "-shm",
		daemon.DatabaseFile + "-journal", daemon.MasterKeyFile, tokenFile, daemon.CheckpointFile}
	part := regexp.MustCompile(`^((master\.key|admin\.token)\.[A-Z2-7]{26}\.new|last-[a-z.]+\.[0-9]+)$`)
	half, starts := 0, dbtest.Times(40, 10)
	for i := range starts {
		data := filepath.Join(t.TempDir(), "data")
		c := exec.Command(os.Args[0], "serve", "--data", data, "--listen", "127.0.0.1:0")
		c.Env = append(os.Environ(), runAsCountersign+"=1")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// Killed when some of its files are there, a little later.
		some := i % len(known)
		waitUntil(t, "files of the first start", c.String, func() bool {
			files, _ := os.ReadDir(data)
			return len(files) >= min(some, 5)
		})
		time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
		_ = c.Process.Kill()
		_ = c.Wait()
		files, err := os.ReadDir(data)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		parts := 0
		for _, f := range files {
			if info, err := f.Info(); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s has mode %v, %v", f.Name(), info.Mode(), err)
			}
			if part.MatchString(f.Name()) {
				parts++
			} else if !slices.Contains(known, f.Name()) {
				t.Errorf("%s was left", f.Name())
			}
		}
		if parts > 1 {
			t.Errorf("%d files were not finished", parts)
		}
		if n := len(files); n > 0 && n < len(known)-1 {
			half++
		}
		d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0")
		if err := call(t.Context(), "GET", d.url+"/v1/merchants", adminToken(t, data), nil, nil); err != nil {
			t.Error(err)
		}
		d.kill()
	}
	t.Logf("%d of %d first starts were killed half way", half, starts)
}

// TestPgBouncer: both daemons work through a pool in session mode, wake-ups included.
func TestPgBouncer(t *testing.T) {
	dbtest.NotRaced(t, "to the detector a database behind a pool is as any")
	t.Parallel()
	url := dbtest.PgBouncer(t, dbtest.Postgres(t), 100)
	c := newCluster(t, 16, url, url)
	// Until something of everything was acknowledged.
	for len(c.permits) == 0 || len(c.feed) == 0 || len(c.deposits) == 0 {
		stop := c.load()
		mark := time.Now()
		c.until("both nodes work", func() bool { return c.allWork(mark) })
		stop()
	}
	c.check()
	t.Log(c.said())
	c.stop()
}
