package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/internal/signed"
)

// received is a message that a stream or a topic has.
type received struct {
	key    string
	header http.Header
	body   string
}

// broker is where feeds go in a test. It keeps what it has while it is stopped.
type broker interface {
	url() string
	start()
	stop()
	all() []received // in order
}

var brokers = []struct {
	name string
	make func(t testing.TB) broker
}{
	{"nats", func(t testing.TB) broker { return newNATS(t, "countersign.feeds") }},
	{"kafka", func(t testing.TB) broker { return newKafka(t) }},
}

// natsServer is a real one.
type natsServer struct {
	t       testing.TB
	dir     string
	port    int
	flags   []string
	running *exec.Cmd
}

func natsBinary(t testing.TB) string {
	for _, name := range []string{"nats-server", "/usr/sbin/nats-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("nats-server is not installed")
	}
	t.Skip("skipped: nats-server is not installed")
	return ""
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// newNATS starts a server with a stream for the subject; empty: none.
func newNATS(t testing.TB, subject string, flags ...string) *natsServer {
	natsBinary(t)
	n := &natsServer{t: t, dir: t.TempDir(), port: freePort(t), flags: flags}
	n.start()
	t.Cleanup(n.stop)
	if subject != "" {
		_, err := n.jetStream().AddStream(&nats.StreamConfig{Name: "FEEDS", Subjects: []string{subject}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (n *natsServer) url() string {
	return fmt.Sprintf("nats://127.0.0.1:%d/countersign.feeds", n.port)
}

func (n *natsServer) start() {
	n.t.Helper()
	n.running = exec.Command(natsBinary(n.t), append([]string{"-js", "-a", "127.0.0.1", "-p", fmt.Sprint(n.port), "-sd", n.dir}, n.flags...)...)
	if err := n.running.Start(); err != nil {
		n.t.Fatal(err)
	}
	for range 6000 {
		if c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", n.port)); err == nil {
			c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	n.t.Fatal("nats-server does not listen")
}

func (n *natsServer) stop() {
	if n.running != nil {
		_ = n.running.Process.Kill()
		_ = n.running.Wait()
		n.running = nil
	}
}

func (n *natsServer) jetStream(options ...nats.Option) nats.JetStreamContext {
	n.t.Helper()
	conn, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", n.port), append(options, nats.Timeout(time.Minute))...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(conn.Close)
	js, err := conn.JetStream(nats.MaxWait(time.Minute))
	if err != nil {
		n.t.Fatal(err)
	}
	return js
}

func (n *natsServer) all() (list []received) {
	n.t.Helper()
	js := n.jetStream()
	info, err := js.StreamInfo("FEEDS")
	if err != nil {
		n.t.Fatal(err)
	}
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, err := js.GetMsg("FEEDS", seq)
		if err != nil {
			n.t.Fatal(err)
		}
		r := received{header: http.Header{}, body: string(m.Data)}
		for name, values := range m.Header {
			r.header.Set(name, values[0])
		}
		if id := m.Header.Get(nats.MsgIdHdr); id == "" || id != r.header.Get(signed.HeaderID) {
			n.t.Errorf("%s is %q, %s is %q", nats.MsgIdHdr, id, signed.HeaderID, r.header.Get(signed.HeaderID))
		}
		list = append(list, r)
	}
	return list
}

// kafka is the broker of franz-go for tests.
type kafka struct {
	t       testing.TB
	dir     string
	port    int
	options []kfake.Opt
	cluster *kfake.Cluster
}

func newKafka(t testing.TB, options ...kfake.Opt) *kafka {
	k := &kafka{t: t, dir: t.TempDir(), port: freePort(t), options: options}
	k.start()
	t.Cleanup(k.stop)
	return k
}

func (k *kafka) url() string { return fmt.Sprintf("kafka://127.0.0.1:%d/countersign.feeds", k.port) }

func (k *kafka) start() {
	k.t.Helper()
	var err error
	k.cluster, err = kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.Ports(k.port), kfake.DataDir(k.dir), kfake.SyncWrites(), kfake.SeedTopics(3, "countersign.feeds")}, k.options...)...)
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kafka) stop() {
	if k.cluster != nil {
		k.cluster.Close()
		k.cluster = nil
	}
}

func (k *kafka) all() (list []received) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), 2*time.Minute)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(k.cluster.ListenAddrs()...), kgo.ConsumeTopics("countersign.feeds"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		k.t.Fatal(err)
	}
	defer c.Close()
	// The end of what there is: a record behind everything in each partition.
	for p := range int32(3) {
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: "countersign.feeds", Key: []byte("end"), Partition: p}).FirstErr(); err != nil {
			k.t.Fatal(err)
		}
	}
	ends := 0
	for ends < 3 {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			k.t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if string(r.Key) == "end" {
				ends++
				return
			}
			one := received{key: string(r.Key), header: http.Header{}, body: string(r.Value)}
			for _, h := range r.Headers {
				one.header.Set(h.Key, string(h.Value))
			}
			list = append(list, one)
		})
	}
	return list
}

