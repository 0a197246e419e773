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
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
)

// exchange posts to a server on loopback, within a time, and returns the response and what Judge says of it.
func exchange(t *testing.T, to string, roots *x509.CertPool, within time.Duration) (Response, Verdict) {
	t.Helper()
	u := must(url.Parse(to))
	tr := newTransport(TargetRules{AllowHTTP: true}, roots, nil, 8)
	defer tr.close()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	r := tr.post(ctx, request{url: u, private: true, contentType: "text/plain", apiKey: "callback-key", body: []byte("sealed"),
		tooLate: func() bool { return false }})
	r.Done = deadline - 1
	return r, Judge(testQuestion(true), r, openPlain)
}

// serveRaw runs a server that hands its raw connections to f, once the request is read.
func serveRaw(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))
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
				if err == nil {
					_, _ = io.Copy(io.Discard, req.Body)
					f(c)
				}
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

func TestMisbehavingMerchants(t *testing.T) {
	big, right := bytes.Repeat([]byte("x"), 64<<10), answers(rightWithdrawal).Body
	says := func(format string, args ...any) func(net.Conn) {
		return func(c net.Conn) { _, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n"+format, args...) }
	}
	// repeats writes text until nobody reads it.
	repeats := func(text string, pause time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for ; err == nil; _, err = io.WriteString(c, text) {
				time.Sleep(pause)
			}
		}
	}
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		raw     func(net.Conn)
		reason  client.Reason // timeout: it ends by that alone
		status  int
	}{
		{name: "hangs", reason: client.ReasonTimeout, raw: func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }},
		{name: "hangs after the header", reason: client.ReasonTimeout, status: 200, raw: func(c net.Conn) {
			says("Content-Length: 9\r\n\r\n")(c)
			_, _ = c.Read(make([]byte, 1))
		}},
		{name: "trickles", reason: client.ReasonTimeout, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			for _, err := w.Write([]byte(" ")); err == nil; _, err = w.Write([]byte(" ")) {
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}},
		{name: "trickles its header", reason: client.ReasonTimeout, raw: repeats("X: y\r\n", 10*time.Millisecond)},
		{name: "streams for ever", reason: client.ReasonTooLarge, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			for _, err := w.Write(big); err == nil; _, err = w.Write(big) {
			}
		}},
		{name: "64 MiB", reason: client.ReasonTooLarge, status: 200, raw: says("Content-Length: %d\r\n\r\n%s", 64<<20, big)},
		{name: "one byte too many", reason: client.ReasonTooLarge, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(append(big, 'x'))
		}},
		{name: "64 KiB of nothing", reason: client.ReasonResponseMalformed, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(big)
		}},
		{name: "compressed", reason: client.ReasonResponseMalformed, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
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
			_, _ = w.Write(right)
		}},
		{name: "empty", reason: client.ReasonResponseMalformed, status: 200, handler: func(w http.ResponseWriter, r *http.Request) {}},
		{name: "closes at once", reason: client.ReasonClosed, raw: func(net.Conn) {}},
		{name: "closes in the header", reason: client.ReasonClosed, raw: says("Server: x\r\n")},
		{name: "closes in the body", reason: client.ReasonClosed, status: 200, raw: says("Content-Length: %d\r\n\r\n%s", len(right)+1, right)},
		{name: "closes in a chunk", reason: client.ReasonClosed, status: 200,
			raw: says("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(right), right)},
		{name: "resets", reason: client.ReasonClosed, raw: func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }},
		{name: "speaks no HTTP", reason: client.ReasonHTTP, raw: func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n\r\n") }},
		{name: "header bomb", reason: client.ReasonTooLarge, raw: repeats("X: "+strings.Repeat("a", 100)+"\r\n", 0)},
		{name: "continues for ever", reason: client.ReasonTooLarge, raw: func(c net.Conn) {
			for err := error(nil); err == nil; {
				_, err = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var to string
			if test.raw != nil {
				to = serveRaw(t, test.raw)
			} else {
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body) // only then does a server notice that its client has gone
					test.handler(w, r)
				}))
				defer s.Close()
				to = s.URL
			}
			within := 15 * time.Second
			if test.reason == client.ReasonTimeout {
				within = 200 * time.Millisecond
			}
			r, v := exchange(t, to, nil, within)
			if v.Reason != test.reason || r.Status != test.status || v.Result != client.AttemptRetry || v.Decision != countersign.DecisionNone {
				t.Errorf("status %d: %+v", r.Status, v)
			}
		})
	}
}

func TestHonestMerchantOverHTTPS(t *testing.T) {
	var header http.Header
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Clone()
		if r.ProtoMajor != 1 || r.Method != http.MethodPost {
			t.Errorf("%s %s", r.Method, r.Proto)
		}
		_, _ = w.Write(answers(rightWithdrawal).Body)
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	if _, v := exchange(t, s.URL, roots, 15*time.Second); v.Decision != countersign.DecisionConfirmed {
		t.Fatalf("%+v", v)
	}
	for name, want := range map[string]string{"Content-Type": "text/plain", "X-Api-Key": "callback-key", "User-Agent": "countersign",
		"Accept": "application/json", "Accept-Encoding": ""} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	// An exchange has all of its time for the response.
	if rt := roundTripper(TargetRules{}, nil); rt.ResponseHeaderTimeout != 0 {
		t.Errorf("the transport waits %v for a response", rt.ResponseHeaderTimeout)
	}
}

func TestTargetsThatAreNotReached(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	closed := l.Addr().String()
	l.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	for _, test := range []struct {
		name   string
		url    string
		roots  *x509.CertPool
		reason client.Reason
		cause  string
	}{
		{"nobody there", "http://" + closed, nil, client.ReasonConnect, "connection refused"},
		{"certificate of nobody", secure.URL, nil, client.ReasonTLS, "signed by an unknown authority, or an intermediate certificate is missing: O=Acme Co"},
		{"certificate for others", strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), roots,
			client.ReasonTLS, "the certificate is for example.com, *.example.com, 127.0.0.1 and not for localhost"},
		{"no TLS there", strings.Replace(plain.URL, "http", "https", 1), nil, client.ReasonTLS, "the server there does not speak TLS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if r, v := exchange(t, test.url, test.roots, 15*time.Second); v.Reason != test.reason || r.Status != 0 || !strings.Contains(v.Facts.Cause, test.cause) {
				t.Errorf("%+v", v)
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
