package bench

import (
	"context"
	"crypto/sha256"
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
	"countersign/internal/api"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/dispatch"
	"countersign/internal/outbox"
	"countersign/merchant"
)

// masterKey seals the secrets of benches, which protect nothing. It is always the
// same, so that a bench opens the PostgreSQL database of an earlier bench, and never
// that of a real service, which has another key.
func masterKey() [32]byte { return sha256.Sum256([]byte("countersign bench: not a secret")) }

func keys() *db.MasterKey { return db.NewMasterKey(masterKey()) }

// rig is a running service with its merchants.
type rig struct {
	b        *Bench
	name     string // begins the names of merchants and callbacks
	dir      string
	service  *daemon.Service // nil where the service runs elsewhere
	outbox   *watchedOutbox  // nil where the service runs elsewhere
	api      *client.Service
	merchant *merchantEnd
	tracker  *tracker
	ids      []string // of merchants
	cancel   context.CancelFunc
	done     chan error // gets how the rig ended
}

// newRig starts both ends, with n merchants. The caller closes it.
func (b *Bench) newRig(ctx context.Context, n int) (_ *rig, err error) {
	dir, err := b.newDir("rig")
	if err != nil {
		return nil, err
	}
	r := &rig{b: b, dir: dir, name: fmt.Sprintf("b%s-%d", strconv.FormatInt(time.Now().UnixMilli(), 36), b.made),
		tracker: newTracker(), done: make(chan error, 1)}
	var taken func(trackingID string)
	if b.Service != nil {
		taken = func(id string) { r.tracker.end(id, true, time.Now()) }
	}
	if r.merchant, err = b.newMerchantEnd(ctx, dir, taken); err != nil {
		return nil, errors.Join(fmt.Errorf("merchant: %w", err), os.RemoveAll(dir))
	}
	parts := []daemon.Part{{Name: "merchant", Run: r.merchant.run}}
	if b.Service != nil {
		r.api = b.Service
	} else {
		if err := r.openService(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("service: %w", err), r.merchant.close(), os.RemoveAll(dir))
		}
		parts = append(parts, daemon.Part{Name: "service", Run: r.service.Run})
	}
	ctx, r.cancel = context.WithCancel(ctx)
	go func() { r.done <- daemon.RunParts(ctx, parts...) }()
	if err := r.addMerchants(ctx, n); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// openService opens the service that "serve" would run, with an outbox that is
// watched, and makes a client of its API.
func (r *rig) openService(ctx context.Context) (err error) {
	r.service, err = daemon.NewService(daemon.ServiceConfig{
		Storage: daemon.Storage{Dir: filepath.Join(r.dir, "service"), DB: r.b.DB, Keys: keys()},
		Listen:  "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true, Log: r.b.log.With("end", "service"),
		WrapOutbox: func(o dispatch.Outbox) dispatch.Outbox {
			r.outbox = &watchedOutbox{Outbox: o, tracker: r.tracker}
			return r.outbox
		},
	})
	if err != nil {
		return err
	}
	if err := r.service.Open(ctx); err != nil {
		return err
	}
	token := ""
	if err = pauseAll(ctx, r.service.Outbox()); err == nil {
		token, err = newToken(ctx, r.service.Outbox().DB)
	}
	if err == nil {
		r.api, err = client.NewService(client.Config{URL: r.service.URL(), Token: client.Secret(token)})
	}
	if err != nil {
		return errors.Join(err, r.service.Close())
	}
	return nil
}

// pauseAll pauses the merchants that an earlier bench left in a PostgreSQL
// database, so that nothing is sent to them.
func pauseAll(ctx context.Context, o *outbox.Outbox) error {
	for after := ""; ; {
		list, err := o.Merchants(ctx, false, after, 1000)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, m := range list {
			after = m.ID
			if m.State == outbox.MerchantActive {
				if _, err := o.SetMerchantState(ctx, m.ID, outbox.MerchantPaused, "of an earlier bench", db.MillisOf(time.Now())); err != nil {
					return err
				}
			}
		}
	}
}

