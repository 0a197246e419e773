package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"countersign/client"
	"countersign/internal/admin"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/dispatch"
	"countersign/internal/jsonapi"
	"countersign/internal/outbox"
	"countersign/merchant"
)

// benchPatience is how long a rig waits for the next callback to settle before
// it calls the rest lost.
const benchPatience = 2 * time.Minute

// benchRig is a service with its merchants, running.
type benchRig struct {
	b        *bench
	name     string // begins the names of all that is made in it
	dir      string
	service  *daemon.Service // nil where the service is elsewhere
	outbox   *watchedOutbox
	api      *client.Service
	merchant *benchMerchant
	settled  *settledSink
	ids      []string // of merchants
	cancel   context.CancelFunc
	done     chan error
}

// newRig starts both ends, with n merchants. The caller closes it.
func (b *bench) newRig(ctx context.Context, n int) (_ *benchRig, err error) {
	b.rigs++
	r := &benchRig{
		b: b, name: fmt.Sprintf("b%s-%d", strconv.FormatInt(time.Now().UnixMilli(), 36), b.rigs),
		settled: newSettledSink(), done: make(chan error, 1),
	}
	r.dir = filepath.Join(b.dir, r.name)
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, err
	}
	ctx, r.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			r.cancel()
			err = errors.Join(err, os.RemoveAll(r.dir))
		}
	}()
	var taken func(string)
	if b.API != "" {
		taken = func(id string) { r.settled.end(id, true, time.Now()) }
	}
	if r.merchant, err = b.newMerchant(ctx, r.dir, taken); err != nil {
		return nil, fmt.Errorf("merchant: %w", err)
	}
	parts := []daemon.Part{{Name: "merchant", Run: r.merchant.run}}
	if b.API != "" {
		token, err := b.Token.reveal("token")
		if err == nil {
			r.api, err = client.NewService(client.Config{URL: b.API, Token: client.Secret(token)})
		}
		if err != nil {
			return nil, errors.Join(err, r.merchant.close())
		}
	} else {
		if err := r.newService(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("service: %w", err), r.merchant.close())
		}
		parts = append(parts, daemon.Part{Name: "service", Run: r.service.Run})
	}
	go func() { r.done <- daemon.RunParts(ctx, parts...) }()
	if err := r.addMerchants(ctx, n); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// newService opens what serve would, with an outbox that is watched.
func (r *benchRig) newService(ctx context.Context) (err error) {
	r.service, err = daemon.NewService(daemon.ServiceConfig{
		Storage: daemon.Storage{Dir: filepath.Join(r.dir, "service"), DB: r.b.DB, Keys: benchKeys()},
		Listen:  "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true, Log: r.b.log.With("end", "service"),
		WrapOutbox: func(o dispatch.Outbox) dispatch.Outbox {
			r.outbox = &watchedOutbox{Outbox: o, sink: r.settled}
			return r.outbox
		},
	})
	if err != nil {
		return err
	}
	if err := r.service.Open(ctx); err != nil {
		return err
	}
	rows := r.service.Outbox()
	err = pauseAll(ctx, rows, db.MillisOf(time.Now()))
	if err == nil {
		var token string
		if token, err = benchToken(ctx, rows.DB); err == nil {
			r.api, err = client.NewService(client.Config{URL: r.service.URL(), Token: client.Secret(token)})
		}
	}
	if err != nil {
		return errors.Join(err, r.service.Close())
	}
	return nil
}

// pauseAll stops what an earlier bench may have left in a PostgreSQL database.
func pauseAll(ctx context.Context, o *outbox.Outbox, now db.Millis) error {
	for after := ""; ; {
		list, err := o.Merchants(ctx, after, 1000)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, m := range list {
			after = m.ID
			if m.State == outbox.MerchantActive {
				if _, err := o.SetMerchantState(ctx, m.ID, outbox.MerchantPaused, "of an earlier bench", now); err != nil {
					return err
				}
			}
		}
	}
}

// benchToken makes an operator's token: the one of serve is shown only once for a
// database.
func benchToken(ctx context.Context, d *db.DB) (string, error) {
	secret, hash := admin.MintToken()
	err := jsonapi.NewTokens(d).Create(ctx, admin.NewStoreToken("bench", admin.RoleOperator, db.MillisOf(time.Now())), hash)
	return secret.Reveal(), err
}

