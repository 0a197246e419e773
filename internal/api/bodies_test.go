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

	"countersign/internal/web"
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
	e.c.Bodies = web.NewShares(callers * room)
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
		c := must(net.Dial("tcp", server.Listener.Addr().String()))(t)
		must(fmt.Fprintf(c, head+text, announced))(t)
		return c
	}
	for range callers {
		open = append(open, dial(4_000_000, `{"a":"`))
	}
	for e.c.Bodies.Callers.Held() < callers*room {
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
	for e.c.Bodies.Callers.Held() > 0 {
		time.Sleep(time.Millisecond)
	}
	one = dial(9, `{"a":"b"}`)
	defer one.Close()
	if got := answer(one); !strings.HasPrefix(got, "HTTP/1.1 204") {
		t.Errorf("a body afterwards gets %q", got)
	}
}

// TestStrangersTakeNothing: who has no token takes nothing of the room for bodies, however
// much is sent, and is throttled before a body is read. Where callers have taken all of
// that room, what stops money gets through, and a call without a body too.
func TestStrangersTakeNothing(t *testing.T) {
	type message struct {
		A string `json:"a"`
	}
	post := func(path string, roles Roles, h Handler) Route {
		return Route{Method: "POST", Path: path, ID: path[1:], Roles: roles, Status: 204, Handler: h}
	}
	h := Handle(func(*Call, None, message) (None, error) { return None{}, nil })
	e := newEnd(t, post("/open", Open, h), post("/act", Roles{"viewer"}, h), post("/stop", Roles{"viewer"}, Urgent(h)),
		post("/bare", Roles{"viewer"}, Handle(func(*Call, None, None) (None, error) { return None{}, nil })))
	e.c.MaxBody, e.c.Bodies = 4<<20, web.NewShares(8<<20)
	_, secret := e.tokens.add("viewer")
	read := 0 // bytes of the last body
	post1 := func(path, secret string, n int) int {
		body := &counted{r: strings.NewReader(`{"a":"` + strings.Repeat("x", max(0, n-8)) + `"}`)}
		r, w := httptest.NewRequest("POST", path, body), httptest.NewRecorder()
		if n == 0 {
			r.Body = io.NopCloser(strings.NewReader(""))
		}
		r.Header.Set("Content-Type", TypeJSON)
		if secret != "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		}
		e.Mux().ServeHTTP(w, r)
		read = body.n
		return w.Code
	}
	for _, c := range []struct {
		path   string
		length int
		want   int
	}{{"/open", shortBody, 204}, {"/open", shortBody + 1, 413}, {"/stop", shortBody, 204}, {"/stop", shortBody + 1, 413}, {"/act", 4 << 20, 204}} {
		with := secret
		if c.path == "/open" {
			with = ""
		}
		if got := post1(c.path, with, c.length); got != c.want {
			t.Errorf("%s with %d bytes: %d, want %d", c.path, c.length, got, c.want)
		}
		if c.want == 413 && read > shortBody+1 {
			t.Errorf("%s: %d bytes were read", c.path, read)
		}
	}
	if !e.c.Bodies.Callers.Take(8 << 20) {
		t.Fatal("the bodies above are still held")
	}
	for path, want := range map[string]int{"/open": 204, "/act": 503, "/stop": 204} {
		if got := post1(path, map[bool]string{false: secret}[path == "/open"], 100); got != want {
			t.Errorf("%s where callers hold all: %d, want %d", path, got, want)
		}
	}
	if got := post1("/bare", secret, 0); got != 204 {
		t.Errorf("an empty body where callers hold all: %d", got)
	}
	for range 2 * guessesAtOnce { // beginnings of sign-ins do not count: they would keep out everybody behind one proxy
		if got := post1("/open", "", 100); got != 204 {
			t.Fatalf("one of many: %d", got)
		}
	}
}

// counted counts what is read of it.
type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}
