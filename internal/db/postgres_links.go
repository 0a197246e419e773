package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// stalled is how long a server may take to answer. After that, the other hosts of the URL are asked whether one of
// them takes writes now.
const stalled = 1500 * time.Millisecond

const (
	connectSeveral = 2 * time.Second  // limit for one of several hosts: the next may take writes
	connectOne     = 10 * time.Second // limit for the only host
	// userTimeout is how long sent bytes may stay unacknowledged by TCP.
	userTimeout = 10 * time.Second
)

// Links holds all connections to the servers of one database. A statement waits for ever on a server that disappears
// without closing its connections, or that has lost its standby. A new connection to a server on a later timeline
// shows that the older connections lead to a replaced server. These are then closed, and their statements fail.
type Links struct {
	config *pgx.ConnConfig
	dialer net.Dialer
	log    *slog.Logger

	mu   sync.Mutex
	open map[*serverLink]bool
	used string   // host:port of the last server that took writes; tried first
	last timeline // the latest that was seen
}

// timeline is PostgreSQL's count of promotions. A promoted server has a higher one than the primary that it replaced.
type timeline struct {
	system string // of the database cluster; empty if the server has none
	number uint64
}

// newTimeline reads the timeline from the name of a log file, which begins with it in eight hexadecimal digits.
func newTimeline(system, file string) timeline {
	t := timeline{system: system}
	if len(file) >= 8 {
		t.number, _ = strconv.ParseUint(file[:8], 16, 64)
	}
	return t
}

// after reports whether the server of t took over from the server of o.
func (t timeline) after(o timeline) bool { return t.system == o.system && t.number > o.number }

// serverLink is one connection.
type serverLink struct {
	net.Conn
	l     *Links
	host  string       // and port, as the URL has them
	at    timeline     // of its server; zero until it is known. Guarded by l.mu
	asked atomic.Int64 // when it was last written to, in nanoseconds after startOfClock; 0 if something was read since
}

// startOfClock is the zero of the monotonic times that are stored as numbers.
var startOfClock = time.Now()

// newLinks returns the Links of a pool with the configuration c, and completes c. Each connection of the pool must go
// through BeforeConnect.
func newLinks(c *pgx.ConnConfig, log *slog.Logger) *Links {
	return &Links{
		config: c, log: log, open: map[*serverLink]bool{},
		dialer: net.Dialer{
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
			Control:         limitSilence,
		},
	}
}

// connectTimeout returns how long one attempt to connect to a server of c may take, if the URL has no connect_timeout.
func connectTimeout(c *pgx.ConnConfig) time.Duration {
	if several(c) {
		return connectSeveral
	}
	return connectOne
}

// Several reports whether the URL names more than one server. Only then does Watch have work.
func (l *Links) Several() bool { return several(l.config) }

func several(c *pgx.ConnConfig) bool {
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != c.Host || f.Port != c.Port
	})
}

// beforeConnect is the function of that name of the pool. It makes the connection dial through l.
func (l *Links) beforeConnect(_ context.Context, c *pgx.ConnConfig) error {
	l.prepare(c, true)
	return nil
}

func (l *Links) connect(ctx context.Context, usedFirst bool) (*pgx.Conn, error) {
	c := l.config.Copy()
	l.prepare(c, usedFirst)
	return pgx.ConnectConfig(ctx, c)
}

