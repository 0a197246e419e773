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

// connections is a listener that bounds its connections, so that files, the database and
// the sender have descriptors left. Where it is full, a new connection takes the place
// of the one that was silent for longest among those whose request has not come whole
// or that wait for the next one, or for their peer to read. So who opens many and sends
// little keeps nobody out. A request that has come whole keeps its connection until its
// answer has begun to leave; while all do, new connections wait.
type connections struct {
	net.Listener
	most int
	log  *slog.Logger

	mu     sync.Mutex
	room   *sync.Cond // of mu: a connection has closed, or may be closed now
	open   map[*connection]bool
	closed bool
	logged time.Time // when a full listener was logged last
}

// connectionsMost is the most connections of a listener, if nothing else is said. Each
// takes some 20 KB.
const connectionsMost = 10_000

// connectionsOf returns said, or the part of this process's descriptors that a listener
// may have.
func connectionsOf(said, part int) int {
	if said > 0 {
		return said
	}
	return min(connectionsMost, dispatch.Descriptors()/part)
}

// readWithin is how long a peer that does not read keeps its connection when others
// wait for one.
const readWithin = time.Second

// loggedEvery is the least time between two lines that a listener is full.
const loggedEvery = time.Minute

func newConnections(ln net.Listener, most int, log *slog.Logger) *connections {
	l := &connections{Listener: ln, most: max(1, most), log: log, open: map[*connection]bool{}}
	l.room = sync.NewCond(&l.mu)
	return l
}

// connection is one connection of connections. What is below Conn belongs to its mutex.
type connection struct {
	net.Conn
	l       *connections
	last    time.Time // when something was read or written
	working bool      // a request has come whole and its answer has not left
	writes  int       // that have ended
}

// Accept waits for a connection, and for room.
func (l *connections) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.open) >= l.most && !l.closed {
		silent := l.silent()
		if now := time.Now(); now.Sub(l.logged) > loggedEvery {
			l.logged = now
			l.log.Warn("all connections are in use: silent ones are closed for new ones, or new ones wait", "address", l.Addr().String(), "connections", l.most)
		}
		if silent == nil {
			l.room.Wait()
			continue
		}
		delete(l.open, silent)
		_ = silent.Conn.Close() // its server notices
	}
	if l.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	c := &connection{Conn: conn, l: l, last: time.Now()}
	l.open[c] = true
	return c, nil
}

// silent returns the connection that was silent for longest and may be closed; nil if
// there is none. l is locked.
func (l *connections) silent() (c *connection) {
	for o := range l.open {
		if !o.working && (c == nil || o.last.Before(c.last)) {
			c = o
		}
	}
	return c
}

// Close closes the listener; its connections stay open.
func (l *connections) Close() error {
	l.mu.Lock()
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// set notes that something happened on c, and whether it works on a request.
func (c *connection) set(working bool) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.last, c.working = time.Now(), working
	if !working {
		c.l.room.Broadcast()
	}
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.l.mu.Lock()
	c.last = time.Now()
	c.l.mu.Unlock()
	return n, err
}

// Write begins an answer, and keeps the connection until what it writes has left or its
// peer has not read for a while.
func (c *connection) Write(p []byte) (int, error) {
	c.l.mu.Lock()
	mine := c.writes
	c.l.mu.Unlock()
	slow := time.AfterFunc(readWithin, func() {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		if c.writes == mine {
			c.working = false
			c.l.room.Broadcast()
		}
	})
	n, err := c.Conn.Write(p)
	slow.Stop()
	c.l.mu.Lock()
	c.writes++
	c.l.mu.Unlock()
	c.set(false)
	return n, err
}

// SetWriteDeadline is called for an answer that waits or goes on for long. Its
// connection may be closed for others meanwhile.
func (c *connection) SetWriteDeadline(t time.Time) error {
	c.set(false)
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite lets a peer that still sends read the answer.
func (c *connection) CloseWrite() error {
	if t, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return t.CloseWrite()
	}
	return nil
}

func (c *connection) Close() error {
	c.l.mu.Lock()
	delete(c.l.open, c)
	c.l.room.Broadcast()
	c.l.mu.Unlock()
	return c.Conn.Close()
}

type connectionKey struct{}

// withConnection is http.Server.ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// wholeRequests tells the connections of a server when their requests have come whole.
func wholeRequests(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connectionKey{}).(*connection)
		if !ok {
			h.ServeHTTP(w, r)
			return
		}
		if r.Body == nil || r.Body == http.NoBody {
			c.set(true)
		} else {
			// A copy: by the type of its own request's body the server knows that a long body
			// was left, and answers without waiting for it.
			seen := *r
			seen.Body = &wholeBody{r.Body, c}
			r = &seen
		}
		h.ServeHTTP(w, r) // the server writes the answer after it; see answered
	})
}

// answered is http.Server.ConnState. What was answered before its body had come whole
// is not written to once more.
func answered(c net.Conn, state http.ConnState) {
	if state != http.StateIdle {
		return
	}
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if c, ok := c.(*connection); ok {
		c.set(false)
	}
}

// wholeBody notices the end of a body.
type wholeBody struct {
	io.ReadCloser
	c *connection
}

func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.c.set(true)
	}
	return n, err
}
