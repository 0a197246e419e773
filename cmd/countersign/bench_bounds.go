package main

import (
	"bytes"
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

	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// short is how long each of the bounds is measured.
func (b *bench) short() time.Duration {
	if b.Quick {
		return 100 * time.Millisecond
	}
	return 2 * time.Second
}

// boundTime is how long RSA is measured between rounds.
func (b *bench) boundTime() time.Duration { return b.short() * 3 / 4 }

// bounds measures what a callback needs, each thing alone.
func (b *bench) bounds(ctx context.Context) error {
	const suite = "bounds"
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
	if b.API != "" {
		return nil
	}
	return b.durable(ctx)
}

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

// perSecondOf gives the rate of f from several callers over about that long.
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

// httpRate is how many exchanges the loopback does with bodies as long as those
// of callbacks, both ends in this process.
func (b *bench) httpRate(ctx context.Context) (perSecond, cpu float64, err error) {
	sealed, err := envelope.Seal(b.load.pair, envelope.PKCS1v15, b.load.plain)
	if err != nil {
		return 0, 0, err
	}
	answer := bytes.Clone(sealed)
	l, err := daemon.Listen("http", "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}), 5*time.Second, b.log)
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

// durable measures what it costs to be able to say that something is kept.
func (b *bench) durable(ctx context.Context) (err error) {
	const suite = "bounds"
	f, err := os.Create(filepath.Join(b.dir, "sync"))
	if err != nil {
		return err
	}
	page := make([]byte, 4096)
	synced, err := timeOf(ctx, b.short()/2, func() error {
		_, err := f.WriteAt(page, 0)
		return errors.Join(err, f.Sync())
	})
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	b.report.add(suite, "a page written and synced", "a second", 1/synced.Seconds()).note("%s", b.dirNote())

	bare, err := b.openStore(ctx, "durable", 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	for _, callers := range []int{1, 16} {
		perSecond, _, err := perSecondOf(ctx, callers, b.short()/2, func(n int) error {
			rows, err := b.load.rows(bare.ids, fmt.Sprint("durable-", callers), n, 1)
			if err == nil {
				_, err = bare.db.Ingest(ctx, rows, db.MillisOf(time.Now()))
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

func (b *bench) dirNote() string {
	if runtime.GOOS == "linux" && b.DB != "" {
		return "on this machine, not the database's"
	}
	return "in the directory of the databases"
}

// bareStore is a database without a service.
type bareStore struct {
	db  *outbox.Outbox
	ids []string
	dir string
}

func (b *bench) openStore(ctx context.Context, name string, merchants int) (_ *bareStore, err error) {
	b.rigs++
	s := &bareStore{dir: filepath.Join(b.dir, fmt.Sprintf("%s-%d", name, b.rigs))}
	url := b.DB
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	if url == "" {
		url = filepath.Join(s.dir, daemon.DatabaseFile)
	}
	d, err := db.Open(ctx, db.Config{URL: url, Keys: benchKeys(), Log: quietLog()}, outbox.End())
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	s.db = outbox.New(d)
	now := db.MillisOf(time.Now())
	if err := pauseAll(ctx, s.db, now); err != nil {
		return nil, errors.Join(err, s.close())
	}
	for i := range merchants {
		m := outbox.Merchant{
			ID: fmt.Sprintf("%s-%x-%d-%05d", name, now, b.rigs, i), Name: "bench", State: outbox.MerchantActive,
			NotifyURL: "http://127.0.0.1:9/notify", WithdrawURL: "http://127.0.0.1:9/withdraw", Scheme: outbox.SchemeService,
			Concurrency: 10_000, ConfirmWithin: time.Hour, APIKey: b.load.apiKey, Key: b.load.pair,
		}
		if _, err := s.db.CreateMerchant(ctx, m, now); err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.ids = append(s.ids, m.ID)
	}
	return s, nil
}

func (s *bareStore) close() error { return errors.Join(s.db.Close(), os.RemoveAll(s.dir)) }
