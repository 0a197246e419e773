package dispatch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/outbox"
)

// httpRig is a Dispatcher over a fake outbox that makes real exchanges with a
// server on loopback.
type httpRig struct {
	*store
	d    *Dispatcher
	log  *syncBuffer
	stop func()
}

func newHTTPRig(t *testing.T, row outbox.Merchant, change func(*Config)) *httpRig {
	t.Helper()
	r := &httpRig{store: newStore(t, row), log: new(syncBuffer)}
	c := Config{Outbox: r.store, Node: "node-1", Observer: noObserver{}, TargetRules: TargetRules{AllowHTTP: true}, DrainTimeout: 10 * time.Millisecond}
	if change != nil {
		change(&c)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r.d = d
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	r.stop = func() { cancel(); <-done }
	return r
}

// firstAttempt waits until the callback's first attempt has been settled.
func (r *httpRig) firstAttempt(t *testing.T, id string) outbox.Attempt {
	t.Helper()
	for range 6000 { // a minute: far longer than any exchange here
		if a := r.attemptsOf(id); len(a) > 0 {
			return a[0]
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no attempt was settled: a worker is stuck")
	return outbox.Attempt{}
}

// serveRaw runs a server that hands its raw connections to f.
func serveRaw(t *testing.T, f func(c net.Conn, request []byte)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				body, _ := io.ReadAll(req.Body)
				f(c, body)
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// readFirst reads the request before h answers: only then does a server notice
// that its client has gone.
func readFirst(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	})
}

func TestMisbehavingMerchants(t *testing.T) {
	m := newTestMerchant(testPair())
	big := bytes.Repeat([]byte("x"), 64<<10)

	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		raw     func(c net.Conn, request []byte)
		short   bool // ends by time-out alone
		reason  client.Reason
		status  int
	}{
		{name: "hangs", reason: client.ReasonTimeout, short: true, handler: func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{name: "hangs without a header", reason: client.ReasonTimeout, short: true, raw: func(c net.Conn, _ []byte) { _, _ = c.Read(make([]byte, 1)) }},
		{name: "hangs after the header", reason: client.ReasonTimeout, short: true, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
		{name: "trickles", reason: client.ReasonTimeout, short: true, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}},
		{name: "trickles its header", reason: client.ReasonTimeout, short: true, raw: func(c net.Conn, _ []byte) {
			for _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n"); err == nil; {
				time.Sleep(10 * time.Millisecond)
				_, err = io.WriteString(c, "X: y\r\n")
				if err != nil {
					return
				}
			}
		}},
		{name: "streams for ever", reason: client.ReasonTooLarge, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(big); err != nil {
					return
				}
			}
		}},
		{name: "64 MiB", reason: client.ReasonTooLarge, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(64<<20))
			for range 1 << 10 {
				if _, err := w.Write(big); err != nil {
					return
				}
			}
		}},
		{name: "one byte too many", reason: client.ReasonTooLarge, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(append(big, 'x'))
		}},
		{name: "64 KiB of nothing", reason: client.ReasonResponseMalformed, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(big)
		}},
		{name: "compressed", reason: client.ReasonResponseMalformed, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Errorf("it asked for %s", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0})
		}},
		{name: "redirects", reason: client.ReasonStatus, status: 302, handler: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}},
		{name: "right answer with 500", reason: client.ReasonStatus, status: 500, handler: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			m.ServeHTTP(w, r)
		}},
		{name: "empty", reason: client.ReasonResponseMalformed, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {}},
		{name: "closes at once", reason: client.ReasonClosed, raw: func(c net.Conn, _ []byte) {}},
		{name: "closes in the header", reason: client.ReasonClosed, raw: func(c net.Conn, _ []byte) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nServer: x\r\n") }},
		{name: "closes in the body", reason: client.ReasonClosed, status: 200, raw: func(c net.Conn, request []byte) {
			response, _ := m.respond(request)
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(response)+1, response)
		}},
		{name: "closes in a chunk", reason: client.ReasonClosed, status: 200, raw: func(c net.Conn, request []byte) {
			response, _ := m.respond(request)
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(response), response)
		}},
		{name: "resets", reason: client.ReasonClosed, raw: func(c net.Conn, _ []byte) { _ = c.(*net.TCPConn).SetLinger(0) }},
		{name: "speaks no HTTP", reason: client.ReasonHTTP, raw: func(c net.Conn, _ []byte) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n\r\n") }},
		{name: "header bomb", reason: client.ReasonTooLarge, raw: func(c net.Conn, _ []byte) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for i := range 100_000 {
				if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat("a", 100)); err != nil {
					return
				}
			}
		}},
		{name: "continues for ever", reason: client.ReasonTooLarge, raw: func(c net.Conn, _ []byte) {
			for {
				if _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"); err != nil {
					return
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var url string
			if test.raw != nil {
				url = serveRaw(t, test.raw)
			} else {
				s := httptest.NewServer(readFirst(test.handler))
				defer s.Close()
				url = s.URL
			}
			r := newHTTPRig(t, testStoreMerchant("m1", testPair(), url), func(c *Config) {
				if test.short {
					c.ExchangeTimeout = 200 * time.Millisecond
				}
			})
			id := r.addWithdrawal("m1", 1, time.Hour, true)
			a := r.firstAttempt(t, id)
			r.stop()
			if a.Reason != test.reason || a.HTTPStatus != test.status || a.Result != client.AttemptRetry {
				t.Errorf("reason %s, status %d, outcome %s", a.Reason, a.HTTPStatus, a.Result)
			}
			if w := r.withdrawal(id); w.State != client.WithdrawalAwaiting || w.Details != nil {
				t.Errorf("it became %s", w.State)
			}
			if c := r.callback(id); c.State == client.CallbackAccepted {
				t.Errorf("accepted: %+v", c)
			}
		})
	}
}

