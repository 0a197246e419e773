//go:build unix

package dispatch

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func ingestFor(b *testing.B, s *outbox.Outbox, merchant string, from, n int) {
	for start := from; start < from+n; start += 1000 {
		batch := make([]outbox.NewCallback, 0, 1000)
		for i := start; i < min(start+1000, from+n); i++ {
			c := depositPayload(b, i)
			c.Merchant = merchant
			batch = append(batch, c)
		}
		if _, err := s.Ingest(b.Context(), batch, db.MillisOf(time.Now())); err != nil {
			b.Fatal(err)
		}
	}
}

// drain runs a Dispatcher, whose pair of the signed link may be given, until n callbacks are accepted.
func drain(b *testing.B, s *outbox.Outbox, n int, sign ...*envelope.SigningKey) *countingObserver {
	o := &countingObserver{want: n, all: make(chan struct{})}
	config := Config{Outbox: s, Node: "bench", TargetRules: TargetRules{AllowHTTP: true}, Observer: o}
	if len(sign) > 0 {
		config.Sign = sign[0]
	}
	d, err := New(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { _ = d.Run(ctx); close(done) }()
	select {
	case <-o.all:
	case <-time.After(2 * time.Minute):
		b.Error("not all accepted")
	}
	cancel()
	<-done
	return o
}

type countingObserver struct {
	noObserver
	mu       sync.Mutex
	want     int
	accepted int
	claims   int
	settles  int
	all      chan struct{}
}

func (o *countingObserver) Claimed(countersign.Lane, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims++
}

func (o *countingObserver) Settled(int, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settles++
}

func (o *countingObserver) Attempt(_ countersign.Lane, _ countersign.Type, result client.AttemptResult, _ client.Reason, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if result == client.AttemptAccepted {
		if o.accepted++; o.accepted == o.want {
			close(o.all)
		}
	}
}

// cpuTime is how many seconds of processor time this process has used. Unlike
// the clock it does not mind what else the machine does.
func cpuTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
