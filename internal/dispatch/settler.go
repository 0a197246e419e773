package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

const (
	settleBatch = 256
	// Under load settlements wait for each other, at most this long, until a quarter of the callbacks in flight have
	// ended. Transactions and the claims after them are then few and large, and each page is written less often. With
	// fewer than busy callbacks in flight no settlement waits.
	settleGather  = 50 * time.Millisecond
	busy          = 24
	settleTimeout = 10 * time.Second // of one try
	settleBackoff = 50 * time.Millisecond
	settleSlowest = 2 * time.Second
)

// settle settles ended attempts until l.ended is closed. Those that end while one transaction runs are settled by the
// next one. Each lane settles separately, so a decision never waits for deposits.
func (l *lane) settle(hard context.Context) {
	var batch []ended
	for {
		e, ok := <-l.ended
		if !ok {
			return
		}
		batch = l.collect(append(batch[:0], e))
		l.d.settleBatch(hard, batch)
		for range batch {
			l.done()
		}
		clear(batch) // frees their memory
	}
}

// collect adds to batch the attempts that have ended or, under load, end soon.
func (l *lane) collect(batch []ended) []ended {
	enough, patience := 1, (<-chan time.Time)(nil)
	if n := l.load(); n >= busy {
		enough, patience = n/4, time.After(settleGather)
	}
	for len(batch) < settleBatch && (len(batch) < enough || len(l.ended) > 0) {
		select {
		case e, ok := <-l.ended:
			if !ok {
				return batch
			}
			batch = append(batch, e)
		case <-patience:
			enough = 0
		}
	}
	return batch
}

// load returns how many callbacks are in flight.
func (l *lane) load() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight
}

func (d *Dispatcher) settleBatch(hard context.Context, batch []ended) {
	var back []outbox.Claimed
	settlements := make([]outbox.Settlement, 0, len(batch))
	of := make([]*ended, 0, len(batch)) // of settlements[i]
	until := db.Millis(0)
	for i := range batch {
		e := &batch[i]
		until = max(until, e.claimed.LeaseUntil)
		if e.giveBack {
			back = append(back, e.claimed)
			continue
		}
		settlements = append(settlements, e.settlement)
		of = append(of, e)
	}
	if len(back) > 0 {
		_ = d.persist(hard, "giving back claimed callbacks failed", until, func(ctx context.Context) error {
			return d.cfg.Outbox.GiveBack(ctx, back, d.now())
		})
	}
	if len(settlements) == 0 {
		return
	}
	start := time.Now()
	var settled []outbox.Settled
	err := d.persist(hard, "settling failed", until, func(ctx context.Context) (err error) {
		settled, err = d.cfg.Outbox.Settle(ctx, settlements, d.now())
		return err
	})
	if err == nil {
		d.cfg.Observer.Settled(len(settlements), time.Since(start))
	}
	var item *db.ItemError
	if errors.As(err, &item) && len(of) > 1 {
		// A settlement that the outbox refuses must not block the others.
		for _, e := range of {
			d.settleBatch(hard, []ended{*e})
		}
		return
	}
	for i, e := range of {
		var s outbox.Settled
		if i < len(settled) {
			s = settled[i]
		}
		d.report(e, s, err)
		if e.opening != nil {
			e.opening.settled(e.claimed.Type.Lane(), s.OpenFailures)
		}
	}
}

// persist tries until it succeeds or the last lease has ended, and then once more: all time-outs of a process that
// stood still have passed, and late results are recorded too. The sweep makes the rest due again. A try that failed
// after it was applied is harmless, because an attempt is settled once.
func (d *Dispatcher) persist(hard context.Context, what string, until db.Millis,
	try func(context.Context) error) error {
	for wait, last := settleBackoff, false; ; wait = min(2*wait, settleSlowest) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(hard), settleTimeout)
		err := try(ctx)
		cancel()
		if err == nil {
			return nil
		}
		d.cfg.Log.LogAttrs(hard, slog.LevelError, what, slog.String("error", err.Error()))
		var item *db.ItemError
		if hard.Err() != nil || last || errors.As(err, &item) {
			return err
		}
		last = d.now() >= until
		db.Sleep(hard, wait)
	}
}

// report logs one line for an attempt, and one more for each alarm.
func (d *Dispatcher) report(e *ended, s outbox.Settled, err error) {
	c, v, a, kind := e.claimed, e.verdict, e.settlement.Attempt, e.settlement.Alarm
	if s.Stopped != "" {
		v.Result, v.Reason, kind = client.AttemptRetry, s.Stopped, ""
	}
	lane := c.Type.Lane()
	d.cfg.Observer.Attempt(lane, c.Type, v.Result, v.Reason, e.took)
	level := slog.LevelInfo
	if v.Result == client.AttemptAccepted && s.Decision == countersign.DecisionNone && err == nil {
		level = slog.LevelDebug
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs,
		slog.String("merchant", c.Merchant), slog.String("callback", c.ID), slog.Int("type", int(c.Type)),
		slog.Int("attempt", a.Number), slog.String("result", string(v.Result)), slog.String("reason", string(v.Reason)),
		slog.Int("status", a.HTTPStatus), slog.String("trace", countersign.TraceID(c.CallBackID, c.TrackingID)))
	if v.ErrCode != nil {
		attrs = append(attrs, slog.Int64("errCode", *v.ErrCode))
	}
	attrs = append(attrs, slog.Int64("ms", a.DurationMs))
	if s.Decision != countersign.DecisionNone {
		attrs = append(attrs, slog.String("decision", string(s.Decision)))
	}
	if s.Stopped == "" {
		attrs = append(attrs, logged(v.Facts)...)
	}
	switch {
	case err != nil:
		level = slog.LevelError
		attrs = append(attrs, slog.String("settled", "unknown"))
	case s.Late:
		attrs = append(attrs, slog.String("settled", "late"))
	case !s.Applied:
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("settled", "no"))
	case s.Decision != countersign.DecisionNone:
		d.cfg.Observer.Decided(s.Decision)
	}
	ctx := context.Background()
	d.cfg.Log.LogAttrs(ctx, level, "attempt", attrs...)
	if kind != "" {
		d.alarm(c, kind)
	}
	if s.Differs {
		d.alarm(c, client.AlarmAnswerDiffers)
	}
	if s.Paused {
		d.alarm(c, client.AlarmOpenFailures)
	}
}

func (d *Dispatcher) alarm(c outbox.Claimed, kind client.AlarmKind) {
	d.cfg.Log.LogAttrs(context.Background(), slog.LevelError, "alarm", slog.String("kind", string(kind)),
		slog.String("merchant", c.Merchant), slog.String("callback", c.ID), slog.String("text", kind.Text()))
}