// newToken makes an admin's token. The database's first token may be lost with an
// earlier bench.
func newToken(ctx context.Context, d *db.DB) (string, error) {
	secret, hash := api.MintToken()
	err := api.NewTokens(d).Create(ctx, api.NewStoreToken("bench", client.RoleAdmin, db.MillisOf(time.Now())), hash)
	return secret.Reveal(), err
}

// registering is how many merchants are registered at once. Their keys are checked one at a
// time, and the service refuses a call where eight wait (dispatch.ErrAsideFull).
const registering = 4

// addMerchants makes the rig's merchants through the API.
func (r *rig) addMerchants(ctx context.Context, n int) error {
	r.ids = make([]string, n)
	err := inParallel(registering, n, func(i int) error {
		r.ids[i] = fmt.Sprintf("%s-%05d", r.name, i)
		m := client.NewMerchant{
			ID:               r.ids[i],
			Key:              &client.KeySpec{PrivateKey: client.Secret(r.b.load.private)},
			MerchantSettings: client.MerchantSettings{Name: "bench", NotifyURL: r.merchant.url() + merchant.DefaultNotifyPath, WithdrawURL: r.merchant.url() + merchant.DefaultWithdrawPath, Concurrency: r.b.Concurrency},
			MerchantSecrets:  client.MerchantSecrets{APIKey: client.Secret(r.b.load.apiKey.Reveal()), CallbackAPIKey: client.Secret(r.b.load.callbackKey.Reveal())},
		}
		return patiently(func() error { _, err := r.api.CreateMerchant(ctx, m); return err })
	})
	if err != nil {
		return fmt.Errorf("registering merchants: %w", err)
	}
	return nil
}

// patiently repeats a call while the API answers that its token makes too many calls.
func patiently(call func() error) error {
	for {
		err := call()
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusTooManyRequests {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// inParallel calls f with each of 0 to n-1, from several goroutines. A goroutine
// stops at its first error; all errors are returned.
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

// close stops both ends and removes their databases.
func (r *rig) close() error {
	var errs []error
	if r.b.Service != nil { // otherwise it would go on calling a merchant that is gone
		for _, id := range r.ids {
			_, err := r.api.PauseMerchant(context.Background(), id, "the bench has ended")
			errs = append(errs, err)
		}
	}
	r.cancel()
	return errors.Join(append(errs, <-r.done, os.RemoveAll(r.dir))...)
}

// deposits posts the deposits from to from+n-1 of a set in one call, for the
// merchants in turn.
func (r *rig) deposits(ctx context.Context, set string, from, n int) error {
	list := make([]client.NewDeposit, n)
	for i := range list {
		list[i] = r.b.load.deposit(r.ids[(from+i)%len(r.ids)], r.name+set, from+i)
	}
	_, err := r.api.AddDeposits(ctx, list...)
	return err
}

// allDeposits posts n deposits of a set, a thousand in each call.
func (r *rig) allDeposits(ctx context.Context, set string, n int) error {
	const atOnce = 1000
	for from := 0; from < n; from += atOnce {
		if err := r.deposits(ctx, set, from, min(atOnce, n-from)); err != nil {
			return err
		}
	}
	return nil
}

// warmUp sends a few deposits, so that connections, prepared statements and pages
// of the database exist before anything is measured.
func (r *rig) warmUp(ctx context.Context) error {
	n := max(20, min(200, r.b.Callbacks))
	before := r.tracker.accepted.Load()
	if err := r.deposits(ctx, "warm", 0, n); err != nil {
		return err
	}
	return r.tracker.wait(ctx, before+int64(n))
}

// withRig runs f on a rig that has warmed up, and closes it.
func (b *Bench) withRig(ctx context.Context, merchants int, f func(*rig) error) (err error) {
	r, err := b.newRig(ctx, merchants)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	return f(r)
}

// key is the name of an accepted deposit in the tracker: its id, or its trackingId if
// the merchant reports its end.
func (r *rig) key(a client.Accepted) string {
	if r.service == nil {
		return a.TrackingID
	}
	return a.ID
}
