package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/lab/dbtest"
)

// newBench gives a core and a service with eight merchants, both on PostgreSQL, in one
// cluster.
func newBench(b *testing.B) (*core, *service) {
	c := newCore(b)
	s := newService(b, dbtest.Postgres(b), "m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7")
	if _, err := s.admin.Freeze(context.Background(), "the sender would take its part of the processor"); err != nil {
		b.Fatal(err)
	}
	return c, s
}

// BenchmarkRate carries rows that wait, of eight merchants, deposits alone or withdrawals
// alone.
func BenchmarkRate(b *testing.B) {
	for _, kind := range []string{kindDeposit, kindWithdrawal} {
		b.Run(kind, func(b *testing.B) {
			c, s := newBench(b)
			rows := make([][]any, b.N)
			for i := range rows {
				m := fmt.Sprint("m", i%8)
				rows[i] = []any{kind, deposit(m, fmt.Sprint("d-", i))}
				if kind == kindWithdrawal {
					rows[i][1] = withdrawal(m, fmt.Sprint("d-", i))
				}
			}
			if _, err := c.conn.CopyFrom(context.Background(), pgx.Identifier{"countersign_outbox"}, []string{"kind", "body"}, pgx.CopyFromRows(rows)); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			r := start(b, Config{From: c.url, Service: s.client(&http.Transport{}), Poll: time.Second})
			until(b, "all rows are carried", func() bool { return c.waiting() == "0" })
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			r.stop()
		})
	}
}

// BenchmarkLag inserts 50 rows a second and measures, for each, the time from the core's
// commit to the service's.
func BenchmarkLag(b *testing.B) {
	c, s := newBench(b)
	acks := &acknowledged{RoundTripper: &http.Transport{}, at: map[string]time.Time{}}
	r := start(b, Config{From: c.url, Service: s.client(acks)})
	committed := map[string]time.Time{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	b.ResetTimer()
	for i := range b.N {
		<-tick.C
		id := fmt.Sprint("d-", i)
		c.insert(kindDeposit, deposit(fmt.Sprint("m", i%8), id))
		committed[id] = time.Now()
	}
	until(b, "all rows are carried", func() bool { return c.waiting() == "0" })
	b.StopTimer()
	r.stop()
	var lags []time.Duration
	for id, at := range acks.at {
		lags = append(lags, at.Sub(committed[id]))
	}
	if len(lags) != b.N {
		b.Fatalf("%d of %d rows were acknowledged", len(lags), b.N)
	}
	slices.Sort(lags)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(lags[len(lags)/2]), "p50-ms")
	b.ReportMetric(ms(lags[len(lags)*99/100]), "p99-ms")
}

// acknowledged notes when each deposit was acknowledged to the relay.
type acknowledged struct {
	http.RoundTripper
	mu sync.Mutex
	at map[string]time.Time
}

func (a *acknowledged) RoundTrip(r *http.Request) (*http.Response, error) {
	var list []struct{ TrackingID string }
	if body, err := r.GetBody(); err == nil {
		b, _ := io.ReadAll(body)
		_ = json.Unmarshal(b, &list)
	}
	resp, err := a.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode/100 == 2 {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, d := range list {
			a.at[d.TrackingID] = time.Now()
		}
	}
	return resp, err
}