// addMerchants makes the rig's merchants through the API.
func (r *benchRig) addMerchants(ctx context.Context, n int) error {
	r.ids = make([]string, n)
	err := inParallel(16, n, func(i int) error {
		r.ids[i] = fmt.Sprintf("%s-%05d", r.name, i)
		m := client.NewMerchant{
			ID: r.ids[i], Name: "bench", APIKey: client.Secret(r.b.load.apiKey.Reveal()),
			CallbackAPIKey: client.Secret(r.b.load.callbackKey.Reveal()), Key: &client.KeySpec{PrivateKey: client.Secret(r.b.load.private)},
			NotifyURL:   r.merchant.url() + merchant.DefaultNotifyPath,
			WithdrawURL: r.merchant.url() + merchant.DefaultWithdrawPath, Concurrency: r.b.Concurrency,
		}
		for {
			_, err := r.api.CreateMerchant(ctx, m)
			var p *client.Problem
			if !errors.As(err, &p) || p.Status != http.StatusTooManyRequests {
				return err
			}
			time.Sleep(100 * time.Millisecond) // the API has a limit for each token
		}
	})
	if err != nil {
		return fmt.Errorf("registering merchants: %w", err)
	}
	return nil
}

// inParallel calls f with 0 to n-1, from several callers at once, and gives the
// first error of each.
func inParallel(callers, n int, f func(int) error) error {
	var next atomic.Int64
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[c] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// close stops everything and forgets it.
func (r *benchRig) close() error {
	var errs []error
	if r.b.API != "" { // leave nothing that would be tried for days
		for _, id := range r.ids {
			_, err := r.api.PauseMerchant(context.Background(), id, "the bench has ended")
			errs = append(errs, err)
		}
	}
	r.cancel()
	return errors.Join(append(errs, <-r.done, os.RemoveAll(r.dir))...)
}

// deposits posts n deposits in batches, the merchants in turn.
func (r *benchRig) deposits(ctx context.Context, set string, n, batch int) error {
	for from := 0; from < n; from += batch {
		list := make([]client.NewDeposit, min(batch, n-from))
		for i := range list {
			list[i] = r.b.load.deposit(r.ids[(from+i)%len(r.ids)], r.name+set, from+i)
		}
		if _, err := r.api.AddDeposits(ctx, list...); err != nil {
			return err
		}
	}
	return nil
}

// key is by what an accepted deposit is known to the sink.
func (r *benchRig) key(a client.Accepted) string {
	if r.service == nil {
		return a.TrackingID
	}
	return a.ID
}

// settledSink is told of every callback that becomes final.
type settledSink struct {
	accepted atomic.Int64
	failed   atomic.Int64
	news     chan struct{} // buffered 1

	mu     sync.Mutex
	clocks map[string]*latencies // set of those that are timed, by key
	early  map[string]time.Time  // ended before its start was told
	timing int                   // distributions that are being taken
}

func newSettledSink() *settledSink {
	return &settledSink{news: make(chan struct{}, 1), clocks: map[string]*latencies{}, early: map[string]time.Time{}}
}

// end of a callback at a time.
func (s *settledSink) end(key string, accepted bool, at time.Time) {
	s.mu.Lock()
	if l := s.clocks[key]; l != nil {
		delete(s.clocks, key)
		l.end(key, at)
	} else if s.timing > 0 {
		s.early[key] = at
	}
	s.mu.Unlock()
	if accepted {
		s.accepted.Add(1)
	} else {
		s.failed.Add(1)
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// wait returns when n callbacks in all have been accepted.
func (s *settledSink) wait(ctx context.Context, n int64) error {
	patience := time.NewTimer(benchPatience)
	defer patience.Stop()
	for s.accepted.Load() < n {
		if failed := s.failed.Load(); failed > 0 {
			return fmt.Errorf("%d callbacks ended without being accepted", failed)
		}
		select {
		case <-s.news:
			patience.Reset(benchPatience)
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("%d of %d callbacks settled, and nothing more for %v", s.accepted.Load(), n, benchPatience)
		}
	}
	return nil
}

// watchedOutbox sees every settlement when it is durable, a moment before the
// dispatcher does.
type watchedOutbox struct {
	dispatch.Outbox
	sink    *settledSink
	claims  atomic.Int64 // that found something
	settles atomic.Int64
}

func (o *watchedOutbox) Claim(ctx context.Context, r outbox.ClaimRequest) ([]outbox.Claimed, error) {
	claimed, err := o.Outbox.Claim(ctx, r)
	if len(claimed) > 0 {
		o.claims.Add(1)
	}
	return claimed, err
}

func (o *watchedOutbox) Settle(ctx context.Context, list []outbox.Settlement, now db.Millis) ([]outbox.Settled, error) {
	settled, err := o.Outbox.Settle(ctx, list, now)
	if err != nil {
		return settled, err
	}
	at := time.Now()
	o.settles.Add(1)
	for i, s := range list {
		if settled[i].Applied && s.State != outbox.CallbackPending {
			o.sink.end(s.CallbackID, s.State == outbox.CallbackAccepted, at)
		}
	}
	return settled, nil
}
