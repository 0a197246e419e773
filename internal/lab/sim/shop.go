package sim

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"countersign/client"
)

// shop is the merchant's application behind the gateway: it orders withdrawals and credits
// deposits, from the feed and, in a ledger apart, from what is forwarded.
type shop struct {
	w      *world
	http   *http.Client
	api    *client.Gateway
	server *http.Server
	stop   chan struct{}
	all    sync.WaitGroup

	mu        sync.Mutex
	ordered   map[string]client.Details      // that the gateway took
	cancelled map[string]bool                // whose cancelling the gateway took
	credits   []client.DepositEntry          // from the feed
	forwarded map[string]client.DepositEntry // by webhook-id
	after     int64
	events    []client.EventEntry
}

func newShop(w *world) *shop {
	return &shop{w: w, http: w.http("shop", shopToGateway), stop: make(chan struct{}), ordered: map[string]client.Details{}, cancelled: map[string]bool{}, forwarded: map[string]client.DepositEntry{}}
}

func (s *shop) connect(token client.Secret) (err error) {
	if s.api, err = client.NewGateway(client.Config{URL: "http://" + gatewayAddr, Token: token, HTTPClient: s.http}); err != nil {
		return err
	}
	l, err := s.w.net.listen("shop", shopAddr)
	if err != nil {
		return err
	}
	s.server = &http.Server{Handler: http.HandlerFunc(s.take)}
	s.all.Go(func() { _ = s.server.Serve(l) })
	s.all.Go(s.follow)
	return nil
}

func (s *shop) close() {
	close(s.stop)
	if s.server != nil {
		_ = s.server.Close()
	}
	s.all.Wait()
	s.http.CloseIdleConnections()
}

// take is told of an entry of a feed.
func (s *shop) take(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m client.ForwardedDeposit
	if err != nil || json.Unmarshal(body, &m) != nil {
		http.Error(rw, "unreadable", http.StatusBadRequest)
		return
	}
	if m.Type != client.MessageDepositTaken {
		return // an event
	}
	id := r.Header.Get("webhook-id")
	// An application is slow, does not take it, or takes it and says something else.
	luck := 1.0
	if !s.w.well.Load() {
		luck = s.w.float("takes " + id)
	}
	switch {
	case luck < 0.02:
		time.Sleep(2 * time.Minute)
	case luck < 0.05:
		http.Error(rw, "not now", http.StatusServiceUnavailable)
		return
	case luck < 0.1:
		defer http.Error(rw, "done, and it fails", http.StatusInternalServerError)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.forwarded[id]; known && before.TrackingID != m.Data.TrackingID {
		s.w.wrong("%s told of %s and of %s", id, before.TrackingID, m.Data.TrackingID)
	}
	s.forwarded[id] = m.Data
}

// follow credits from the feed.
func (s *shop) follow() {
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(time.Minute + time.Duration(s.w.float("shop")*float64(10*time.Minute))):
		}
		s.read()
	}
}

// read takes what is new in both feeds.
func (s *shop) read() {
	s.mu.Lock()
	after, event := s.after, int64(len(s.events))
	s.mu.Unlock()
	if page, err := s.api.Deposits(s.w.ctx, client.FeedOptions{After: after, Limit: 1000}); err == nil {
		s.mu.Lock()
		for _, d := range page.Deposits {
			if d.Seq != s.after+1 {
				s.w.wrong("the feed of deposits goes on with %d after %d", d.Seq, s.after)
			}
			s.after = d.Seq
			s.credits = append(s.credits, d)
		}
		s.mu.Unlock()
	}
	if page, err := s.api.Events(s.w.ctx, client.FeedOptions{After: event, Limit: 1000}); err == nil {
		s.mu.Lock()
		for _, e := range page.Events {
			if e.Seq != int64(len(s.events))+1 {
				s.w.wrong("the feed of events goes on with %d after %d", e.Seq, len(s.events))
			}
			s.events = append(s.events, e)
		}
		s.mu.Unlock()
	}
}

// order orders a withdrawal until the gateway takes it.
func (s *shop) order(x withdrawal) {
	if x.unordered {
		return
	}
	time.Sleep(x.orderAt)
	if ofRogue(x.id) {
		s.w.rogue.mu.Lock()
		defer s.w.rogue.mu.Unlock()
		s.w.rogue.ordered[x.id] = x.details
		return
	}
	new := client.NewOrder{CallBackID: x.id, TenantUserID: user, Address: x.details.Address, ChainName: x.details.ChainName, Symbol: x.details.Symbol, Amount: x.details.Amount}
	if x.expires > 0 {
		new.ExpiresAt = client.TimeOf(s.w.begun.Add(x.orderAt + x.expires))
	}
	taken := s.w.persist("order "+x.id, func() error {
		_, err := s.api.AddOrder(s.w.ctx, new)
		return err
	})
	if !taken {
		return // the service asked first, and was told that it is unknown
	}
	s.mu.Lock()
	s.ordered[x.id] = x.details
	s.mu.Unlock()
	if x.orderCancelAfter > 0 {
		time.Sleep(x.orderCancelAfter)
		if s.w.persist("cancelling order "+x.id, func() error {
			_, err := s.api.CancelOrder(s.w.ctx, x.id, "the user says so")
			return err
		}) {
			s.mu.Lock()
			s.cancelled[x.id] = true
			s.mu.Unlock()
		}
	}
}
