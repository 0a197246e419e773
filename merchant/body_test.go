package merchant_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// TestConsumedBody mounts the handler behind middleware that does what it must
// not do.
func TestConsumedBody(t *testing.T) {
	for name, spoil := range map[string]func(r *http.Request){
		"ParseForm":  func(r *http.Request) { _ = r.ParseForm() },
		"FormValue":  func(r *http.Request) { _ = r.FormValue("data") },
		"read":       func(r *http.Request) { _, _ = io.ReadAll(r.Body) },
		"half":       func(r *http.Request) { _, _ = io.ReadFull(r.Body, make([]byte, 100)) },
		"read+close": func(r *http.Request) { _, _ = io.ReadAll(r.Body); _ = r.Body.Close() },
		"chunked form": func(r *http.Request) {
			r.ContentLength = -1
			_ = r.ParseForm()
		},
	} {
		for _, network := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s network=%v", name, network), func(t *testing.T) {
				w := newWorld(t, countersigntest.ServiceConfig{}, nil)
				spoiled := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					spoil(r)
					w.handler.ServeHTTP(rw, r)
				})
				to := countersigntest.ToHandler(spoiled)
				if network {
					server := httptest.NewServer(spoiled)
					defer server.Close()
					to = countersigntest.ToURLs(server.URL+merchant.DefaultNotifyPath, server.URL, server.Client())
				}
				r := w.service.Deliver(context.Background(), to, countersigntest.Deposit(1))
				w.refused(t, r, 400, countersign.CodeCannotOpen, merchant.ReasonBodyConsumed)
				if !strings.Contains(r.Response.Message, "consumed") {
					t.Errorf("the message does not say so: %q", r.Response.Message)
				}
			})
		}
	}
	// Having parsed the query alone does no harm.
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	to := countersigntest.ToHandler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Header.Set("Content-Type", "text/plain")
		_ = r.ParseForm()
		w.handler.ServeHTTP(rw, r)
	}))
	w.accepted(t, w.service.Deliver(context.Background(), to, countersigntest.Deposit(1)), merchant.ReasonAccepted)
}

func TestBodySizes(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	server := httptest.NewServer(w.handler)
	defer server.Close()
	for _, c := range []struct {
		name    string
		body    io.Reader
		chunked bool
		status  int
		reason  merchant.Reason
	}{
		{"empty", strings.NewReader(""), false, 400, merchant.ReasonNotOpened},
		{"spaces", strings.NewReader(" \r\n"), false, 400, merchant.ReasonNotOpened},
		{"the most", strings.NewReader(strings.Repeat("A", envelope.MaxBody)), false, 400, merchant.ReasonNotOpened},
		{"one more", strings.NewReader(strings.Repeat("A", envelope.MaxBody+1)), false, 413, merchant.ReasonTooLarge},
		{"the most, chunked", strings.NewReader(strings.Repeat("A", envelope.MaxBody)), true, 400, merchant.ReasonNotOpened},
		{"one more, chunked", strings.NewReader(strings.Repeat("A", envelope.MaxBody+1)), true, 413, merchant.ReasonTooLarge},
		{"far too large", bytes.NewReader(make([]byte, 1<<20)), true, 413, merchant.ReasonTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := c.body
			if c.chunked {
				body = struct{ io.Reader }{c.body}
			}
			r := must(http.NewRequest("POST", server.URL+merchant.DefaultNotifyPath, body))(t)
			r.Header.Set("X-API-KEY", w.service.CallbackAPIKey().Reveal())
			resp := must(server.Client().Do(r))(t)
			raw, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("status %d, want %d", resp.StatusCode, c.status)
			}
			parsed, err := countersign.ParseResponse(raw)
			if err != nil || parsed.ErrCode != countersign.CodeCannotOpen || !parsed.APIKey.Equal(w.service.APIKey()) {
				t.Errorf("response %v, errCode %d", err, parsed.ErrCode)
			}
			// The line is written after the response has left.
			eventually(t, func() bool { return w.last().Reason == c.reason })
		})
	}
	small := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) { c.MaxBody = 100 })
	small.refused(t, small.deliver(countersigntest.Deposit(1)), 413, countersign.CodeCannotOpen, merchant.ReasonTooLarge)
}

// eventually waits for what happens soon after; that it never does is
// the test binary's own time-out.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		time.Sleep(time.Millisecond)
	}
}

// hiding is a middleware that hides the connection, as old ones do.
type hiding struct{ http.ResponseWriter }

