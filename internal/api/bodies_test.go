package api

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign/internal/web"
)

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
