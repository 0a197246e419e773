package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"countersign/client"
)

// shop is the merchant's application behind the gateway: it orders withdrawals and credits
// deposits, from the feed and, in a ledger apart, from what is forwarded. Its ledgers survive
// everything.
type shop struct {
	w      *world
	http   *http.Client
	api    *client.Gateway
	server *http.Server
	stop   chan struct{}
	all    sync.WaitGroup

	mu        sync.Mutex
	ordered   map[string]client.Details      // that the gateway took
	orders    map[string]client.NewOrder     // as it ordered them
	became    map[string]client.OrderState   // of orders, as the events say or as it knows itself
	at        map[string]client.Time         // when it became so
	cancelled map[string]bool                // whose cancelling the gateway took
	refused   map[string]bool                // orders that the gateway did not take
	credits   []client.DepositEntry          // from the feed
	held      map[int64]client.DepositEntry  // of the feed, until an event says whether they count
	forwarded map[string]client.DepositEntry // by webhook-id
	told      heldForwards
	approved  map[string]map[string]bool // orders that a person began to approve, by person
	deposits  cursor
	events    cursor
	reading   chan struct{} // holds a token while it reads the feeds
	stopped   int           // how often hold stopped it
}

// heldForwards are held deposits that were forwarded, and events of held deposits: messages come
// in any order.
type heldForwards struct {
	deposits map[int64]client.DepositEntry
	credited map[int64]bool
}

// cursor is a place in a feed. After a restore the feed is read from its beginning again, and what
// was read before is left out.
type cursor struct {
	after int64
	seen  map[int64]bool
}

// take reports whether an entry is new. gap: it does not follow the one before.
func (c *cursor) take(seq int64) (fresh, gap bool) {
	if seq <= c.after {
		return false, false // another reader was faster
	}
	gap = seq != c.after+1 && seq%newEpoch != 1
	c.after = seq
	if c.seen[seq] {
		return false, gap
	}
	c.seen[seq] = true
	return true, gap
}

