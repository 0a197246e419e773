package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// deposits is how many the gateway takes, half of them before the kill.
const deposits = 40

// rig is a gateway of this commit and this program, as processes.
type rig struct {
	t       *testing.T
	dir     string
	env     []string
	running *exec.Cmd
}

func (r *rig) run(name string, args ...string) {
	r.t.Helper()
	c := exec.CommandContext(r.t.Context(), name, args...)
	c.Dir = r.dir
	if out, err := c.CombinedOutput(); err != nil {
		r.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func (r *rig) start(name string, env []string, args ...string) *exec.Cmd {
	r.t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = r.dir, append(os.Environ(), env...), r.t.Output(), r.t.Output()
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// until waits for an event, however long it takes.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		select {
		case <-t.Context().Done():
			t.Fatal("never: ", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// newRig builds both programs and starts the gateway.
func newRig(t *testing.T, env ...string) *rig {
	r := &rig{t: t, dir: t.TempDir()}
	for at, name := range map[string]string{"../..": "countersign", ".": "feeds"} {
		c := exec.Command("go", "build", "-o", filepath.Join(r.dir, name), map[string]string{"..": "", "../..": "./cmd/countersign", ".": "."}[at])
		c.Dir = at
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", name, err, out)
		}
	}
	callbacks, api := freePort(t), freePort(t)
	r.run("./countersign", "keys", "new", "--out", "pair")
	r.start("./countersign", nil, "gateway", "--data", "data", "--service-key", "pair/public.b64", "--api-key", "merchant", "--callback-api-key", "service",
		"--listen", fmt.Sprint("127.0.0.1:", callbacks), "--api-listen", fmt.Sprint("127.0.0.1:", api))
	r.env = append(env, fmt.Sprint("GATEWAY_URL=http://127.0.0.1:", api), "TOKEN_FILE=data/admin.token",
		fmt.Sprint("TO=http://127.0.0.1:", callbacks))
	until(t, "the gateway serves", func() bool {
		resp, err := http.Get(fmt.Sprint("http://127.0.0.1:", api, "/healthz"))
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return r
}

// deposit has the gateway take n deposits.
func (r *rig) deposit(n int) {
	r.t.Helper()
	for range n {
		r.run("./countersign", "send", "deposit", "--key", "pair/private.pem", "--api-key", "merchant", "--callback-api-key", "service", "--to", r.env[len(r.env)-1][len("TO="):])
	}
}

// feeds starts the program.
func (r *rig) feeds() { r.running = r.start("./feeds", r.env) }

// kill kills it.
func (r *rig) kill() {
	_ = r.running.Process.Kill()
	_ = r.running.Wait()
}

// TestFeeds: a stream of a real server has every deposit once and in order, though the program is
// killed on its way.
func TestFeeds(t *testing.T) {
	path := "/usr/sbin/nats-server"
	if found, err := exec.LookPath("nats-server"); err == nil {
		path = found
	} else if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("nats-server is not installed")
		}
		t.Skip("skipped: nats-server is not installed")
	}
	port := freePort(t)
	url := fmt.Sprint("nats://127.0.0.1:", port)
	r := newRig(t, "NATS_URL="+url)
	r.start(path, nil, "-js", "-a", "127.0.0.1", "-p", fmt.Sprint(port), "-sd", filepath.Join(r.dir, "stream"))
	var conn *nats.Conn
	until(t, "the server listens", func() (is bool) {
		var err error
		conn, err = nats.Connect(url)
		return err == nil
	})
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FEEDS", Subjects: []string{subject + ".>"}, Duplicates: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	has := func(n uint64) func() bool {
		return func() bool {
			info, err := stream.Info(t.Context())
			return err == nil && info.State.Msgs >= n
		}
	}
	r.deposit(deposits / 2)
	r.feeds()
	until(t, "it has published some", has(1))
	r.kill()
	r.deposit(deposits / 2)
	r.feeds()
	until(t, "the stream has all", has(deposits))
	for seq := range uint64(deposits) {
		m, err := stream.GetMsg(context.Background(), seq+1)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprint("deposits_", seq+1); m.Header.Get("Nats-Msg-Id") != want || m.Subject != subject+".deposits" {
			t.Errorf("message %d is %s of %s, want %s", seq+1, m.Header.Get("Nats-Msg-Id"), m.Subject, want)
		}
	}
}
