package daemon

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// served runs a listener with h and gives its address.
func served(t *testing.T, most int, h http.Handler) (l *Listener, address string) {
	t.Helper()
	l = must(Listen(ListenConfig{Name: "test", Addr: "127.0.0.1:0", Handler: h, Most: most, Drain: 5 * time.Minute, Log: slog.New(slog.DiscardHandler)}))
	run(t, l.Run)
	return l, l.ln.Addr().String()
}

func send(t *testing.T, address, text string) net.Conn {
	t.Helper()
	c := must(net.Dial("tcp", address))
	t.Cleanup(func() { c.Close() })
	must(io.WriteString(c, text))
	return c
}

func openConnections(l *Listener) int {
	c := l.ln.(*connections)
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

const whole = "GET /quick HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

// TestSilentConnections: connections with half a header, half a body, no byte at all, or
// an answer that nobody reads, many times more than the listener may have, keep no
// request out, and the listener never has more than it may. Before, each kept a file
// descriptor until its time-out.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	const most = 20
	l, address := served(t, most, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/long" {
			_, _ = w.Write(make([]byte, 64<<20))
		}
	}))
	for round := range 4 {
		for i := range 3 * most {
			send(t, address, []string{
				"GET /quick HTTP/1.1\r\nHost: localhost\r\nX: ", "",
				"POST /quick HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
				"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n"}[i%4])
		}
		r, err := http.ReadResponse(bufio.NewReader(send(t, address, whole)), nil)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("round %d: a whole request gets %v, %v", round, r, err)
		}
		if n := openConnections(l); n > most {
			t.Errorf("%d connections", n)
		}
	}
}

// TestWorkingConnections: a request that came whole keeps its connection, and others
// wait for room, until its answer begins.
func TestWorkingConnections(t *testing.T) {
	const most = 5
	begun, end := make(chan bool, most), make(chan bool)
	l, address := served(t, most, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.URL.Path == "/slow" {
			begun <- true
			<-end
		}
	}))
	var working []net.Conn
	for i := range most {
		text := "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
		if i%2 == 0 {
			text = "POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
		}
		working = append(working, send(t, address, text))
		<-begun
	}
	waits := make(chan error, 1)
	go func() {
		c, err := net.Dial("tcp", address)
		if err == nil {
			defer c.Close()
			if _, err = io.WriteString(c, whole); err == nil {
				_, err = http.ReadResponse(bufio.NewReader(c), nil)
			}
		}
		waits <- err
	}()
	for told := false; !told; time.Sleep(time.Millisecond) { // until it stands before the full listener
		c := l.ln.(*connections)
		c.mu.Lock()
		told = !c.logged.IsZero()
		c.mu.Unlock()
	}
	select {
	case err := <-waits:
		t.Fatalf("a request is answered while all connections work: %v", err)
	default:
	}
	close(end)
	for i, c := range working {
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != 200 {
			t.Errorf("request %d: %v, %v", i, r, err)
		}
	}
	if err := <-waits; err != nil {
		t.Errorf("the request that waited: %v", err)
	}
}

// TestRefusedBeforeItsBody: a request that is refused at its header gets its answer, and its
// connection ends, though the long body that it announces never comes. Before, it was
// answered when the time for reading was over.
func TestRefusedBeforeItsBody(t *testing.T) {
	l, address := served(t, 10, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	c := send(t, address, "POST /v1/deposits HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
	ok(t, c.SetDeadline(time.Now().Add(l.server.ReadTimeout/2)))
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	if err != nil || r.StatusCode != http.StatusUnauthorized || !r.Close {
		t.Fatalf("%v, %v; want 401 and the end of the connection", r, err)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Errorf("the connection stays: %v", err)
	}
}
