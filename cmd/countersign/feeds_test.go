package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"countersign/internal/lab/dbtest"
	"countersign/internal/signed"
)

const feedsSubject = "countersign.feeds"

// feedsKills is how often something is killed for each broker.
var feedsKills = dbtest.Times(12, 3)

// message is one that a broker has.
type feedMessage struct {
	key    string
	header http.Header
	body   []byte
}

// feedsBroker keeps what it has over a stop.
type feedsBroker struct {
	url         string
	start, stop func()
	all         func() []feedMessage
}

func unusedPort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// natsFeeds is a real server, which is killed by SIGKILL.
func natsFeeds(t *testing.T) (b feedsBroker) {
	path := "/usr/sbin/nats-server"
	if found, err := exec.LookPath("nats-server"); err == nil {
		path = found
	} else if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("nats-server is not installed")
		}
		t.Skip("skipped: nats-server is not installed")
	}
	port, dir := unusedPort(t), t.TempDir()
	at := fmt.Sprint("127.0.0.1:", port)
	b.url = "nats://" + at + "/" + feedsSubject
	var running *exec.Cmd
	b.stop = func() {
		if running != nil {
			_ = running.Process.Kill()
			_ = running.Wait()
			running = nil
		}
	}
	b.start = func() {
		running = exec.Command(path, "-js", "-a", "127.0.0.1", "-p", fmt.Sprint(port), "-sd", dir)
		if err := running.Start(); err != nil {
			t.Fatal(err)
		}
		for range 6000 {
			if c, err := net.Dial("tcp", at); err == nil {
				c.Close()
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatal("nats-server does not listen")
	}
	jetStream := func() nats.JetStreamContext {
		conn, err := nats.Connect("nats://"+at, nats.Timeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		js, err := conn.JetStream(nats.MaxWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return js
	}
	b.all = func() (list []feedMessage) {
		js := jetStream()
		info, err := js.StreamInfo("FEEDS")
		if err != nil {
			t.Fatal(err)
		}
		for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
			m, err := js.GetMsg("FEEDS", seq)
			if err != nil {
				t.Fatal(err)
			}
			one := feedMessage{header: http.Header{}, body: m.Data}
			for name, values := range m.Header {
				one.header.Set(name, values[0])
			}
			list = append(list, one)
		}
		return list
	}
	b.start()
	t.Cleanup(b.stop)
	if _, err := jetStream().AddStream(&nats.StreamConfig{Name: "FEEDS", Subjects: []string{feedsSubject}}); err != nil {
		t.Fatal(err)
	}
	return b
}

func kafkaFeeds(t *testing.T) (b feedsBroker) {
	port, dir := unusedPort(t), t.TempDir()
	b.url = fmt.Sprintf("kafka://127.0.0.1:%d/%s", port, feedsSubject)
	var cluster *kfake.Cluster
	b.stop = func() {
		if cluster != nil {
			cluster.Close()
			cluster = nil
		}
	}
	b.start = func() {
		var err error
		if cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir), kfake.SyncWrites(), kfake.SeedTopics(3, feedsSubject)); err != nil {
			t.Fatal(err)
		}
	}
	b.all = func() (list []feedMessage) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		c, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(feedsSubject), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for p := range int32(3) { // behind everything in each partition
			if err := c.ProduceSync(ctx, &kgo.Record{Topic: feedsSubject, Key: []byte("end"), Partition: p}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for ends := 0; ends < 3; {
			f := c.PollFetches(ctx)
			if err := f.Err(); err != nil {
				t.Fatal(err)
			}
			f.EachRecord(func(r *kgo.Record) {
				if string(r.Key) == "end" {
					ends++
					return
				}
				one := feedMessage{key: string(r.Key), header: http.Header{}, body: r.Value}
				for _, h := range r.Headers {
					one.header.Set(h.Key, string(h.Value))
				}
				list = append(list, one)
			})
		}
		return list
	}
	b.start()
	t.Cleanup(b.stop)
	return b
}

// TestFeedsKill kills two gateways of one database and the broker that their feeds go to, again and
// again under load. The broker has every entry then, each first in its order, and what came again is
// the same.
func TestFeedsKill(t *testing.T) {
	dbtest.Whole(t, "this test starts many processes")
	t.Parallel()
	for name, broker := range map[string]func(*testing.T) feedsBroker{"nats": natsFeeds, "kafka": kafkaFeeds} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := broker(t)
			_, secret := newGwApp(t)
			parsed, err := signed.ParseSecret(secret)
			if err != nil {
				t.Fatal(err)
			}
			url := dbtest.Postgres(t)
			l := newGwLoad(newGwNodes(t, []string{"--forward-url", b.url, "--forward-secret", secret}, url, url))
			for i := range feedsKills {
				mark := time.Now()
				time.Sleep(time.Duration(50+rand.IntN(400)) * time.Millisecond)
				l.until("both take", func() bool { return l.allTake(mark) })
				if i%3 == 1 {
					b.stop()
					time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
					b.start()
					continue
				}
				n := l.nodes[rand.IntN(len(l.nodes))]
				d, _ := n.process()
				d.kill()
				n.start(t)
			}
			l.until("something of each kind", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return len(l.cancelled) > 0 && len(l.outcomes) > len(l.cancelled)
			})
			l.stop()
			l.work.Wait()
			for _, n := range l.nodes {
				l.must(n, "POST", "/v1/forwards/retry", nil, nil)
			}
			l.untilTold(l.nodes[0])
			bodies, last, again := map[string]string{}, map[string]int64{}, 0
			for _, m := range b.all() {
				id := m.header.Get(signed.HeaderID)
				if err := signed.Verify(parsed, m.header, m.body, time.Now(), time.Hour); err != nil {
					t.Errorf("%s: %v", id, err)
				}
				if had, is := bodies[id]; is {
					if again++; had != string(m.body) {
						t.Errorf("%s came with another body", id)
					}
					continue
				}
				bodies[id] = string(m.body)
				feed, _, _ := strings.Cut(id, "_")
				var told struct{ Data struct{ Seq int64 } }
				if err := json.Unmarshal(m.body, &told); err != nil || fmt.Sprintf("%s_%d", feed, told.Data.Seq) != id {
					t.Errorf("%s has %s", id, m.body)
				}
				if of := feed + " " + m.key; told.Data.Seq <= last[of] {
					t.Errorf("%s comes first after number %d of %q", id, last[of], of)
				} else {
					last[of] = told.Data.Seq
				}
			}
			if entries := len(l.deposits(l.nodes[0])) + len(l.events(l.nodes[0])); len(bodies) != entries {
				t.Errorf("%d messages for %d entries", len(bodies), entries)
			}
			t.Logf("%d kills, %d messages, %d more that came again", feedsKills, len(bodies), again)
			l.finish()
		})
	}
}
