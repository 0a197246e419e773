package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// settleGrace is how long the last settlements may take after all exchanges have ended.
const settleGrace = 5 * time.Second

// New checks c and returns a Dispatcher. It starts nothing.
func New(c Config) (*Dispatcher, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	d := &Dispatcher{
		cfg:       c,
		transport: newTransport(c.TargetRules, c.Roots, c.Dial, c.Width),
		merchants: &cachedMerchants{cfg: &c, entries: make(map[string]*merchantEntry)},
		cores:     newCores(c.RSA),
	}
	d.post = d.transport.post
	for i := range d.lanes {
		d.lanes[i] = newLane(d, countersign.Lane(i), c.Width)
	}
	return d, nil
}

func newLane(d *Dispatcher, id countersign.Lane, width int) *lane {
	return &lane{d: d, id: id, width: width, ahead: claimBatch, ended: make(chan ended, settleBatch),
		jobs: make(chan outbox.Claimed), freed: make(chan struct{}, 1)}
}

// Run sends callbacks until ctx ends. Then it claims no more, gives back the callbacks that it has not sent, lets
// exchanges in flight continue for ExchangeTimeout, settles their results, and returns nil. A Dispatcher runs once.
func (d *Dispatcher) Run(ctx context.Context) error {
	if d.ran.Swap(true) {
		return errors.New("dispatch: it ran before")
	}
	hard, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()

	var claimers, settlers sync.WaitGroup
	for _, l := range d.lanes {
		claimers.Go(func() { l.run(ctx, hard) })
		settlers.Go(func() { l.settle(hard) })
	}
	claimers.Go(func() { d.sweep(ctx) })

	<-ctx.Done()
	last := time.AfterFunc(d.cfg.ExchangeTimeout+settleGrace, giveUp)
	defer last.Stop()
	claimers.Wait()
	for _, l := range d.lanes {
		l.running.Wait()
		close(l.ended)
	}
	settlers.Wait()
	d.transport.close()
	return nil
}

// sweep ends lost leases and expires withdrawals. Every node does this, because a node that died cannot.
func (d *Dispatcher) sweep(stop context.Context) {
	for stop.Err() == nil {
		ctx, cancel := context.WithTimeout(stop, claimTimeout)
		swept, err := d.cfg.Outbox.Sweep(ctx, d.now())
		cancel()
		switch {
		case err == nil:
			d.reportSwept(swept)
		case stop.Err() == nil:
			d.cfg.Log.LogAttrs(stop, slog.LevelError, "sweeping failed", slog.String("error", err.Error()))
		}
		if err == nil && swept.More {
			continue
		}
		db.Sleep(stop, d.cfg.Poll+time.Duration(float64(d.cfg.Poll)*0.2*d.cfg.Random()))
	}
}

func (d *Dispatcher) reportSwept(s outbox.Swept) {
	if len(s.Lost)+len(s.Expired)+len(s.Lapsed) == 0 {
		return
	}
	d.cfg.Observer.Swept(s)
	for _, id := range s.Lost {
		d.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "lease lost", slog.String("callback", id))
	}
	for _, id := range s.Expired {
		d.cfg.Observer.Decided(countersign.DecisionExpired)
		d.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "withdrawal expired", slog.String("withdrawal", id))
	}
	for _, id := range s.Lapsed {
		d.cfg.Log.LogAttrs(context.Background(), slog.LevelError,
			"a confirmed withdrawal was not released in time and has lapsed", slog.String("withdrawal", id))
	}
}
