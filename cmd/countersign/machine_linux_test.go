package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// The faults of a machine: a full disk, too few files, a data directory that goes, a
// power cut during the first start.

// newMachine is a chain of two processes with SQLite, with the data in dir.
func newMachine(t *testing.T, dir string, args ...string) (*chain, *node) {
	t.Helper()
	// An exchange ends the time to stop in, which a busy machine needs.
	c := newChain(t, dir, []string{""}, []string{""}, append(args, "--exchange-timeout", "10s")...)
	return c, c.services[0]
}

// ready waits until /readyz of n answers with a status and a text.
func (c *chain) ready(n *node, status int, text string) {
	c.t.Helper()
	c.until(fmt.Sprintf("/readyz of %s says %d", n.name, status), func() bool {
		resp := must(http.Get(n.process().url + "/readyz"))
		defer resp.Body.Close()
		return resp.StatusCode == status && strings.Contains(string(must(io.ReadAll(resp.Body))), text)
	})
}

// TestFullDisk: on a full disk both ends say so in their answers and on /readyz, keep
// what they acknowledged, and go on when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := dbtest.SmallDisk(t, 16<<20)
	c, service := newMachine(t, dir)
	book := func() {
		t.Helper()
		if err := errors.Join(c.addDeposits(t.Context(), service, 1),
			c.withdraw(t.Context(), c.gateways[0], service)); err != nil {
			t.Fatal(err)
		}
	}
	book()
	if !dbtest.IsWhole() { // what meets the full disk is sent again 25 s later
		c.until("what was booked is settled", func() bool { return c.open() == 0 })
	}
	ballast := filepath.Join(dir, "ballast")
	f := must(os.Create(ballast))
	for err := error(nil); err == nil; { // until the disk is full
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	ends := map[*node]func(context.Context, client.NewToken) (client.CreatedToken, error){
		service: service.service.CreateToken, c.gateways[0]: c.gateways[0].gateway.CreateToken}
	for n, write := range ends {
		var refused *client.Problem
		c.until("a write that is refused", func() bool {
			_, err := write(t.Context(), client.NewToken{Name: "one more", Role: client.RoleViewer})
			return errors.As(err, &refused)
		})
		if refused.Status != http.StatusInsufficientStorage {
			t.Errorf("on a full disk %s answers %d, want 507", n.name, refused.Status)
		}
		c.ready(n, http.StatusServiceUnavailable, "full")
	}
	ok(t, os.Remove(ballast))
	for n := range ends {
		c.ready(n, http.StatusOK, "")
	}
	book()
	c.check()
	c.stop()
}

// limit sets a limit of a running process.
func limit(t *testing.T, d *process, what int, to uint64) {
	t.Helper()
	var was unix.Rlimit
	ok(t, unix.Prlimit(d.cmd.Process.Pid, what, nil, &was))
	ok(t, unix.Prlimit(d.cmd.Process.Pid, what, &unix.Rlimit{Cur: min(to, was.Max), Max: was.Max}, nil))
}

// TestOneMachine: one pair of processes meets a second process, a limit of open files, a data directory that goes, and
// an orderly end with a notice.
func TestOneMachine(t *testing.T) {
	dbtest.Whole(t, "this test waits ten seconds for a process to find out what was done to it")
	t.Parallel()
	c, n := newMachine(t, t.TempDir(), "--drain-notice", "1h")
	book := func() {
		t.Helper()
		ok(t, c.addDeposits(t.Context(), n, 1))
	}
	// Two processes never serve from the same data.
	data, link := c.data("serve"), filepath.Join(t.TempDir(), "link")
	ok(t, errors.Join(os.Remove(filepath.Join(data, daemon.DatabaseFile+".lock")), os.Symlink(data, link)))
	for _, dir := range []string{data, link} {
		out, err := exec.Command("countersign", "serve", "--data", dir, "--listen", "127.0.0.1:0").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "in use") {
			t.Errorf("a second process on %s: %v\n%s", dir, err, out)
		}
	}
	// A node without file descriptors blames no merchant for it.
	api, config := n.service, c.client(n)
	config.HTTPClient = nil // its connection stays open, so the API still answers
	n.service = must(client.NewService(config))
	book()
	c.until("the first deposits are accepted", func() bool { return c.open() == 0 })
	c.line.set(cut)
	c.line.set(pass)
	limit(t, n.process(), unix.RLIMIT_NOFILE, 3) // those that are open stay
	book()
	c.until("an attempt without files", func() bool { return strings.Contains(n.process().output.String(), "reason=open_files") })
	limit(t, n.process(), unix.RLIMIT_NOFILE, unix.RLIM_INFINITY)
	c.check()
	for cb, err := range client.All(t.Context(), n.service.Callbacks, client.CallbackFilter{}) {
		if err != nil || cb.Failed > 1 {
			t.Errorf("an attempt counts against the merchant: %+v, %v", cb, err)
		}
	}
	n.service = api
	// A process whose data directory was moved away ends and says so. What it acknowledged is in the moved one.
	book()
	moved := data + ".moved"
	ok(t, os.Rename(data, moved))
	d := n.process()
	err := <-d.exited
	d.exited <- err
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(d.output.String(), "removed or replaced") {
		t.Errorf("it ended with %v:\n%s", err, d.output)
	}
	ok(t, os.Rename(moved, data))
	n.start(t)
	c.check()
	// After SIGTERM /readyz says 503 and everything goes on for the time of the notice. A second signal ends it.
	ok(t, n.process().cmd.Process.Signal(unix.SIGTERM))
	c.ready(n, http.StatusServiceUnavailable, "")
	book()
	c.check()
	if status := n.process().stop(t); status == exitDone {
		t.Errorf("the second signal ends it with %d", status)
	}
	c.services = nil // it has ended
	c.stop()
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
		c := exec.Command("countersign", "serve", "--data", data, "--listen", "127.0.0.1:0")
		ok(t, c.Start())
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
		mustShell(t, nil, "", "merchants", "list", "--api", d.url, "--data", data)
		d.kill()
	}
	t.Logf("%d of %d first starts were killed half way", half, starts)
}

// TestPgBouncer: a service works through a pool in session mode, wake-ups included.
func TestPgBouncer(t *testing.T) {
	dbtest.Whole(t, "to a service a database behind a pool is as any, when it has no fault")
	t.Parallel()
	url := dbtest.PgBouncer(t, dbtest.Postgres(t), 100)
	c := newChain(t, t.TempDir(), []string{url, url}, []string{""})
	end := c.load()
	c.work()
	end()
}