// TestSlowBody: whoever does not send the body to its end is answered all the
// same, and before anything was done.
func TestSlowBody(t *testing.T) {
	for _, c := range []struct {
		name, key string
		hide      bool
		status    int
	}{
		{"slow", "", false, 408},
		{"slow behind a middleware", "", true, 408},
		{"slow without the key", "wrong", false, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, countersigntest.ServiceConfig{}, func(mc *merchant.Config) { mc.BodyTimeout = 30 * time.Millisecond })
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if c.hide {
					rw = hiding{rw}
				}
				w.handler.ServeHTTP(rw, r)
			}))
			defer server.Close()
			conn := must(net.Dial("tcp", server.Listener.Addr().String()))(t)
			key := c.key
			if key == "" {
				key = w.service.CallbackAPIKey().Reveal()
			}
			must(fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-API-KEY: %s\r\nContent-Length: 500\r\n\r\nAAAA", merchant.DefaultNotifyPath, key))(t)
			resp := must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
			if resp.StatusCode != c.status || !resp.Close {
				t.Errorf("status %d, want %d; closing %v", resp.StatusCode, c.status, resp.Close)
			}
			_ = resp.Body.Close()
			_ = conn.Close()
			if w.total() != 0 {
				t.Error("it had an effect")
			}
		})
	}
}

// TestCutBody: the peer goes away in the middle.
func TestCutBody(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	body := sealedBody(t, w.service, countersigntest.Deposit(1))
	for name, failure := range map[string]error{
		"cut": io.ErrUnexpectedEOF, "reset": errors.New("connection reset"), "deadline": context.DeadlineExceeded,
		"limit of a middleware": &http.MaxBytesError{Limit: 10},
	} {
		r := httptest.NewRequest("POST", merchant.DefaultNotifyPath, io.MultiReader(bytes.NewReader(body), failing{failure}))
		r.Header.Set("X-API-KEY", w.service.CallbackAPIKey().Reveal())
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, r)
		want := map[string]int{"cut": 400, "reset": 400, "deadline": 408, "limit of a middleware": 413}[name]
		if rec.Code != want {
			t.Errorf("%s: status %d, want %d", name, rec.Code, want)
		}
	}
	if w.total() != 0 {
		t.Error("a body without its end had an effect")
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// deadlines is a connection that notes the read deadlines it is given.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error { d.set = append(d.set, t); return nil }

// TestReadDeadline: the read deadline of the body is set before anything else
// and gone before the function begins, since net/http would end the context of
// the request with it, and the next request of the connection.
func TestReadDeadline(t *testing.T) {
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	called := false
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.OnDeposit = func(context.Context, merchant.Deposit) error {
			called = true
			if len(d.set) != 2 || d.set[0].IsZero() || !d.set[1].IsZero() {
				t.Errorf("the deadlines before the function: %v", d.set)
			}
			return nil
		}
	})
	body := sealedBody(t, w.service, countersigntest.Deposit(1))
	r := httptest.NewRequest("POST", merchant.DefaultNotifyPath, bytes.NewReader(body))
	r.Header.Set("X-API-KEY", w.service.CallbackAPIKey().Reveal())
	w.handler.ServeHTTP(d, r)
	if !called || len(d.set) != 2 {
		t.Errorf("called %v, deadlines %v", called, d.set)
	}
	d = &deadlines{ResponseRecorder: httptest.NewRecorder()}
	w.handler.ServeHTTP(d, httptest.NewRequest("POST", merchant.DefaultNotifyPath, nil))
	if d.Code != 401 || len(d.set) != 1 || d.set[0].IsZero() {
		t.Errorf("a stranger: status %d, deadlines %v", d.Code, d.set)
	}
}

// TestKeepAlive: one connection serves many callbacks.
func TestKeepAlive(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	server := httptest.NewServer(w.handler)
	defer server.Close()
	conn := must(net.Dial("tcp", server.Listener.Addr().String()))(t)
	defer conn.Close()
	client := &http.Client{Transport: oneConnection{conn, bufio.NewReader(conn)}}
	to := countersigntest.ToURLs(server.URL+merchant.DefaultNotifyPath, server.URL+merchant.DefaultWithdrawPath, client)
	for n := range 5 {
		if r := w.service.Deliver(context.Background(), to, countersigntest.Deposit(n)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// oneConnection sends every request over the same connection. http.Transport dials
// anew where the machine is so busy that it learns late that a request was written.
type oneConnection struct {
	conn net.Conn
	r    *bufio.Reader
}

func (c oneConnection) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Write(c.conn); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.r, req)
}
