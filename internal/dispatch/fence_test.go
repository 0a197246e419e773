package dispatch

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign/client"
)

// A node that stands still between sealing and posting, and goes on when the callback may be another node's, sends
// nothing: the first attempt reaches nobody and costs nothing, the second is made in time.
func TestNothingIsSentTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		r := newRig(t, func(c *Config, _ *rig) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
		})
		sent := 0
		r.d.post = func(ctx context.Context, q request) Response {
			if slept.Load() == 0 {
				slept.Add(int64(r.d.cfg.ExchangeTimeout)) // no timer has noticed
			}
			if q.tooLate() {
				return Response{Failure: client.ReasonStopped}
			}
			sent++
			return r.honest(ctx, q)
		}
		id := r.addDeposit("m1", 1)
		r.start(t)
		time.Sleep(time.Minute)
		r.stop()
		if c := r.callback(id); c.State != client.CallbackAccepted || c.Failed != 0 || c.Attempt != 2 || sent != 1 {
			t.Errorf("sent %d times: %+v", sent, c)
		}
	})
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
		u := must(url.Parse(s.URL))
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