// node runs the forwarding of a gateway until the returned func.
func (r *rig) forwards() (stop func()) {
	r.sender.poll = 5 * time.Millisecond // the clock is not the real one
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { r.sender.run(ctx); close(ended) }()
	return func() { cancel(); <-ended }
}

// forwarded waits until nothing is to be forwarded, and moves the clock meanwhile.
func (r *rig) forwarded() {
	r.t.Helper()
	for range 12_000 {
		s, err := r.client.Stats(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		if s.Forwards == 0 {
			return
		}
		r.clock.advance(time.Second)
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("still to be forwarded after two minutes\n%s", r.log)
}

// failing waits until an entry was sent in vain.
func (r *rig) failing() client.Forward {
	r.t.Helper()
	for range 12_000 {
		s, err := r.client.Forwarding(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		if len(s.Failed) > 0 {
			return s.Failed[0]
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("nothing was sent in vain\n%s", r.log)
	return client.Forward{}
}

// checkFeeds fails if something is lost, comes first out of its order, or differs when it comes again.
func checkFeeds(t *testing.T, list []received, deposits, events int, r *rig) {
	t.Helper()
	bodies, next := map[string]string{}, map[string]map[string]int64{"deposit": {}, "event": {}}
	for _, m := range list {
		id := m.header.Get(signed.HeaderID)
		if err := signed.Verify(testSecret, m.header, []byte(m.body), r.clock.now(), 1000*time.Hour); err != nil || m.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v, %v", id, err, m.header)
		}
		if had, again := bodies[id]; again {
			if had != m.body {
				t.Errorf("%s came with another body", id)
			}
			continue
		}
		bodies[id] = m.body
		feed, _, _ := strings.Cut(id, "_")
		var told struct {
			Data struct {
				Seq          int64
				TenantUserID string
			}
		}
		if err := json.Unmarshal([]byte(m.body), &told); err != nil || fmt.Sprintf("%s_%d", feed, told.Data.Seq) != id {
			t.Errorf("%s has %s, %v", id, m.body, err)
		}
		if last := next[feed][m.key]; told.Data.Seq <= last { // without keys, of the whole feed
			t.Errorf("%s comes first after number %d of key %q", id, last, m.key)
		}
		next[feed][m.key] = told.Data.Seq
		if m.key != "" && m.key != told.Data.TenantUserID {
			t.Errorf("%s of user %q has the key %q", id, told.Data.TenantUserID, m.key)
		}
	}
	if len(bodies) != deposits+events {
		t.Errorf("%d messages, want %d and %d", len(bodies), deposits, events)
	}
}

// TestForwardingInOrder: what a stream or a topic gets is all there is, in order, through a broker
// that stops, a gateway that ends and one that died with entries in its hands.
func TestForwardingInOrder(t *testing.T) {
	for _, b := range brokers {
		for _, d := range dialects {
			t.Run(b.name+"/"+d.name, func(t *testing.T) {
				to, url, service := b.make(t), d.url(t), newService(t, countersigntest.ServiceConfig{})
				into := func(c *Config) { c.Forward = Forwarding{URL: to.url(), Secret: testSecret, Timeout: 5 * time.Second} }
				r := newRig(t, url, service, into)
				stop := r.forwards()
				deliver := func(from, to int) {
					for i := from; i < to; i++ {
						deposit := countersigntest.Deposit(i)
						deposit.TenantUserID = fmt.Sprint("user-", i%3)
						r.deliver(deposit)
					}
				}
				deliver(0, 10)
				r.order(1)
				r.confirmed(1)
				r.forwarded()
				to.stop()
				deliver(10, 20)
				if f := r.failing(); f.ID != "deposit_11" || f.LastError == "" {
					t.Errorf("failed: %+v", f)
				}
				stop()
				to.start()
				// A gateway that died: it had taken entries, and perhaps sent them.
				clock := r.clock
				clock.advance(time.Hour)
				claimed, err := r.book.ClaimForwardsInOrder(t.Context(), db.MillisOf(clock.now()), r.sender.lease(), 3)
				if err != nil || len(claimed) != 3 || claimed[0].Seq != 11 {
					t.Fatalf("claimed %+v, %v", claimed, err)
				}
				messages, err := r.sender.messages(claimed)
				if err == nil {
					_, err = r.sender.into.Send(t.Context(), messages)
				}
				if err != nil {
					t.Fatal(err)
				}
				deliver(20, 25)
				if more, err := r.book.ClaimForwardsInOrder(t.Context(), db.MillisOf(clock.now()), r.sender.lease(), 3); err != nil || len(more) != 0 {
					t.Errorf("claimed %+v behind what is under way, %v", more, err)
				}
				again := newRigOn(t, r.db, service, into)
				again.clock.at.Store(clock.at.Load())
				again.sender.now = again.clock.now
				stop = again.forwards()
				again.forwarded()
				stop()
				again.clock.advance(time.Minute)
				checkFeeds(t, to.all(), 25, 1, again)
				r.sender.into.Close()
				if text := r.log.String() + again.log.String(); strings.Contains(text, string(testSecret)) {
					t.Error("the log has the secret")
				}
			})
		}
	}
}

// TestOneEntryStopsItsFeed: an entry that is refused keeps those behind it in its feed, and only
// those; a person gives it up and they go on.
func TestOneEntryStopsItsFeed(t *testing.T) {
	to := newNATS(t, "")
	js := to.jetStream()
	if _, err := js.AddStream(&nats.StreamConfig{Name: "FEEDS", Subjects: []string{"countersign.feeds"}, MaxMsgSize: 2000}); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) {
		c.Forward = Forwarding{URL: to.url(), Secret: testSecret}
	})
	for i := range 4 {
		d := countersigntest.Deposit(i)
		if i == 1 {
			d.TxID = strings.Repeat("x", 1900)
		}
		r.deliver(d)
	}
	r.order(1)
	r.confirmed(1)
	stop := r.forwards()
	defer func() { stop() }()
	if f := r.failing(); f.ID != "deposit_2" || !strings.Contains(f.LastError, "the stream refused it") {
		t.Errorf("failed: %+v", f)
	}
	if n := len(to.all()); n != 2 {
		t.Errorf("%d messages are there", n)
	}
	if _, err := r.client.SkipForward(t.Context(), "deposit_2", "too large"); err != nil {
		t.Fatal(err)
	}
	r.forwarded()
	stop()
	stop = func() {}
	var ids []string
	for _, m := range to.all() {
		ids = append(ids, m.header.Get(signed.HeaderID))
	}
	if got := strings.Join(ids, " "); got != "deposit_1 event_1 deposit_3 deposit_4" {
		t.Errorf("arrived: %s", got)
	}
}

// TestFeedsSayWhatIsMissing: where no stream and no topic is, the error says what to create.
func TestFeedsSayWhatIsMissing(t *testing.T) {
	for _, of := range []struct{ url, says string }{
		{newNATS(t, "").url(), "no JetStream stream keeps the subject countersign.feeds: create one"},
		{strings.Replace(newKafka(t).url(), "countersign.feeds", "nothing", 1), "there is no topic nothing: create it"},
	} {
		r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) {
			c.Forward = Forwarding{URL: of.url, Secret: testSecret, Timeout: time.Minute}
		})
		r.deliver(countersigntest.Deposit(1))
		stop := r.forwards()
		if f := r.failing(); !strings.Contains(f.LastError, of.says) {
			t.Errorf("%s: %s", of.url, f.LastError)
		}
		stop()
	}
}

