package api

import (
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"countersign/internal/bodies"
)

// TestAnnouncedBodies: a thousand connections announce 4 MiB each and send a little.
// They take memory for what they sent. Before, they took 4 GB. Where the budget of all
// bodies is used up, a call gets a 503 that says when to come again, and after they are
// gone all of the budget is free.
func TestAnnouncedBodies(t *testing.T) {
	const callers, room = 1000, 4 << 10 // room is what a body gets at its first byte
	type message struct {
		A string `json:"a"`
	}
	e := newEnd(t, Route{Method: "POST", Path: "/act", ID: "act", Roles: Roles{"viewer", "operator"}, Status: 204, Handler: Handle(func(*Call, None, message) (None, error) { return None{}, nil })})
	e.c.MaxBody = 4 << 20
	e.bodies = bodies.NewBudget(callers * room)
	_, secret := e.tokens.add("viewer")
	if err := e.ask(secret); err != nil { // it is in the cache now
		t.Fatal(err)
	}
	server := httptest.NewServer(e.Mux())
	defer server.Close()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	head := "POST /act HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: Bearer " + secret + "\r\nContent-Length: %d\r\n\r\n"
	var open []net.Conn
	dial := func(announced int, text string) net.Conn {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, head+text, announced); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range callers {
		open = append(open, dial(4_000_000, `{"a":"`))
	}
	for e.bodies.Held() < callers*room {
		time.Sleep(time.Millisecond)
	}
	if took := heap() - before; took > 128<<20 {
		t.Errorf("%d bodies of 6 bytes take %d MB", callers, took>>20)
	}
	answer := func(c net.Conn) string {
		b := make([]byte, 1000)
		n, _ := io.ReadAtLeast(c, b, 12)
		return string(b[:n])
	}
	one := dial(9, `{"a":"b"}`)
	if got := answer(one); !strings.HasPrefix(got, "HTTP/1.1 503") || !strings.Contains(got, "Retry-After: 1") {
		t.Errorf("a body beyond the budget gets %q", got)
	}
	one.Close()
	for _, c := range open {
		c.Close()
	}
	for e.bodies.Held() > 0 {
		time.Sleep(time.Millisecond)
	}
	one = dial(9, `{"a":"b"}`)
	defer one.Close()
	if got := answer(one); !strings.HasPrefix(got, "HTTP/1.1 204") {
		t.Errorf("a body afterwards gets %q", got)
	}
}
