package pglink

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestTimelines: a server is trusted unless its cluster has had a later timeline, and it has
// taken over from another only in the same cluster.
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
		l := &Links{last: c.was}
		if err := l.accept(c.is); errors.Is(err, errReplaced) != c.refused {
			t.Errorf("%s: %v, want refused: %v", c.name, err, c.refused)
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

func config(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSeveral(t *testing.T) {
	for url, several := range map[string]bool{
		"postgres://u@db1/x":                   false,
		"postgres://u@db1/x?sslmode=prefer":    false, // the same server twice
		"postgres://u@db1,db2/x":               true,
		"postgres://u@db1:5432,db1:5433/x":     true,
		"postgres://u@db1,db1/x?sslmode=allow": false,
	} {
		c := config(t, url)
		if got := New(c, nil).Several(); got != several {
			t.Errorf("%s: several %v", url, got)
		}
		want := connectOne
		if several {
			want = connectSeveral
		}
		if got := ConnectTimeout(c); got != want {
			t.Errorf("%s: connecting may take %v, want %v", url, got, want)
		}
	}
}

// TestDarkServersComeLast: a server that did not respond is tried after the others, whether
// the URL has its address or a name of it, until it has been dark for long enough.
func TestDarkServersComeLast(t *testing.T) {
	const url = "postgres://u@10.0.0.1,db2,10.0.0.3/x?sslmode=disable"
	for _, c := range []struct {
		name string
		dark map[string]time.Duration
		want []string
	}{
		{"none is dark", nil, []string{"10.0.0.1", "db2", "10.0.0.3"}},
		{"by its address", map[string]time.Duration{"10.0.0.1:5432": time.Hour}, []string{"db2", "10.0.0.3", "10.0.0.1"}},
		{"by its name", map[string]time.Duration{"10.0.0.2:5432": time.Hour}, []string{"10.0.0.1", "10.0.0.3", "db2"}},
		{"another port", map[string]time.Duration{"10.0.0.1:5433": time.Hour}, []string{"10.0.0.1", "db2", "10.0.0.3"}},
		{"no longer", map[string]time.Duration{"10.0.0.1:5432": -time.Second}, []string{"10.0.0.1", "db2", "10.0.0.3"}},
		{"all", map[string]time.Duration{"10.0.0.1:5432": time.Hour, "10.0.0.2:5432": time.Hour, "10.0.0.3:5432": time.Hour}, []string{"10.0.0.1", "db2", "10.0.0.3"}},
	} {
		l := New(config(t, url), nil)
		l.addrs["db2"] = []string{"10.0.0.2"}
		for addr, left := range c.dark {
			l.dark[addr] = time.Now().Add(left)
		}
		conn := l.config.Copy()
		if err := l.BeforeConnect(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		got := []string{conn.Host}
		for _, f := range conn.Fallbacks {
			got = append(got, f.Host)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestDials: a connection dials only addresses that it may, and nothing once it is
// connected, so that pgx sends no cancel request.
func TestDials(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	addr := server.Addr().String()
	l := New(config(t, "postgres://u@db/x"), nil)
	for _, c := range []struct {
		name           string
		may, connected bool
		want           error
	}{
		{"allowed", true, false, nil},
		{"not allowed", false, false, net.ErrClosed},
		{"connected", true, true, net.ErrClosed},
	} {
		conn := l.config.Copy()
		l.prepare(conn, func(to string) bool { return c.may && to == addr })
		if c.connected {
			if err := conn.AfterConnect(t.Context(), &pgconn.PgConn{}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := conn.DialFunc(t.Context(), "tcp", addr)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got != nil {
			got.Close()
		}
	}
	if len(l.open) != 0 {
		t.Errorf("%d connections are known after their end", len(l.open))
	}
}

// TestSilent: a server is silent that was asked long ago and has answered nothing since. A
// connection that ends before its server said anything makes the server dark.
func TestSilent(t *testing.T) {
	defer func(was time.Time) { base = was }(base)
	base = base.Add(-time.Hour)
	long, short := int64(time.Since(base)-10*Stalled), int64(time.Since(base)+time.Hour)
	for _, c := range []struct {
		name         string
		asked        int64
		answers      bool
		silent, dark bool
	}{
		{"nothing was asked", 0, false, false, true},
		{"asked a moment ago", short, false, false, true},
		{"asked long ago", long, false, true, true},
		{"answered", long, true, false, false},
	} {
		l := New(config(t, "postgres://u@db/x"), nil)
		here, there := net.Pipe()
		k := &link{Conn: here, l: l, addr: "10.0.0.1:5432"}
		l.open[k] = true
		k.asked.Store(c.asked)
		if c.answers {
			go func() { _, _ = io.WriteString(there, "x") }()
			if _, err := k.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.silent()[k.addr]; got != c.silent {
			t.Errorf("%s: silent %v", c.name, got)
		}
		_ = k.Close()
		if got := l.isDark(&pgconn.FallbackConfig{Host: "10.0.0.1", Port: 5432}); got != c.dark {
			t.Errorf("%s: dark %v", c.name, got)
		}
		there.Close()
	}
}

// TestNobodyTakesOver: while no other server can be reached, a silent one keeps its place.
func TestNobodyTakesOver(t *testing.T) {
	l := New(config(t, "postgres://u@127.0.0.1:1,127.0.0.1:2/x?sslmode=disable"), nil)
	if l.replaced(context.Background(), map[string]bool{"127.0.0.1:1": true}) {
		t.Error("a server was replaced, and there is no other")
	}
}
