package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"countersign/internal/dispatch"
)

// connections is a listener that bounds its connections, so that file descriptors are left for files, the database and
// the sender. When it is full, a new connection replaces the one that was silent longest, of those that have sent no
// complete request, wait for the next one, or wait for their peer to read. So a peer that opens many and sends little
// keeps nobody out. A complete request keeps its connection until its answer begins to leave. While all connections
// have one, new ones wait.
type connections struct {
	net.Listener
	most int
	log  *slog.Logger

	mu     sync.Mutex
	open   map[*connection]bool
	closed bool
	logged time.Time // when a full listener was logged last
}

const (
	// connectionsMost is the most connections of a listener. Each takes some 20 KB.
	connectionsMost = 10_000
	// readWithin is how long a peer that does not read keeps its connection while others wait for one.
	readWithin = time.Second
	// loggedEvery is the least time between two log lines that a listener is full.
	loggedEvery = time.Minute
	// lookEvery is how often a waiting connection checks for room.
	lookEvery = 10 * time.Millisecond
)

// connectionsOf returns how many connections a listener may have that gets a part of this process's descriptors, such
// as a quarter for 4.
func connectionsOf(part int) int { return min(connectionsMost, dispatch.Descriptors()/part) }

func newConnections(ln net.Listener, most int, log *slog.Logger) *connections {
	return &connections{Listener: ln, most: max(1, most), log: log, open: map[*connection]bool{}}
}

// connection is one connection of a connections, whose mutex guards the fields below Conn.
type connection struct {
	net.Conn
	l        *connections
	last     time.Time // when something was read or written
	working  bool      // a request has come whole and its answer has not left
	answered bool      // the answer has begun to leave
	writing  time.Time // when a write began that has not ended; zero: none
}

// Accept waits for a connection and for room.
func (l *connections) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, l: l}
	for {
		taken, err := l.take(c)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if taken {
			return c, nil
		}
		time.Sleep(lookEvery)
	}
}

// take adds c if there is room or a connection that may be closed for it.
func (l *connections) take(c *connection) (taken bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for len(l.open) >= l.most {
		if now.Sub(l.logged) > loggedEvery {
			l.logged = now
			l.log.Warn("all connections are in use: silent ones are closed for new ones, or new ones wait", "address",
				l.Addr().String(), "connections", l.most)
		}
		var silent *connection
		for o := range l.open {
			idle := !o.working || !o.writing.IsZero() && now.Sub(o.writing) > readWithin
			if idle && (silent == nil || o.last.Before(silent.last)) {
				silent = o
			}
		}
		if silent == nil || l.closed {
			break
		}
		delete(l.open, silent)
		_ = silent.Conn.Close() // its server notices
	}
	switch {
	case l.closed:
		return false, net.ErrClosed
	case len(l.open) >= l.most:
		return false, nil
	}
	c.last = now
	l.open[c] = true
	return true, nil
}

// Close closes the listener. Its connections stay open.
func (l *connections) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	return l.Listener.Close()
}

// note applies change to c after an event, and notes the time.
func (c *connection) note(change func()) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.last = time.Now()
	change()
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.note(func() {})
	return n, err
}

// Write starts an answer. It keeps the connection until what it writes has left, or until the peer has not read for a
// while.
func (c *connection) Write(p []byte) (int, error) {
	c.note(func() { c.answered, c.writing = true, time.Now() })
	n, err := c.Conn.Write(p)
	c.note(func() { c.working, c.writing = false, time.Time{} })
	return n, err
}

// SetWriteDeadline is called for an answer that waits or goes on for long. Its connection may meanwhile be closed for
// others.
func (c *connection) SetWriteDeadline(t time.Time) error {
	c.note(func() { c.working = false })
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite lets a peer that is still sending read the answer.
func (c *connection) CloseWrite() error {
	if t, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return t.CloseWrite()
	}
	return nil
}

func (c *connection) Close() error {
	c.note(func() { delete(c.l.open, c) })
	return c.Conn.Close()
}

type connectionKey struct{}

// withConnection is an http.Server.ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// wholeRequests tells a server's connections when their requests have arrived in full.
func wholeRequests(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			whole := r.Body == nil || r.Body == http.NoBody
			c.note(func() { c.working, c.answered = whole, false })
			if !whole {
				// A copy: by the type of its own body the server knows that a long body was not read, and answers
				// without waiting for it.
				seen := *r
				seen.Body = &wholeBody{r.Body, c}
				r = &seen
			}
		}
		h.ServeHTTP(w, r) // the server may write the answer after it
	})
}

// wholeBody detects the end of a body.
type wholeBody struct {
	io.ReadCloser
	c *connection
}

func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.c.note(func() { b.c.working = !b.c.answered }) // what was answered is not written to once more
	}
	return n, err
}