// TestFeedsWithPasswords: with TLS and a password feeds arrive, with a wrong one they do not, and
// nothing shows it.
func TestFeedsWithPasswords(t *testing.T) {
	ca, cert, key := certificate(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	const password = "pa/ss@w0rd-of-the-feeds"
	escaped := "pa%2Fss%40w0rd-of-the-feeds"
	natsTLS := newNATS(t, "", "--tls", "--tlscert", cert, "--tlskey", key, "--user", "gw", "--pass", password)
	js := natsTLS.jetStream(nats.UserInfo("gw", password), nats.RootCAs(ca))
	if _, err := js.AddStream(&nats.StreamConfig{Name: "FEEDS", Subjects: []string{"countersign.feeds"}}); err != nil {
		t.Fatal(err)
	}
	natsToken := newNATS(t, "", "--auth", password)
	if _, err := natsToken.jetStream(nats.Token(password)).AddStream(&nats.StreamConfig{Name: "FEEDS", Subjects: []string{"countersign.feeds"}}); err != nil {
		t.Fatal(err)
	}
	secure := newKafka(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}), kfake.EnableSASL(), kfake.Superuser("PLAIN", "gw", password), kfake.Superuser("SCRAM-SHA-512", "gw", password))
	open := newKafka(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "gw", password), kfake.Superuser("SCRAM-SHA-512", "gw", password))
	for _, of := range []struct {
		name, says, url string
	}{
		{"nats with TLS", "Authorization Violation", fmt.Sprintf("tls://gw:PASS@127.0.0.1:%d/countersign.feeds?ca=%s", natsTLS.port, ca)},
		{"nats with a token", "Authorization Violation", fmt.Sprintf("nats://PASS@127.0.0.1:%d/countersign.feeds", natsToken.port)},
		{"kafka with TLS and plain", "password", fmt.Sprintf("kafka+ssl://gw:PASS@127.0.0.1:%d/countersign.feeds?sasl=plain&ca=%s", secure.port, ca)},
		{"kafka with TLS", "password", fmt.Sprintf("kafka+ssl://gw:PASS@127.0.0.1:%d/countersign.feeds?ca=%s", secure.port, ca)},
		{"kafka", "password", fmt.Sprintf("kafka://gw:PASS@127.0.0.1:%d/countersign.feeds?sasl=scram-sha-256", open.port)},
	} {
		for _, wrong := range []bool{false, true} {
			with := escaped
			if wrong {
				with = "another-" + escaped
			}
			r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) {
				c.Forward = Forwarding{URL: strings.Replace(of.url, "PASS", with, 1), Secret: testSecret}
			})
			r.deliver(countersigntest.Deposit(1))
			stop := r.forwards()
			shown := ""
			if wrong {
				f := r.failing()
				if shown = fmt.Sprint(f); !strings.Contains(f.LastError, of.says) {
					t.Errorf("%s: a wrong password is %s", of.name, f.LastError)
				}
			} else {
				r.forwarded()
			}
			stop()
			if shown += r.log.String(); strings.Contains(shown, "w0rd-of-the-feeds") {
				t.Errorf("%s, wrong %v: the password shows in %s", of.name, wrong, shown)
			}
		}
	}
}

