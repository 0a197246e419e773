// Package pglink decides which of several PostgreSQL servers to trust. It leaves a
// server that died or was replaced, never goes back to it, and detects commits that
// the standby may not have.
package pglink

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Stalled is how long a server may take to answer before the other hosts of the URL
// are asked whether one of them takes writes now.
const Stalled = 1500 * time.Millisecond

const (
	connectSeveral = 2 * time.Second  // to one of several hosts: the next may take writes
	connectOne     = 10 * time.Second // to the only one
	stallCheck     = 250 * time.Millisecond
	stallCheckMost = 2 * time.Second // while no other server has taken over
	// darkFor is how long a host that did not respond is tried last.
	darkFor = 30 * time.Second
	// userTimeout is how long bytes may stay without TCP's acknowledgement.
	userTimeout = 10 * time.Second
)

// Links knows all connections to the servers of one database. If a server
// disappears without closing its connections, their statements wait for ever. Only
// the other hosts can tell whether it lost its role or is slow. If another host
// takes writes, Links closes the connections to the silent server, and their
// statements fail.
type Links struct {
	config *pgx.ConnConfig
	dialer net.Dialer
	log    *slog.Logger

	mu    sync.Mutex
	open  map[*link]bool
	addrs map[string][]string  // of a host name, as last resolved
	dark  map[string]time.Time // of an address, until when
	last  timeline             // the latest that was seen
}

// timeline is PostgreSQL's count of promotions: the server that was promoted
// has a higher one than the primary that it took over from.
type timeline struct {
	system string // of the database cluster; empty if the server has none
	number uint64
}

// newTimeline reads the timeline from the name of a log file, which begins with it in eight
// hexadecimal digits.
func newTimeline(system, file string) timeline {
	t := timeline{system: system}
	if len(file) >= 8 {
		t.number, _ = strconv.ParseUint(file[:8], 16, 64)
	}
	return t
}

// after reports whether t's server took over from that of o.
func (t timeline) after(o timeline) bool { return t.system == o.system && t.number > o.number }

// link is one connection.
type link struct {
	net.Conn
	l     *Links
	addr  string
	asked atomic.Int64 // when it was last written to, 0 if something was read since; nanoseconds after base
	heard atomic.Bool
}

// base is the zero of the monotonic times that are kept as numbers.
var base = time.Now()

// New makes the Links of a pool with the configuration c, and completes c. Each
// connection of the pool must go through BeforeConnect.
func New(c *pgx.ConnConfig, log *slog.Logger) *Links {
	l := &Links{
		config: c, log: log, open: map[*link]bool{}, addrs: map[string][]string{}, dark: map[string]time.Time{},
		dialer: net.Dialer{
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
			Control:         limitSilence,
		},
	}
	// Of several hosts only one that takes writes is used, whatever the URL asks for.
	c.ValidateConnect = l.validate
	return l
}

// ConnectTimeout is how long one attempt to connect to a server of c may take, if
// the URL has no connect_timeout.
func ConnectTimeout(c *pgx.ConnConfig) time.Duration {
	if several(c) {
		return connectSeveral
	}
	return connectOne
}

// Several reports whether the URL names more than one server. Only then Watch has
// work.
func (l *Links) Several() bool { return several(l.config) }

func several(c *pgx.ConnConfig) bool {
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != c.Host || f.Port != c.Port
	})
}

// BeforeConnect is the pool's function of that name: it makes the connection dial
// through l.
func (l *Links) BeforeConnect(_ context.Context, c *pgx.ConnConfig) error {
	l.prepare(c, anywhere)
	return nil
}

func anywhere(string) bool { return true }

// Connect makes a connection outside the pool.
func (l *Links) Connect(ctx context.Context) (*pgx.Conn, error) {
	return l.connectTo(ctx, anywhere)
}

// connectTo connects to an address for which may is true.
func (l *Links) connectTo(ctx context.Context, may func(addr string) bool) (*pgx.Conn, error) {
	c := l.config.Copy()
	l.prepare(c, may)
	return pgx.ConnectConfig(ctx, c)
}

