package bench

import (
	"context"
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

// merchantEnd answers for all merchants on one listener: a gateway, or package
// merchant with its inbox in memory.
type merchantEnd struct {
	load     *load
	gateway  *daemon.Gateway  // nil: in memory
	listener *daemon.Listener // of the merchant in memory; nil with a gateway
}

// newMerchantEnd opens the merchants' end. taken is told the trackingId of each
// deposit that the merchant in memory takes; it may be nil.
func (b *Bench) newMerchantEnd(ctx context.Context, dir string, taken func(trackingID string)) (_ *merchantEnd, err error) {
	m := &merchantEnd{load: b.load}
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
	callbacks.Log, callbacks.Inbox = log, merchant.NewMemoryInbox()
	callbacks.OnWithdrawal = func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
		return merchant.Confirm(w.TenantUserID, b.load.details), nil
	}
	if taken != nil {
		callbacks.OnDeposit = func(_ context.Context, d merchant.Deposit) error { taken(d.TrackingID); return nil }
		callbacks.OnPossibleDuplicate = merchant.KeepForReview
	}
	h, err := merchant.New(callbacks)
	if err != nil {
		return nil, err
	}
	m.listener, err = daemon.Listen("merchant", "127.0.0.1:0", withSlow(h), 5*time.Second, log)
	return m, err
}

// withSlow serves h, and under /slow the same after slowAnswer.
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

// url is where callbacks are taken.
func (m *merchantEnd) url() string {
	if m.gateway != nil {
		return m.gateway.CallbackURL()
	}
	return m.listener.URL()
}

// run serves until ctx ends. The merchant in memory then closes all connections
// at once: a service elsewhere keeps some open that it has not used yet, and a
// shutdown would wait seconds for those.
func (m *merchantEnd) run(ctx context.Context) error {
	if m.gateway != nil {
		return m.gateway.Run(ctx)
	}
	defer context.AfterFunc(ctx, func() { _ = m.listener.Close() })()
	return m.listener.Run(ctx)
}

// close closes a merchant's end that will not be run.
func (m *merchantEnd) close() error {
	if m.gateway != nil {
		return m.gateway.Close()
	}
	return m.listener.Close()
}

// order tells a gateway of a withdrawal that the service will ask about. The
// merchant in memory confirms what it was never told of.
func (m *merchantEnd) order(ctx context.Context, callBackID, tenantUserID string) error {
	if m.gateway == nil {
		return nil
	}
	_, _, err := m.gateway.Book().AddOrder(ctx, book.NewOrder{CallBackID: callBackID, TenantUserID: tenantUserID,
		Details: m.load.details, Expires: db.Never}, db.MillisOf(time.Now()))
	return err
}

// deadURL is an address without a listener: connections are refused.
func deadURL() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return "http://" + l.Addr().String(), l.Close()
}