// certificate makes a certificate for 127.0.0.1 and gives the files of it.
func certificate(t *testing.T) (ca, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, cert, key
}

// TestDestinations: what is no destination is refused, with a text that says what to write and has
// nothing of the URL.
func TestDestinations(t *testing.T) {
	for text, want := range map[string]string{
		"nats://h/a.b":                              "h:4222 a.b  ",
		"nats://u:p%40@h1,h2:5/a":                   "h1:4222,h2:5 a u p@",
		"tls://tok@[::1]/a":                         "[::1]:4222 a tok ",
		"kafka://h/t":                               "h:9092 t  ",
		"kafka+ssl://u:p@h,i:1/t.x?sasl=plain":      "h:9093,i:1 t.x u p",
		"amqp://u:verysecret@h/q":                   "must be https://",
		"nats:h/q":                                  "must be https://",
		"verysecret":                                "must be https://",
		"nats://u:verysecret@h":                     "one subject",
		"nats://u:verysecret@h/a/b":                 "one subject",
		"nats://u:verysecret@h/a.*":                 "one subject",
		"nats://u:verysecret@h/a.>":                 "one subject",
		"nats://u:verysecret@h/a%20b":               "one subject",
		"nats://u:verysecret@h/a%0d%0aPUB":          "one subject",
		"kafka://u:verysecret@h/a%2Fb":              "one topic",
		"kafka://u:verysecret@h/":                   "one topic",
		"kafka://u:verysecret@/t":                   "must have a host",
		"kafka://u:verysecret@h,,i/t":               "must have a host",
		"kafka://u:very%zzsecret@h/t":               "percent-encoded",
		"kafka://:verysecret@h/t":                   "percent-encoded",
		"kafka://u:verysecret@h/t?sasl=plain":       "give kafka+ssl://",
		"kafka://u:verysecret@h/t?sasl=gssapi":      "sasl in the URL must be",
		"kafka://h/t?sasl=scram-sha-256":            "needs a user",
		"kafka://u:verysecret@h/t?password=x":       "each once and with a value",
		"nats://u:verysecret@h/t?ca=/x":             "are for TLS",
		"tls://u:verysecret@h/t?ca=/does/not/exist": "no such file",
		"nats://u:verysecret@h/t?creds=/x":          "give one of them",
	} {
		d, err := parseDestination(text)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(strings.Join(d.hosts, ","), " ", d.name, " ", d.user, " ", d.password)
		}
		if err == nil && got != want || err != nil && !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%s: %s", text, got)
		}
	}
	if d, err := parseDestination("https://x/y"); d != nil || err != nil {
		t.Errorf("a URL to post to: %v, %v", d, err)
	}
}
