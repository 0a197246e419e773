package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"countersign"
	"countersign/internal/book"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/merchant"
)

// slowAnswer is how long the slow merchant of the suite faults takes.
const slowAnswer = 3 * time.Second

// benchMerchant is the merchants' end: one listener for all of them.
type benchMerchant struct {
	load     *benchLoad
	gateway  *daemon.Gateway  // nil: package merchant with its inbox in memory
	listener *daemon.Listener // of that; nil with a gateway
}

// taken is told of a deposit's trackingId when the merchant takes it; it may be
// nil.
func (b *bench) newMerchant(ctx context.Context, dir string, taken func(trackingID string)) (_ *benchMerchant, err error) {
	m := &benchMerchant{load: b.load}
	log := b.log.With("end", "merchant")
	callbacks := merchant.Config{Key: b.load.pair.Public(), APIKey: b.load.apiKey, CallbackAPIKeys: []countersign.APIKey{b.load.callbackKey}}
	if b.Inbox == "sqlite" {
		m.gateway, err = daemon.NewGateway(daemon.GatewayConfig{
			Storage: daemon.Storage{Dir: filepath.Join(dir, "merchant")}, Listen: "127.0.0.1:0", APIListen: "127.0.0.1:0",
			Callbacks: callbacks, WrapCallbacks: withSlow, Log: log,
		})
		if err != nil {
			return nil, err
		}
		return m, m.gateway.Open(ctx)
	}
	callbacks.Log = log
	callbacks.OnWithdrawal = func(context.Context, countersign.WithdrawalRequest) (merchant.Answer, error) {
		return merchant.Confirm(b.load.details), nil
	}
	if taken != nil {
		callbacks.OnDeposit = func(_ context.Context, d merchant.Deposit) error { taken(d.TrackingID); return nil }
	}
	h, err := merchant.New(callbacks)
	if err != nil {
		return nil, err
	}
	m.listener, err = daemon.Listen("merchant", "127.0.0.1:0", withSlow(h), 5*time.Second, log)
	return m, err
}

// url is where the merchant takes callbacks.
func (m *benchMerchant) url() string {
	if m.gateway != nil {
		return m.gateway.CallbackURL()
	}
	return m.listener.URL()
}

// withSlow serves h under /slow too, after a while.
func withSlow(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("/slow/", http.StripPrefix("/slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := time.NewTimer(slowAnswer)
		defer t.Stop()
		select {
		case <-t.C:
			h.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})))
	return mux
}

// run serves until ctx ends. The merchant in memory then hangs up: a service
// elsewhere keeps connections that it may never use again, and waiting for those
// takes seconds.
func (m *benchMerchant) run(ctx context.Context) error {
	if m.gateway != nil {
		return m.gateway.Run(ctx)
	}
	stop := context.AfterFunc(ctx, func() { _ = m.listener.Close() })
	defer stop()
	if err := m.listener.Run(ctx); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// close is for a merchant that is not run.
func (m *benchMerchant) close() error {
	if m.gateway != nil {
		return m.gateway.Close()
	}
	return m.listener.Close()
}

// order tells a gateway of a withdrawal that the service will ask about; a
// merchant in memory confirms without.
func (m *benchMerchant) order(ctx context.Context, callBackID, tenantUserID string) error {
	if m.gateway == nil {
		return nil
	}
	_, _, err := m.gateway.Book().AddOrder(ctx, book.NewOrder{CallBackID: callBackID, TenantUserID: tenantUserID,
		Details: m.load.details, Expires: db.Never}, db.MillisOf(time.Now()))
	return err
}

// deadURL is where nobody listens: connections are refused.
func deadURL() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return "http://" + l.Addr().String(), l.Close()
}

// benchMasterKey seals the secrets of benchmarks, which are nobody's. Being always
// the same it also sees to it that no bench works in a service's database, nor a
// service in a bench's: the other's key does not open it.
func benchMasterKey() [32]byte { return sha256.Sum256([]byte("countersign bench: not a secret")) }

func benchKeys() db.KeyWrapper { return db.NewMasterKey(benchMasterKey()) }

// quietLog is for what is measured without a service around it.
func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
