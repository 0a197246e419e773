package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
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

// TestFeeds: a topic of a broker, which is one of franz-go for tests, has every deposit, each first
// in its order, though the program is killed on its way.
func TestFeeds(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	r := newRig(t, "KAFKA_BROKERS="+broker.ListenAddrs()[0], "KAFKA_PLAINTEXT=yes")
	reader, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	last, again := 0, 0
	read := func(upTo int) {
		t.Helper()
		for last < upTo {
			f := reader.PollFetches(t.Context())
			if err := f.Err(); err != nil {
				t.Fatal(err)
			}
			f.EachRecord(func(rec *kgo.Record) {
				seq := 0
				if _, err := fmt.Sscanf(string(rec.Headers[0].Value), "deposits_%d", &seq); err != nil || seq > last+1 {
					t.Errorf("%s comes after %d: %v", rec.Headers[0].Value, last, err)
				}
				if seq <= last {
					again++
				}
				last = max(last, seq)
			})
		}
	}
	r.deposit(deposits / 2)
	r.feeds()
	read(1)
	r.kill()
	r.deposit(deposits / 2)
	r.feeds()
	read(deposits)
	t.Logf("%d came again", again)
}
