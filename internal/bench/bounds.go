package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// short is how long each of the bounds is measured.
func (b *Bench) short() time.Duration {
	if b.Quick {
		return 100 * time.Millisecond
	}
	return 2 * time.Second
}

// bounds measures separately each thing that a callback needs.
func (b *Bench) bounds(ctx context.Context) (err error) {
	const suite = "bounds"
	var kept *outbox.Outbox
	var id string
	if b.Service == nil { // first: the database of a service is refused before anything is measured
		if kept, id, err = b.openOutbox(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, kept.Close()) }()
	}
	operations, err := b.load.rsaOperations()
	if err != nil {
		return err
	}
	for _, o := range operations {
		took, err := timeOf(ctx, b.short()/2, o.do)
		if err != nil {
			return err
		}
		b.report.add(suite, o.name, "µs", us(took)).note("%d blocks, %s µs each", o.blocks, number(us(took)/float64(o.blocks)))
	}
	request, response, err := b.load.bodies()
	if err != nil {
		return err
	}
	b.report.add(suite, "both bodies on the wire", "bytes a callback", float64(request+response)).
		note("request %d, response %d, without headers", request, response)
	rsa, err := b.load.rsaFor(ctx, b.short())
	if err != nil {
		return err
	}
	b.report.add(suite, "RSA of both ends, all cores", "callbacks/s", rsa.perSecond).
		note("%s ms of processor each", number(1000*rsa.cpu))
	b.report.add(suite, "the same, one operation at once on each", "callbacks/s", rsa.oneEach)
	perSecond, cpu, err := b.httpRate(ctx)
	if err != nil {
		return err
	}
	b.report.add(suite, "loopback HTTP, bodies as long", "requests/s", perSecond).note("%s ms of processor each", number(1000*cpu))
	if b.Service != nil {
		return nil // its disk is elsewhere
	}
	return b.durable(ctx, kept, id)
}

// us is d in microseconds.
func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// timeOf gives the mean time of f over about that long.
func timeOf(ctx context.Context, long time.Duration, f func() error) (time.Duration, error) {
	start, n := time.Now(), 0
	for n == 0 || time.Since(start) < long {
		if err := errors.Join(f(), ctx.Err()); err != nil {
			return 0, err
		}
		n++
	}
	return time.Since(start) / time.Duration(n), nil
}

// perSecondOf gives the rate of f, called from several goroutines for about that
// long, and the seconds of processor that one call takes. f is told the number of
// its call, from 1 on.
func perSecondOf(ctx context.Context, callers int, long time.Duration, f func(n int) error) (perSecond, cpu float64, err error) {
	start, before := time.Now(), processorTime()
	var n, next atomic.Int64
	err = inParallel(callers, callers, func(int) error {
		for n.Load() == 0 || time.Since(start) < long {
			if err := errors.Join(f(int(next.Add(1))), ctx.Err()); err != nil {
				return err
			}
			n.Add(1)
		}
		return nil
	})
	done := float64(n.Load())
	return done / time.Since(start).Seconds(), (processorTime() - before).Seconds() / max(done, 1), err
}

// httpRate is how many exchanges a second HTTP on the loopback does with bodies as
// long as those of callbacks, both ends in this process.
func (b *Bench) httpRate(ctx context.Context) (perSecond, cpu float64, err error) {
	sealed, err := envelope.Seal(b.load.pair, envelope.PKCS1v15, b.load.plain)
	if err != nil {
		return 0, 0, err
	}
	answer := bytes.Clone(sealed)
	l, err := daemon.Listen(daemon.ListenConfig{Name: "http", Addr: "127.0.0.1:0", Most: 10_000, Drain: 5 * time.Second, Log: b.log, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})})
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	transport := &http.Transport{MaxIdleConnsPerHost: b.Concurrency, DisableCompression: true}
	url := l.URL()
	perSecond, cpu, err = perSecondOf(ctx, b.Concurrency, b.short(), func(int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(sealed))
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close())
	})
	transport.CloseIdleConnections()
	cancel()
	return perSecond, cpu, errors.Join(err, <-done)
}

// durable measures writes that survive a loss of power: a page of a file, and
// deposits in the database.
func (b *Bench) durable(ctx context.Context, o *outbox.Outbox, id string) (err error) {
	const suite = "bounds"
	f, err := os.Create(filepath.Join(b.dir, "sync"))
	if err != nil {
		return err
	}
	synced, err := timeOf(ctx, b.short()/2, func() error { return writePage(f) })
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	b.report.add(suite, "a page written and synced", "a second", 1/synced.Seconds()).note("%s", b.dirNote())

	for _, callers := range []int{1, 16} {
		perSecond, _, err := perSecondOf(ctx, callers, b.short()/2, func(n int) error {
			row, err := b.load.row(id, fmt.Sprint("durable-", callers), n)
			if err == nil {
				_, err = o.Ingest(ctx, []outbox.NewCallback{row}, db.MillisOf(time.Now()))
			}
			return err
		})
		if err != nil {
			return err
		}
		b.report.add(suite, fmt.Sprintf("deposits kept one by one, %d at once", callers), "a second", perSecond)
	}
	return nil
}

// openOutbox opens a database that no service works on, with a merchant.
func (b *Bench) openOutbox(ctx context.Context) (_ *outbox.Outbox, id string, err error) {
	dir, err := b.newDir("durable")
	if err != nil {
		return nil, "", err
	}
	d, err := db.Open(ctx, db.Config{URL: cmp.Or(b.DB, filepath.Join(dir, daemon.DatabaseFile)), Keys: keys()}, outbox.End())
	if err != nil {
		return nil, "", err
	}
	o, now := outbox.New(d), db.MillisOf(time.Now())
	m := outbox.Merchant{
		ID:               fmt.Sprintf("durable-%x", now),
		State:            outbox.MerchantActive,
		Scheme:           outbox.SchemeService,
		APIKey:           b.load.apiKey,
		Key:              b.load.pair,
		MerchantSettings: client.MerchantSettings{Name: "bench", NotifyURL: "http://127.0.0.1:9/notify", WithdrawURL: "http://127.0.0.1:9/withdraw", Concurrency: 64, ConfirmWithin: client.Duration(time.Hour)},
	}
	if err = pauseAll(ctx, o); err == nil {
		_, err = o.CreateMerchant(ctx, m, now)
	}
	if err != nil {
		return nil, "", errors.Join(err, o.Close())
	}
	return o, m.ID, nil
}

// writePage writes a page of a file so that it survives a loss of power.
func writePage(f *os.File) error {
	_, err := f.WriteAt(make([]byte, 4096), 0)
	return errors.Join(err, f.Sync())
}

// dirNote says which disk was measured.
func (b *Bench) dirNote() string {
	if runtime.GOOS == "linux" && b.DB != "" {
		return "on this machine, not the database's"
	}
	return "in the directory of the databases"
}
