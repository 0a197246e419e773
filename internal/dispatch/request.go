package dispatch

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"countersign"
)

// Limits of one exchange (PROTOCOL.md, HTTP).
const (
	maxResponseBody   = countersign.MaxMessage // bytes
	maxResponseHeader = 16 << 10               // bytes
	maxIgnoredBody    = 4 << 10                // bytes read to keep a connection after a status other than 200
	connectTimeout    = 5 * time.Second
	tlsTimeout        = 5 * time.Second
	idleTimeout       = 90 * time.Second
	idlePerHost       = 256
)

// request is one POST.
type request struct {
	url         *url.URL
	private     bool // the merchant may be on a private network
	contentType string
	apiKey      countersign.APIKey // X-API-KEY; empty: none
	signature   http.Header        // of the signed link; nil: none
	body        []byte
	tooLate     func() bool   // reports whether nothing more of it may be sent
	phase       *atomic.Int32 // a phase; post sets it
}

// errTooLate ends a request before all of it is sent.
var errTooLate = errors.New("too late to send")

// fencedConn is a connection to a merchant that sends nothing more when it is too late for its request. The context's
// deadline is not enough: after a process was stopped or a machine slept, it may write before any timer fires, although
// another node has claimed the callback meanwhile. (It can still be stopped between the look at the clock and the
// write: see the package comment.) The body's reader could check this too, but then http.Transport would send the
// header in a packet of its own.
type fencedConn struct {
	net.Conn
	request atomic.Pointer[request]
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func fenced(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &fencedConn{Conn: c}, nil
	}
}

func (c *fencedConn) Write(p []byte) (int, error) {
	if q := c.request.Load(); q != nil && q.tooLate() {
		return 0, errTooLate
	}
	return c.Conn.Write(p)
}

// reader returns a new reader of the body, of a type that http.Transport knows to be in memory.
func (q *request) reader() io.ReadCloser { return io.NopCloser(bytes.NewReader(q.body)) }

// fence makes conn refuse to send when it is too late for q.
func (q *request) fence(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	conn.(*fencedConn).request.Store(q)
}
