package dispatch

import (
	"bytes"
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/client"
)

// A node that stands still between sealing and posting, and goes on when the
// callback may be another node's, sends nothing: the first attempt reaches nobody
// and costs nothing, the second is made in time.
func TestNothingIsSentTooLate(t *testing.T) {
	m := newTestMerchant(testPair())
	var whole atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		whole.Add(1)
		r.Body = io.NopCloser(bytes.NewReader(body))
		m.ServeHTTP(w, r)
	}))
	defer s.Close()
	var slept atomic.Int64
	c := Config{Outbox: newStore(t, testStoreMerchant("m1", testPair(), s.URL)), Node: "node-1", Observer: noObserver{}, TargetRules: TargetRules{AllowHTTP: true, AllowPrivate: true},
		Now: func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	post, tries := d.post, 0
	d.post = func(ctx context.Context, q request) Response {
		if tries++; tries == 1 {
			slept.Add(int64(d.cfg.ExchangeTimeout)) // no timer has noticed
		}
		return post(ctx, q)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	r := &httpRig{store: c.Outbox.(*store)}
	id := r.addDeposit("m1", 1)
	first := r.firstAttempt(t, id)
	for range 6000 {
		if r.callback(id).State == client.CallbackAccepted {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if first.Reason != client.ReasonStopped || first.HTTPStatus != 0 {
		t.Errorf("first attempt: %+v", first)
	}
	if c := r.callback(id); c.State != client.CallbackAccepted || c.Failed != 0 || c.Attempt != 2 {
		t.Errorf("%+v", c)
	}
	if whole.Load() != 1 {
		t.Errorf("the merchant read %d whole requests, want 1", whole.Load())
	}
}

// countedConn counts what is done with it.
type countedConn struct {
	net.Conn
	writes, closes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func (c countedConn) Close() error {
	c.closes.Add(1)
	return c.Conn.Close()
}

// Nothing of a request goes out when it is too late, on a new connection or an old
// one; only the connection that it had is lost. In time it goes out at once.
func TestFencedConnection(t *testing.T) {
	var together atomic.Pointer[sync.WaitGroup] // who answers together
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if w := together.Load(); w != nil {
			w.Done()
			w.Wait()
		}
	}))
	defer plain.Close()
	secure := httptest.NewTLSServer(plain.Config.Handler)
	defer secure.Close()
	for _, s := range []*httptest.Server{plain, secure} {
		roots := x509.NewCertPool()
		if c := s.Certificate(); c != nil {
			roots.AddCert(c)
		}
		var writes, closes atomic.Int64
		rt := roundTripper(TargetRules{AllowPrivate: true, AllowHTTP: true}, roots)
		defer rt.CloseIdleConnections()
		rt.DialContext = fenced(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return countedConn{c, &writes, &closes}, err
		})
		tr := &transport{public: rt, private: rt}
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		post := func(late bool) (r Response, wrote int64) {
			before := writes.Load()
			r = tr.post(t.Context(), request{url: u, contentType: "application/x-www-form-urlencoded", body: []byte("sealed"),
				tooLate: func() bool { return late }})
			return r, writes.Load() - before
		}

		if r, wrote := post(true); r.Failure != client.ReasonStopped || s == plain && wrote > 0 {
			t.Errorf("%s: too late on a new connection: %+v, %d writes", u.Scheme, r, wrote)
		}
		const connections = 3
		var all, answering sync.WaitGroup
		answering.Add(connections)
		together.Store(&answering)
		for range connections {
			all.Go(func() {
				if r, _ := post(false); r.Status != http.StatusOK {
					t.Errorf("%s: %+v", u.Scheme, r)
				}
			})
		}
		all.Wait()
		together.Store(nil)
		if r, wrote := post(false); r.Status != http.StatusOK || wrote != 1 {
			t.Errorf("%s: in time: %+v, %d writes, want 1", u.Scheme, r, wrote)
		}
		closed := closes.Load()
		if r, wrote := post(true); r.Failure != client.ReasonStopped || wrote > 0 {
			t.Errorf("%s: too late on an old connection: %+v, %d writes", u.Scheme, r, wrote)
		}
		if n := closes.Load() - closed; n != 1 {
			t.Errorf("%s: %d connections were given up, want the one", u.Scheme, n)
		}
		if r, _ := post(false); r.Status != http.StatusOK {
			t.Errorf("%s: afterwards: %+v", u.Scheme, r)
		}
	}
}
