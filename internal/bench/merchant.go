package bench

import (
	"context"
	"net/http"
	"path/filepath"
	"time"

	"countersign"
	"countersign/internal/daemon"
	"countersign/merchant"
)

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
			Callbacks: callbacks, WrapCallbacks: b.wrap, Log: log,
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
	var h http.Handler
	if h, err = merchant.New(callbacks); err != nil {
		return nil, err
	}
	if b.wrap != nil {
		h = b.wrap(h)
	}
	m.listener, err = daemon.Listen(daemon.ListenConfig{Name: "merchant", Addr: "127.0.0.1:0", Handler: h, Most: 10_000, Drain: 5 * time.Second, Log: log})
	return m, err
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