// prepare makes c, the copy for one connection, dial through l: it tries dark hosts
// last, and never an address for which may is false.
//
// Once connected, c dials no more. Otherwise pgx would send a cancel request for each
// statement whose context ends. That would end a COMMIT's wait for the standby: its
// transaction would become visible although no standby has it, other calls would
// answer from it, and a failover would undo it.
func (l *Links) prepare(c *pgx.ConnConfig, may func(addr string) bool) {
	hosts := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	l.mu.Lock()
	late := map[*pgconn.FallbackConfig]int{}
	for _, h := range hosts {
		if l.isDark(h) {
			late[h] = 1
		}
	}
	l.mu.Unlock()
	slices.SortStableFunc(hosts, func(a, b *pgconn.FallbackConfig) int { return late[a] - late[b] })
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = hosts[0].Host, hosts[0].Port, hosts[0].TLSConfig, hosts[1:]

	lookup := c.LookupFunc
	c.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		found, err := lookup(ctx, host)
		if err == nil {
			l.mu.Lock()
			l.addrs[host] = found
			l.mu.Unlock()
		}
		return found, err
	}
	var connected atomic.Bool
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if connected.Load() || !may(addr) {
			return nil, net.ErrClosed
		}
		return l.dial(ctx, network, addr)
	}
	c.AfterConnect = func(context.Context, *pgconn.PgConn) error {
		connected.Store(true)
		return nil
	}
	c.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			conn.CustomData()[warned] = n.Message
		}
	}
}

const timelineSQL = `SELECT system_identifier, pg_walfile_name(pg_current_wal_insert_lsn()) FROM pg_control_system()`

// validate checks every new connection, host by host. It refuses a server that
// takes no writes, and a primary that was replaced and came back: its writes would
// be lost.
func (l *Links) validate(ctx context.Context, conn *pgconn.PgConn) error {
	if err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, conn); err != nil {
		return err
	}
	results, err := conn.Exec(ctx, timelineSQL).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return ctx.Err() // another engine, or the user may not ask
	}
	row := results[0].Rows[0]
	is := newTimeline(string(row[0]), string(row[1]))
	conn.CustomData()[timelineKey] = is
	return l.accept(is)
}

// accept refuses the server of a timeline before the latest of its cluster.
func (l *Links) accept(is timeline) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.after(is) {
		return errReplaced
	}
	l.last = is
	return nil
}

var errReplaced = errors.New("the server was replaced: its timeline is an earlier one")

// What a connection keeps: its last warning, and its server's timeline.
const (
	warned      = "warned"
	timelineKey = "timeline"
)

// Warning is the last warning that the server gave on a connection since
// ForgetWarning, empty for none. A COMMIT with a warning did not wait for the
// standby.
func Warning(conn *pgconn.PgConn) string {
	w, _ := conn.CustomData()[warned].(string)
	return w
}

// ForgetWarning makes Warning empty.
func ForgetWarning(conn *pgconn.PgConn) { delete(conn.CustomData(), warned) }

func timelineOf(conn *pgconn.PgConn) timeline {
	t, _ := conn.CustomData()[timelineKey].(timeline)
	return t
}

// isDark is called with the lock held.
func (l *Links) isDark(h *pgconn.FallbackConfig) bool {
	is := func(addr string) bool { return time.Now().Before(l.dark[addr]) }
	if _, addr := pgconn.NetworkAddress(h.Host, h.Port); is(addr) { // a socket, or an IP address
		return true
	}
	return slices.ContainsFunc(l.addrs[h.Host], func(ip string) bool {
		_, addr := pgconn.NetworkAddress(ip, h.Port)
		return is(addr)
	})
}

func (l *Links) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := l.dialer.DialContext(ctx, network, addr)
	if err != nil {
		if ctx.Err() != nil {
			l.setDark(addr)
		}
		return nil, err
	}
	k := &link{Conn: conn, l: l, addr: addr}
	l.mu.Lock()
	l.open[k] = true
	l.mu.Unlock()
	return k, nil
}

func (l *Links) setDark(addr string) {
	l.mu.Lock()
	l.dark[addr] = time.Now().Add(darkFor)
	l.mu.Unlock()
}

func (k *link) Write(p []byte) (int, error) {
	k.asked.CompareAndSwap(0, max(1, int64(time.Since(base))))
	return k.Conn.Write(p)
}

func (k *link) Read(p []byte) (int, error) {
	n, err := k.Conn.Read(p)
	if n > 0 {
		k.heard.Store(true)
		k.asked.Store(0)
	}
	return n, err
}

func (k *link) Close() error {
	k.l.mu.Lock()
	mine := k.l.open[k]
	delete(k.l.open, k)
	if mine && !k.heard.Load() {
		k.l.dark[k.addr] = time.Now().Add(darkFor)
	}
	k.l.mu.Unlock()
	return k.Conn.Close()
}