func newShop(w *world) *shop {
	return &shop{w: w, http: w.http("shop", shopToGateway), stop: make(chan struct{}), ordered: map[string]client.Details{}, orders: map[string]client.NewOrder{},
		became: map[string]client.OrderState{}, at: map[string]client.Time{}, cancelled: map[string]bool{}, refused: map[string]bool{}, held: map[int64]client.DepositEntry{},
		forwarded: map[string]client.DepositEntry{}, told: heldForwards{map[int64]client.DepositEntry{}, map[int64]bool{}},
		approved: map[string]map[string]bool{}, deposits: cursor{seen: map[int64]bool{}}, events: cursor{seen: map[int64]bool{}}, reading: make(chan struct{}, 1)}
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

// take receives an entry of a feed.
func (s *shop) take(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m client.ForwardedDeposit
	var e client.ForwardedEvent
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	deposit := e.Type == client.EventKind(client.MessageDepositTaken) || e.Type == client.EventKind(client.MessageDepositHeld)
	if err == nil && deposit {
		err = json.Unmarshal(body, &m)
	}
	if err != nil {
		http.Error(rw, "unreadable", http.StatusBadRequest)
		return
	}
	if !deposit && e.Type != client.EventDepositCredited {
		return // it is of no interest
	}
	id := r.Header.Get("webhook-id")
	s.mu.Lock()
	life := s.stopped
	s.mu.Unlock()
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
	if s.stopped != life {
		return
	}
	if !deposit {
		m.Data.Seq = e.Data.Deposit
	}
	if _, known := s.forwarded[bookedAs(m.Data.Seq)]; known {
		return
	}
	if before, known := s.forwarded[id]; known && before.TrackingID != m.Data.TrackingID {
		s.w.wrong("%s told of %s and of %s", id, before.TrackingID, m.Data.TrackingID)
	}
	switch {
	case m.Type == client.MessageDepositTaken:
		s.forwarded[id] = m.Data
		return
	case deposit:
		s.told.deposits[m.Data.Seq] = m.Data
	default:
		s.told.credited[m.Data.Seq] = true
	}
	if d, known := s.told.deposits[m.Data.Seq]; known && s.told.credited[m.Data.Seq] {
		s.forwarded[fmt.Sprint("held ", d.Seq)] = d
	}
}

// bookedAs returns the id under which a deposit that own took from the feed is among the forwarded ones.
func bookedAs(seq int64) string { return fmt.Sprint("booked ", seq) }

// follow credits from the feed.
func (s *shop) follow() {
	for {
		select {
		case <-s.stop:
			return
		case <-s.w.look("shop", 10):
		}
		s.read()
	}
}

// read takes what is new in both feeds.
func (s *shop) read() {
	s.w.turn(s.reading, "reading")
	defer func() { <-s.reading }()
	s.mu.Lock()
	after, event := s.deposits.after, s.events.after
	s.mu.Unlock()
	page, err := s.api.Deposits(s.w.ctx, client.FeedOptions{After: after, Limit: 1000})
	s.mu.Lock()
	for _, d := range page.Items {
		fresh, gap := s.deposits.take(d.Seq)
		switch {
		case gap:
			s.w.wrong("the feed of deposits goes on with %d, not after %d", d.Seq, after)
		case fresh && d.State == client.DepositTaken:
			s.credits = append(s.credits, d)
		case fresh:
			s.held[d.Seq] = d
		}
	}
	if errors.Is(err, client.ErrConflict) { // that number is lost with the database
		s.deposits.after = 0
	}
	s.mu.Unlock()
	events, err := s.api.Events(s.w.ctx, client.FeedOptions{After: event, Limit: 1000})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events.Items {
		fresh, gap := s.events.take(e.Seq)
		if gap {
			s.w.wrong("the feed of events goes on with %d, not after %d", e.Seq, event)
		}
		if fresh && !s.happened(e) {
			s.events.after, s.events.seen[e.Seq] = e.Seq-1, false
			break
		}
	}
	if errors.Is(err, client.ErrConflict) {
		s.events.after = 0
	}
}

// happened takes an event, under the lock. It returns false for the end of a held deposit that was not read yet.
func (s *shop) happened(e client.EventEntry) bool {
	switch e.Kind {
	case client.EventDepositCredited, client.EventDepositRejected:
		d, known := s.held[e.Deposit]
		if !known {
			return s.deposits.seen[e.Deposit]
		}
		delete(s.held, e.Deposit)
		if e.Kind == client.EventDepositCredited {
			s.credits = append(s.credits, d)
		}
	case client.EventOrderConfirmed, client.EventOrderDeclined, client.EventOrderCancelled, client.EventOrderExpired, client.EventOrderExecuted, client.EventOrderEnded:
		s.became[e.CallBackID], s.at[e.CallBackID] = client.OrderState(e.State), e.At
	}
	return true
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
		new.ExpiresAt = client.TimeOf(time.Now().Add(x.expires))
	}
	s.mu.Lock()
	s.orders[x.id] = new
	s.mu.Unlock()
	taken := s.w.persist("order "+x.id, func() error {
		_, err := s.api.AddOrder(s.w.ctx, new)
		return err
	})
	s.mu.Lock()
	if !taken { // the service asked first, and was told that it is unknown
		s.refused[x.id] = true
		s.mu.Unlock()
		return
	}
	s.ordered[x.id] = x.details
	s.mu.Unlock()
	if x.orderCancelAfter > 0 {
		time.Sleep(x.orderCancelAfter)
		if s.w.persist("cancelling order "+x.id, func() error {
			_, err := s.api.CancelOrder(s.w.ctx, x.id, "the user says so")
			return err
		}) {
			s.mu.Lock()
			s.cancelled[x.id], s.became[x.id] = true, client.OrderCancelled
			s.mu.Unlock()
		}
	}
}
