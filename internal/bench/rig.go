package bench

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/api"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/dispatch"
	"countersign/internal/outbox"
	"countersign/merchant"
)

// masterKey returns the key of all benches, whose secrets protect nothing. It is always the same, so that a bench can
// open the PostgreSQL database of an earlier one, and never that of a real service, which has another key.
func masterKey() *db.MasterKey {
	return db.NewMasterKey(sha256.Sum256([]byte("countersign bench: not a secret")))
}

// rig is a running service with one merchant, whose inbox is in memory.
type rig struct {
	*Bench
	service *daemon.Service
	api     *client.Service
	id      string // of the merchant
	settled *settled
	posted  int          // deposits so far
	body    atomic.Int64 // length of the last body that the merchant got
}

// onRig returns a suite that runs f on its own rig after a warm-up: connections, prepared statements and pages of the
// database exist before anything is measured.
func onRig(f func(*rig, context.Context) error) func(*Bench, context.Context) error {
	return func(b *Bench, ctx context.Context) (err error) {
		r := &rig{Bench: b, id: fmt.Sprint("bench-", b.next.Add(1)),
			settled: &settled{news: make(chan struct{}), keys: map[string]string{}, at: map[string]time.Time{}}}
		r.service, err = daemon.NewService(daemon.ServiceConfig{
			Common: daemon.Common{Storage: daemon.Storage{Dir: filepath.Join(b.dir, r.id), DB: b.DB, Keys: masterKey()},
				Log: b.log}, Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true,
			WrapOutbox: func(o dispatch.Outbox) dispatch.Outbox { return watchedOutbox{o, r.settled} },
		})
		if err == nil {
			err = r.service.Open(ctx)
		}
		if err != nil {
			return err
		}
		secret, hash := api.MintToken() // the database's first token may be lost with an earlier bench
		token := api.NewStoreToken("bench", client.RoleAdmin, db.MillisOf(time.Now()))
		err = api.NewTokens(r.service.Outbox().DB).Create(ctx, token, hash)
		if err == nil {
			r.api, err = client.NewService(client.Config{URL: r.service.URL(), Token: client.Secret(secret.Reveal())})
		}
		if err != nil {
			return errors.Join(err, r.service.Close())
		}
		measure := func(ctx context.Context) error {
			if err := r.addMerchant(ctx); err != nil {
				return fmt.Errorf("registering the merchant: %w", err)
			}
			if _, err := r.round(ctx, 200); err != nil {
				return err
			}
			return f(r, ctx)
		}
		return daemon.RunParts(ctx, daemon.Part{Name: "service", Run: r.service.Run},
			daemon.Part{Name: "measuring", Run: measure})
	}
}

// addMerchant pauses the merchants that an earlier bench left in a PostgreSQL database, so that nothing is sent to
// them. It then runs the rig's merchant until ctx ends, which accepts every deposit and confirms every withdrawal.
func (r *rig) addMerchant(ctx context.Context) error {
	for m, err := range r.api.AllMerchants(ctx) {
		if err == nil && m.State == client.MerchantActive {
			_, err = r.api.PauseMerchant(ctx, m.ID, "of an earlier bench")
		}
		if err != nil {
			return err
		}
	}
	c := r.keys.MerchantConfig()
	c.Inbox, c.Log = merchant.NewMemoryInbox(), r.log
	c.OnWithdrawal = func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
		return merchant.Confirm(w.TenantUserID, countersigntest.Order(0)), nil
	}
	h, err := merchant.New(c)
	if err != nil {
		return err
	}
	private, err := r.pair.PrivatePEM()
	if err != nil {
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.body.Store(q.ContentLength)
		h.ServeHTTP(w, q)
	}))
	context.AfterFunc(ctx, server.Close)
	_, err = r.api.CreateMerchant(ctx, client.NewMerchant{
		ID: r.id, Key: &client.KeySpec{PrivateKey: client.Secret(private)},
		MerchantSettings: client.MerchantSettings{Name: "bench", NotifyURL: server.URL + merchant.DefaultNotifyPath,
			WithdrawURL: server.URL + merchant.DefaultWithdrawPath, Concurrency: 64},
		MerchantSecrets: client.MerchantSecrets{APIKey: client.Secret(r.keys.APIKey().Reveal()),
			CallbackAPIKey: client.Secret(r.keys.CallbackAPIKey().Reveal())},
	})
	return err
}

