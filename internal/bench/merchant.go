package bench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"countersign"
	"countersign/internal/book"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/merchant"
)

// slowAnswer is how long a slow merchant of the suite faults takes: nearly as long as an
// exchange may.
const slowAnswer = 13 * time.Second

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
			Callbacks: callbacks, WrapCallbacks: b.withSlow, Log: log,
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
	m.listener, err = daemon.Listen(daemon.ListenConfig{Name: "merchant", Addr: "127.0.0.1:0", Handler: b.withSlow(h), Most: 10_000, Drain: 5 * time.Second, Log: log})
	return m, err
}

// Paths of the merchants' end where merchants are slow, and where they hang.
const pathSlow, pathHang = "/slow", "/hang"

// withSlow serves h, under pathSlow the same with a body that comes slowAnswer after
// the header, and under pathHang nothing at all.
func (b *Bench) withSlow(h http.Handler) http.Handler {
	slow := slowAnswer
	if b.Quick {
		slow /= 40
	}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle(pathSlow+"/", http.StripPrefix(pathSlow, late(slow, h)))
	mux.Handle(pathHang+"/", late(time.Hour, h))
	return mux
}

// late serves h with a body that comes so much after the header. With an hour not even
// the header comes.
func late(after time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, countersign.MaxMessage))
		if err != nil {
			return
		}
		if after < time.Hour {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		t := time.NewTimer(after)
		defer t.Stop()
		select {
		case <-t.C:
			r.Body = io.NopCloser(bytes.NewReader(body))
			h.ServeHTTP(bodyWriter{w, http.Header{}}, r)
		case <-r.Context().Done():
		}
	})
}

// bodyWriter writes the body of a response whose header was sent.
type bodyWriter struct {
	http.ResponseWriter
	header http.Header
}

func (w bodyWriter) Header() http.Header { return w.header }
func (w bodyWriter) WriteHeader(int)     {}

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