// prepare makes c, the copy for one connection, dial through l. The host that was last used is tried first or last,
// by usedFirst.
//
// Once connected, c dials no more. Otherwise pgx would send a cancel request for each statement whose context ends.
// That would end a COMMIT's wait for the standby, and its transaction would become visible although no standby has
// it. Other calls would answer from it, and a failover would undo it.
func (l *Links) prepare(c *pgx.ConnConfig, usedFirst bool) {
	hosts := servers(c)
	l.mu.Lock()
	used := l.used
	l.mu.Unlock()
	rank := func(h *pgconn.FallbackConfig) int {
		if _, at := pgconn.NetworkAddress(h.Host, h.Port); (at == used) == usedFirst {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(hosts, func(a, b *pgconn.FallbackConfig) int { return rank(a) - rank(b) })
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = hosts[0].Host, hosts[0].Port, hosts[0].TLSConfig, hosts[1:]

	names, lookup := map[string]string{}, c.LookupFunc
	c.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		found, err := lookup(ctx, host)
		for _, ip := range found {
			names[ip] = host
		}
		return found, err
	}
	var dialled *serverLink // of the host that is being tried
	var connected atomic.Bool
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if connected.Load() {
			return nil, net.ErrClosed
		}
		conn, err := l.dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		dialled = &serverLink{Conn: conn, l: l, host: addr}
		if ip, port, err := net.SplitHostPort(addr); err == nil && names[ip] != "" {
			dialled.host = net.JoinHostPort(names[ip], port)
		}
		l.mu.Lock()
		l.open[dialled] = true
		l.mu.Unlock()
		return dialled, nil
	}
	// Of several hosts, only one that takes writes is used, whatever the URL asks for.
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error { return l.validate(ctx, conn, dialled) }
	c.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error {
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

// validate checks every new connection, host by host. It refuses a server that takes no writes. It also refuses a
// primary that was replaced and came back, because its writes would be lost.
func (l *Links) validate(ctx context.Context, conn *pgconn.PgConn, k *serverLink) error {
	if err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, conn); err != nil {
		return err
	}
	var is timeline // stays zero for another engine, or if the user may not ask
	results, err := conn.Exec(ctx, timelineSQL).ReadAll()
	if err == nil && len(results) == 1 && len(results[0].Rows) == 1 {
		row := results[0].Rows[0]
		is = newTimeline(string(row[0]), string(row[1]))
	} else if ctx.Err() != nil {
		return ctx.Err()
	}
	return l.accept(k, is)
}

var errReplaced = errors.New("the server was replaced: its timeline is an earlier one")

// accept returns an error for a server whose timeline is before the latest of its cluster. A server with a later
// timeline ends the connections to the servers before it.
func (l *Links) accept(k *serverLink, is timeline) error {
	var left []*serverLink
	l.mu.Lock()
	defer func() {
		l.mu.Unlock()
		for _, old := range left {
			_ = old.Close()
		}
		if len(left) > 0 {
			l.log.Warn("another database server takes writes now; connections to the earlier one were closed",
				"connections", len(left))
		}
	}()
	if l.last.after(is) {
		return errReplaced
	}
	l.used = k.host
	if is == (timeline{}) {
		return nil
	}
	k.at = is
	if is.after(l.last) {
		for old := range l.open {
			if is.after(old.at) {
				left = append(left, old)
			}
		}
	}
	l.last = is
	return nil
}

// warned is the key of a connection's last warning. A COMMIT with a warning did not wait for the standby.
const warned = "warned"

func (k *serverLink) Write(p []byte) (int, error) {
	k.asked.CompareAndSwap(0, max(1, int64(time.Since(startOfClock))))
	return k.Conn.Write(p)
}

func (k *serverLink) Read(p []byte) (int, error) {
	n, err := k.Conn.Read(p)
	if n > 0 {
		k.asked.Store(0)
	}
	return n, err
}

func (k *serverLink) Close() error {
	k.l.mu.Lock()
	delete(k.l.open, k)
	k.l.mu.Unlock()
	return k.Conn.Close()
}

const (
	stallCheck     = 250 * time.Millisecond
	stallCheckMost = 2 * time.Second // while no other server has taken over
)

// Watch asks the other hosts while a server is silent, until ctx ends. If one of them has taken over, accept leaves
// the silent one. While none has, Watch asks less and less often, because a server may be silent for hours if its
// standby is unavailable, and each question makes a new connection.
func (l *Links) Watch(ctx context.Context) {
	pause := stallCheck
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !l.silent() {
			pause = stallCheck
			continue
		}
		if other, err := l.connect(ctx, false); err == nil {
			_ = other.Close(ctx)
		}
		pause = min(2*pause, stallCheckMost)
	}
}

// silent reports whether a server has not answered for stalled.
func (l *Links) silent() bool {
	before := int64(time.Since(startOfClock) - stalled)
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.open {
		if asked := k.asked.Load(); asked != 0 && asked < before {
			return true
		}
	}
	return false
}

// saysTLS reports whether a database URL itself sets its use of TLS. Settings in the environment do not count,
// because a reader of the URL does not see them.
func saysTLS(raw string) bool {
	raw, _, _ = strings.Cut(raw, "#")
	_, query, _ := strings.Cut(raw, "?")
	values, err := url.ParseQuery(query)
	said := append(values["sslmode"], values["ssl"]...)
	return err == nil && len(said) > 0 && !slices.Contains(said, "")
}

// parseConfig parses a URL. If it does not set its use of TLS and names a server off this machine, every server must
// prove the name in the URL by a certificate, as with sslmode=verify-full. pgx's own default falls back to no TLS at
// all, so an attacker on the network could read everything and answer for the server.
func parseConfig(raw string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(raw)
	if err != nil || saysTLS(raw) || onThisMachine(c.ConnConfig) {
		return c, err
	}
	text, _, _ := strings.Cut(raw, "#")
	server, query, _ := strings.Cut(text, "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	options.Set("sslmode", "verify-full")
	return pgxpool.ParseConfig(server + "?" + options.Encode())
}

// onThisMachine reports whether every server of c is reached by a socket or a loopback address.
func onThisMachine(c *pgx.ConnConfig) bool {
	return !slices.ContainsFunc(servers(c), func(h *pgconn.FallbackConfig) bool {
		ip, err := netip.ParseAddr(h.Host)
		network, _ := pgconn.NetworkAddress(h.Host, h.Port)
		return network != "unix" && !strings.EqualFold(h.Host, "localhost") && (err != nil || !ip.Unmap().IsLoopback())
	})
}

// servers returns the servers of c in the order in which they are tried.
func servers(c *pgx.ConnConfig) []*pgconn.FallbackConfig {
	first := &pgconn.FallbackConfig{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}
	return append([]*pgconn.FallbackConfig{first}, c.Fallbacks...)
}

// explainTLS adds to err what to write in the URL, if parseConfig's rule is why a server cannot be reached.
func explainTLS(url string, err error) error {
	// pgx has no type for a server that refuses TLS. Errors of package tls begin with these texts.
	if text := err.Error(); saysTLS(url) || !strings.Contains(text, "tls error") && !strings.Contains(text, "tls: ") {
		return err
	}
	return fmt.Errorf("%w\nthe database URL has no sslmode, so servers off this machine must prove their names: write sslrootcert=FILE where "+
		"an authority of your own signed their certificates, or sslmode=disable where the network between is trusted", err)
}
