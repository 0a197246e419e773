//go:build unix

package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

const (
	benchDeposits = 4000
	benchCallers  = 64
)

// sealedDeposits are new deposits at 1024 bit, sealed once for all benchmarks:
// sealing takes the private key, and so longer than anything measured here.
var sealedDeposits = sync.OnceValue(func() (b struct {
	service *countersigntest.Service
	bodies  [][]byte
	answers [][]byte
}) {
	var err error
	if b.service, err = countersigntest.MakeService(countersigntest.ServiceConfig{Key: testPair()}); err != nil {
		panic(err)
	}
	for i := range benchDeposits {
		body, sent, err := b.service.Body(countersigntest.Deposit(i))
		if err != nil {
			panic(err)
		}
		answer, err := sent.(*countersign.Deposit).Answer().Marshal()
		if err != nil {
			panic(err)
		}
		b.bodies, b.answers = append(b.bodies, body), append(b.answers, answer)
	}
	return b
})

// BenchmarkDeposits takes new deposits through HTTP on this machine with the
// durable inbox, 64 callers at once. Taking turns with it in the same run, a
// server that only opens the same bodies and seals the same answers shows what
// RSA and HTTP alone allow. of-bound-% is what share of that is reached,
// of-bound-cpu-% the same by processor time, which other load on the machine
// disturbs less. The callers take their part of the same cores in both.
func BenchmarkDeposits(b *testing.B) {
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) {
			in := sealedDeposits()
			bound := httptest.NewServer(rsaAlone(b, in.answers))
			defer bound.Close()
			var taking, alone cost
			n := 0
			for b.Loop() {
				s := openDB(b, d.url(b))
				g, err := New(Config{DB: s, Callbacks: in.service.MerchantConfig()})
				if err != nil {
					b.Fatal(err)
				}
				server := httptest.NewServer(g.Callbacks())
				taking.add(postAll(b, server.URL+merchant.DefaultNotifyPath, in.service, in.bodies))
				server.Close()
				alone.add(postAll(b, bound.URL, in.service, in.bodies))
				n += len(in.bodies)
				if st, err := g.book.Stats(b.Context()); err != nil || st.Deposits != benchDeposits {
					b.Fatalf("%+v, %v", st, err)
				}
			}
			b.ReportMetric(float64(n)/taking.wall.Seconds(), "deposits/s")
			b.ReportMetric(float64(n)/alone.wall.Seconds(), "bound/s")
			b.ReportMetric(100*alone.wall.Seconds()/taking.wall.Seconds(), "of-bound-%")
			b.ReportMetric(100*alone.cpu.Seconds()/taking.cpu.Seconds(), "of-bound-cpu-%")
			b.ReportMetric(float64(n)/taking.cpu.Seconds(), "deposits/cpu-s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// rsaAlone opens and seals and does nothing else.
func rsaAlone(b *testing.B, answers [][]byte) http.Handler {
	key := testPair().Public()
	response := countersign.Response{APIKey: "bench"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			b.Error(err)
			return
		}
		if _, err := envelope.Open(key, envelope.PKCS1v15, body); err != nil {
			b.Error(err)
			return
		}
		data, err := envelope.Seal(key, envelope.PKCS1v15, answers[0])
		if err != nil {
			b.Error(err)
			return
		}
		answer := response
		answer.Data = string(data)
		out, err := answer.Marshal()
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = w.Write(out)
	})
}

// postOne sends one body and wants errCode 0 from the gateway.
func postOne(b *testing.B, client *http.Client, url string, service *countersigntest.Service, body []byte) {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	req.Header.Set("X-API-KEY", service.CallbackAPIKey().Reveal())
	resp, err := client.Do(req)
	if err != nil {
		b.Error(err)
		return
	}
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(answer), `"errCode":0`) {
		b.Errorf("%v %s", err, answer)
	}
}

func newBenchClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: benchCallers, DisableCompression: true}}
}

// cost is how long something took, by the clock and of processors.
type cost struct{ wall, cpu time.Duration }

func (c *cost) add(o cost) { c.wall, c.cpu = c.wall+o.wall, c.cpu+o.cpu }

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// postAll sends all bodies from 64 callers and says what it took.
func postAll(b *testing.B, url string, service *countersigntest.Service, bodies [][]byte) cost {
	client := newBenchClient()
	defer client.CloseIdleConnections()
	queue := make(chan []byte, len(bodies))
	for _, body := range bodies {
		queue <- body
	}
	close(queue)
	var work sync.WaitGroup
	began, cpu := time.Now(), cpuTime(b)
	for range benchCallers {
		work.Go(func() {
			for body := range queue {
				postOne(b, client, url, service, body)
			}
		})
	}
	work.Wait()
	return cost{time.Since(began), cpuTime(b) - cpu}
}