const ingestBatch = 100  // deposits in one call
const ingestAhead = 1500 // deposits posted and not settled, at most: the service is busy, and nothing piles up

// round sends n deposits through the whole system. It returns the time from the first call of the API to the last
// settlement.
func (r *rig) round(ctx context.Context, n int) (time.Duration, error) {
	list := make([]client.NewDeposit, n)
	for i := range list {
		list[i] = r.newDeposit(r.id)
	}
	start := time.Now()
	for from := 0; from < n; from += ingestBatch {
		part := list[from:min(from+ingestBatch, n)]
		if _, err := r.api.AddDeposits(ctx, part...); err != nil {
			return 0, err
		}
		r.posted += len(part)
		if err := r.settled.wait(ctx, func() bool { return len(r.settled.at) >= r.posted-ingestAhead }); err != nil {
			return 0, err
		}
	}
	err := r.settled.wait(ctx, func() bool { return len(r.settled.at) >= r.posted })
	return time.Since(start), err
}

// size returns the size of the service's database in bytes.
func (r *rig) size(ctx context.Context) (bytes float64, err error) {
	look := "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
	if r.DB != "" {
		look = "SELECT pg_database_size(current_database())::float8"
	}
	_, err = db.One(ctx, r.service.Outbox(), look, nil, &bytes)
	return bytes, err
}

// patience is how long a rig waits for the next callback to settle before it calls the rest lost.
const patience = 2 * time.Minute

// settled holds the callbacks that were accepted.
type settled struct {
	mu   sync.Mutex
	news chan struct{}        // closed, and made anew, when there are more
	keys map[string]string    // by id
	at   map[string]time.Time // when their settlement was durable, by keyOf
	lost int                  // callbacks that ended otherwise
}

// keyOf returns what identifies a callback of the merchant.
func keyOf(typ countersign.Type, id string) string { return fmt.Sprint(int(typ), "/", id) }

// wait returns when ready, which may read s, returns true. It returns an error if a callback was not accepted, or if
// none settles for patience.
func (s *settled) wait(ctx context.Context, ready func() bool) error {
	for {
		s.mu.Lock()
		done, news, n, lost := ready(), s.news, len(s.at), s.lost
		s.mu.Unlock()
		switch {
		case done:
			return nil
		case lost > 0:
			return fmt.Errorf("%d callbacks ended without being accepted", lost)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(patience):
			return fmt.Errorf("%d callbacks settled, and none of the others within %v", n, patience)
		}
	}
}

// of waits for one callback.
func (s *settled) of(ctx context.Context, typ countersign.Type, id string) (at time.Time, err error) {
	err = s.wait(ctx, func() (ok bool) { at, ok = s.at[keyOf(typ, id)]; return ok })
	return at, err
}

// watchedOutbox reports each settlement to settled once it is durable, a moment before the dispatcher knows.
type watchedOutbox struct {
	dispatch.Outbox
	settled *settled
}

// Claim notes what the claimed callbacks are about.
func (o watchedOutbox) Claim(ctx context.Context, r outbox.ClaimRequest) ([]outbox.Claimed, error) {
	claimed, err := o.Outbox.Claim(ctx, r)
	o.settled.mu.Lock()
	defer o.settled.mu.Unlock()
	for _, c := range claimed {
		o.settled.keys[c.ID] = keyOf(c.Type, cmp.Or(c.CallBackID, c.TrackingID))
	}
	return claimed, err
}

// Settle settles list and notes the callbacks that have ended.
func (o watchedOutbox) Settle(ctx context.Context, list []outbox.Settlement, now db.Millis) ([]outbox.Settled, error) {
	results, err := o.Outbox.Settle(ctx, list, now)
	if err != nil {
		return results, err
	}
	at, s := time.Now(), o.settled
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, one := range list {
		switch {
		case !results[i].Applied || one.State == client.CallbackPending:
		case one.State == client.CallbackAccepted:
			s.at[s.keys[one.CallbackID]] = at
		default:
			s.lost++
		}
	}
	close(s.news)
	s.news = make(chan struct{})
	return results, nil
}