func TestHonestMerchantOverHTTPS(t *testing.T) {
	m := newTestMerchant(testPair())
	var header http.Header
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Clone()
		if r.ProtoMajor != 1 || r.Method != http.MethodPost {
			t.Errorf("%s %s", r.Method, r.Proto)
		}
		m.ServeHTTP(w, r)
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	row := testStoreMerchant("m1", testPair(), s.URL)
	row.Body, row.ContentType = client.BodyJSON, "text/plain"
	r := newHTTPRig(t, row, func(c *Config) { c.Roots, c.AllowHTTP = roots, false })
	id := r.addDeposit("m1", 1)
	a := r.firstAttempt(t, id)
	r.stop()
	if a.Reason != "accepted" {
		t.Fatalf("%+v", a)
	}
	for name, want := range map[string]string{"Content-Type": "text/plain", "X-Api-Key": "callback-key", "User-Agent": "countersign",
		"Accept": "application/json", "Accept-Encoding": ""} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func TestTargetsThatAreNotReached(t *testing.T) {
	m := newTestMerchant(testPair())
	secure := httptest.NewUnstartedServer(m)
	secure.Config.ErrorLog = nil
	secure.TLS = &tls.Config{}
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(m)
	defer plain.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	for _, test := range []struct {
		name   string
		url    string
		change func(*Config)
		reason client.Reason
		cause  string
	}{
		{"nobody there", "http://" + closed, nil, client.ReasonConnect, "connection refused"},
		{"certificate of nobody", secure.URL, nil, client.ReasonTLS, "signed by an unknown authority, or an intermediate certificate is missing: O=Acme Co"},
		{"certificate for others", strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), func(c *Config) {
			c.Roots = x509.NewCertPool()
			c.Roots.AddCert(secure.Certificate())
		}, client.ReasonTLS, "the certificate is for example.com, *.example.com, 127.0.0.1 and not for localhost"},
		{"no TLS there", strings.Replace(plain.URL, "http", "https", 1), nil, client.ReasonTLS, "the server there does not speak TLS"},
		{"private without leave", strings.Replace(secure.URL, "127.0.0.1", "localhost", 1),
			nil, client.ReasonBlockedAddress, "the URL is not one"},
		{"http without leave", plain.URL, func(c *Config) { c.AllowHTTP = false }, client.ReasonBlockedAddress, "the URL is not one"},
	} {
		t.Run(test.name, func(t *testing.T) {
			row := testStoreMerchant("m1", testPair(), test.url)
			row.AllowPrivate = new(test.name != "private without leave")
			r := newHTTPRig(t, row, test.change)
			a := r.firstAttempt(t, r.addDeposit("m1", 1))
			r.stop()
			if a.Reason != test.reason || a.HTTPStatus != 0 || !strings.Contains(a.Facts.Cause, test.cause) {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestCauses(t *testing.T) {
	for want, err := range map[string]error{
		"the name server knows no such host": &net.DNSError{IsNotFound: true}, "the name server did not answer": &net.DNSError{IsTimeout: true},
		"the name server failed": &net.DNSError{},
	} {
		if got := (&request{phase: new(atomic.Int32)}).failed(t.Context(), err); got.Failure != client.ReasonResolve || got.Cause != want {
			t.Errorf("%v gives %+v, want %q", err, got, want)
		}
	}
	cert := &x509.Certificate{NotBefore: time.Unix(0, 0), NotAfter: time.Unix(86_400, 0)}
	for want, err := range map[string]error{
		"the certificate is valid only from Thu, 01 Jan 1970 00:00:00 GMT to Fri, 02 Jan 1970 00:00:00 GMT": x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired},
		"the certificate is not valid":        x509.CertificateInvalidError{Cert: cert, Reason: x509.TooManyIntermediates},
		"tls: handshake failure":              tls.AlertError(40),
		"the server there does not speak TLS": tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"the TLS handshake failed":            io.EOF,
	} {
		if got := tlsCause(&tls.CertificateVerificationError{Err: err}); got != want && tlsCause(err) != want {
			t.Errorf("%v gives %q, want %q", err, got, want)
		}
	}
}

func TestBodyForms(t *testing.T) {
	for form, want := range map[client.BodyForm]string{"": "a+/=", client.BodyBare: "a+/=", client.BodyData: "data=a%2B%2F%3D", client.BodyJSON: `{"data":"a+/="}`} {
		body, err := wireBody(form, []byte("a+/="))
		if inner, _, unwrapped := envelope.Unwrap(body); err != nil || string(body) != want || unwrapped != nil || string(inner) != "a+/=" {
			t.Errorf("form %q gives %q, %v, in which a merchant reads %q, %v", form, body, err, inner, unwrapped)
		}
	}
	if _, err := wireBody("xml", []byte("x")); err == nil {
		t.Error("an unknown form is written")
	}
}
