package db

import (
	"context"
	"countersign/internal/lab/dbtest"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestTimelines: a server is trusted unless its cluster has had a later timeline. One that has
// taken over from another, which is only in the same cluster, ends the connections to that.
func TestTimelines(t *testing.T) {
	of := func(system, digits string) timeline { return newTimeline(system, digits+"0000000100000002") }
	for _, c := range []struct {
		name     string
		was, is  timeline
		refused  bool
		takeover bool
	}{
		{"the first connection", timeline{}, of("a", "00000001"), false, false},
		{"the same primary", of("a", "00000003"), of("a", "00000003"), false, false},
		{"a promoted standby", of("a", "00000003"), of("a", "00000004"), false, true},
		{"hexadecimal digits", of("a", "00000009"), of("a", "0000000A"), false, true},
		{"a replaced primary that came back", of("a", "0000000A"), of("a", "00000009"), true, false},
		{"another cluster with a lower timeline", of("a", "00000007"), of("b", "00000001"), false, false},
		{"another cluster with a higher timeline", of("a", "00000001"), of("b", "00000007"), false, false},
		{"a name that is too short counts as the lowest", of("a", "00000002"), newTimeline("a", "0000"), true, false},
		{"a name without digits likewise", of("a", "00000002"), newTimeline("a", "no digits at all"), true, false},
	} {
		l := newLinks(connConfig(t, "postgres://u@db1,db2/x"), slog.New(slog.DiscardHandler))
		l.last = c.was
		links := map[string]*serverLink{"old": {at: c.was}, "new": {}, "unknown": {}} // the last is dialled, and not known yet
		for _, k := range links {
			var there net.Conn
			k.Conn, there = net.Pipe()
			defer there.Close()
			k.l, l.open[k] = l, true
		}
		if err := l.accept(links["new"], c.is); errors.Is(err, errReplaced) != c.refused {
			t.Errorf("%s: %v, want refused: %v", c.name, err, c.refused)
		}
		if left := !l.open[links["old"]]; left != c.takeover || !l.open[links["new"]] || !l.open[links["unknown"]] {
			t.Errorf("%s: the server before it was left: %v, want %v; open: %d", c.name, left, c.takeover, len(l.open))
		}
		want := c.is
		if c.refused {
			want = c.was
		}
		if l.last != want {
			t.Errorf("%s: the latest timeline is %v, want %v", c.name, l.last, want)
		}
		if got := c.is.after(c.was); got != c.takeover {
			t.Errorf("%s: it took over: %v, want %v", c.name, got, c.takeover)
		}
	}
}

func connConfig(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	return must(pgx.ParseConfig(url))(t)
}

func TestSeveral(t *testing.T) {
	for url, several := range map[string]bool{
		"postgres://u@db1/x":                   false,
		"postgres://u@db1/x?sslmode=prefer":    false, // the same server twice
		"postgres://u@db1,db2/x":               true,
		"postgres://u@db1:5432,db1:5433/x":     true,
		"postgres://u@db1,db1/x?sslmode=allow": false,
	} {
		c := connConfig(t, url)
		if got := newLinks(c, nil).Several(); got != several {
			t.Errorf("%s: several %v", url, got)
		}
		want := connectOne
		if several {
			want = connectSeveral
		}
		if got := connectTimeout(c); got != want {
			t.Errorf("%s: connecting may take %v, want %v", url, got, want)
		}
	}
}

// TestUsedServer: the server that was used comes first, and last where another is looked for,
// whether the URL has its address or a name.
func TestUsedServer(t *testing.T) {
	for used, want := range map[string][2][]string{
		"":              {{"10.0.0.1", "db2", "10.0.0.3"}, {"10.0.0.1", "db2", "10.0.0.3"}},
		"10.0.0.1:5432": {{"10.0.0.1", "db2", "10.0.0.3"}, {"db2", "10.0.0.3", "10.0.0.1"}},
		"db2:5432":      {{"db2", "10.0.0.1", "10.0.0.3"}, {"10.0.0.1", "10.0.0.3", "db2"}},
		"10.0.0.3:5433": {{"10.0.0.1", "db2", "10.0.0.3"}, {"10.0.0.1", "db2", "10.0.0.3"}}, // another port
	} {
		l := newLinks(connConfig(t, "postgres://u@10.0.0.1,db2,10.0.0.3/x?sslmode=disable"), nil)
		l.used = used
		for n, first := range []bool{true, false} {
			conn := l.config.Copy()
			l.prepare(conn, first)
			got := []string{conn.Host}
			for _, f := range conn.Fallbacks {
				got = append(got, f.Host)
			}
			if !slices.Equal(got, want[n]) {
				t.Errorf("%q was used, first: %v: %v, want %v", used, first, got, want[n])
			}
		}
	}
}

// TestDials: a connection dials nothing once it is connected, so that pgx sends no cancel
// request. What is dialled is known by the name that the URL has.
func TestDials(t *testing.T) {
	server := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Addr().String())
	l := newLinks(connConfig(t, "postgres://u@db/x"), nil)
	conn := l.config.Copy()
	conn.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	l.prepare(conn, true)
	must(conn.LookupFunc(t.Context(), "db"))(t)
	got := must(conn.DialFunc(t.Context(), "tcp", server.Addr().String()))(t)
	if host := got.(*serverLink).host; host != "db:"+port || len(l.open) != 1 {
		t.Errorf("host %s, %d connections are known", host, len(l.open))
	}
	got.Close()
	ok(t, conn.AfterConnect(t.Context(), &pgconn.PgConn{}))
	dbtest.Fails(conn.DialFunc(t.Context(), "tcp", server.Addr().String()))(t, net.ErrClosed, "")
	if len(l.open) != 0 {
		t.Errorf("%d connections are known after their end", len(l.open))
	}
}

// TestSilent: a server is silent that was asked long ago and has answered nothing since.
func TestSilent(t *testing.T) {
	defer func(was time.Time) { startOfClock = was }(startOfClock)
	startOfClock = startOfClock.Add(-time.Hour)
	long, short := int64(time.Since(startOfClock)-10*stalled), int64(time.Since(startOfClock)+time.Hour)
	for _, c := range []struct {
		name            string
		asked           int64
		answers, silent bool
	}{
		{"nothing was asked", 0, false, false},
		{"asked a moment ago", short, false, false},
		{"asked long ago", long, false, true},
		{"answered", long, true, false},
	} {
		l := newLinks(connConfig(t, "postgres://u@db/x"), nil)
		here, there := net.Pipe()
		k := &serverLink{Conn: here, l: l}
		l.open[k] = true
		k.asked.Store(c.asked)
		if c.answers {
			go func() { _, _ = io.WriteString(there, "x") }()
			must(k.Read(make([]byte, 1)))(t)
		}
		if got := l.silent(); got != c.silent {
			t.Errorf("%s: silent %v", c.name, got)
		}
		_ = k.Close()
		there.Close()
	}
}
