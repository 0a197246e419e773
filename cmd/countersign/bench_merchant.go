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
	"countersign/internal/gateway"
	"countersign/internal/store"
	"countersign/merchant"
)

// slowAnswer is how long the slow merchant of the suite faults takes.
const slowAnswer = 3 * time.Second

// benchMerchant is the merchants' end: one listener for all of them.
type benchMerchant struct {
	load     *benchLoad
	listener *listener
	gateway  *gateway.Gateway   // nil: package merchant with its inbox in memory
	end      *store.MerchantEnd // of the gateway
	db       *store.Store       // likewise
}

// taken is told of a deposit's trackingId when the merchant takes it; it may be
// nil.
func (b *bench) newMerchant(ctx context.Context, dir string, taken func(trackingID string)) (_ *benchMerchant, err error) {
	m := &benchMerchant{load: b.load}
	log := b.log.With("end", "merchant")
	callbacks := merchant.Config{Key: b.load.pair.Public(), APIKey: b.load.apiKey, CallbackAPIKeys: []countersign.APIKey{b.load.callbackKey}}
	var handler http.Handler
	switch {
	case b.Inbox == "sqlite":
		flags := storeFlags{Data: filepath.Join(dir, "merchant")}
		if _, m.db, err = flags.open(ctx, log); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, m.db.Close())
			}
		}()
		m.gateway, err = gateway.New(gateway.Config{Store: m.db, Callbacks: callbacks, Log: log, Version: version})
		if err != nil {
			return nil, err
		}
		m.end = store.NewMerchantEnd(m.db, false)
		handler = m.gateway.Callbacks()
	default:
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
		handler = h
	}
	m.listener, err = listen("merchant", "127.0.0.1:0", withSlow(handler), 5*time.Second, log)
	return m, err
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

// parts serve until their context ends, and then hang up: a service elsewhere
// keeps connections that it may never use again, and waiting for those takes
// seconds.
func (m *benchMerchant) parts() []part {
	parts := []part{{"merchant", func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = m.listener.server.Close() })
		defer stop()
		if err := m.listener.server.Serve(m.listener.ln); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}}}
	if m.gateway != nil {
		parts = append(parts, part{"gateway", m.gateway.Run})
	}
	return parts
}

func (m *benchMerchant) close() error {
	if m.db != nil {
		return m.db.Close()
	}
	return nil
}

// order tells a gateway of a withdrawal that the service will ask about; a
// merchant in memory confirms without.
func (m *benchMerchant) order(ctx context.Context, callBackID, tenantUserID string) error {
	if m.end == nil {
		return nil
	}
	_, _, err := m.end.AddOrder(ctx, store.NewOrder{CallBackID: callBackID, TenantUserID: tenantUserID,
		Details: m.load.details, Expires: store.Never}, store.MillisOf(time.Now()))
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

// quietLog is for what is measured without a service around it.
func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
