package dispatch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"countersign"
)

// Limits of one exchange (PROTOCOL.md, HTTP).
const (
	maxResponseBody   = countersign.MaxMessage // bytes
	maxResponseHeader = 16 << 10               // bytes
	maxIgnoredBody    = 4 << 10                // bytes read to keep a connection after a status other than 200
	connectTimeout    = 5 * time.Second
	tlsTimeout        = 5 * time.Second
	headerTimeout     = 12 * time.Second
	idleTimeout       = 90 * time.Second
	idlePerHost       = 256
)

// userAgent names the sender without its version: merchants need not know
// what is old enough to attack.
const userAgent = "countersign"

// transport makes exchanges with merchants. All of them share two connection
// pools, so that a merchant that may be private and one that may not never share
// a connection.
type transport struct {
	public, private *http.Transport
}

// newTransport gives the transport for merchants that may and may not be private.
// roots nil means the system's.
func newTransport(allowHTTP bool, roots *x509.CertPool) *transport {
	return &transport{
		public:  roundTripper(Policy{AllowHTTP: allowHTTP}, roots, nil),
		private: roundTripper(Policy{AllowPrivate: true, AllowHTTP: allowHTTP}, roots, nil),
	}
}

func roundTripper(p Policy, roots *x509.CertPool, resolver *net.Resolver) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second, Control: dialControl(p), Resolver: resolver}
	// HTTP/1.1 alone: with HTTP/2 one lost packet, or one server that
	// plays with flow control, would hold up all exchanges of a connection, and
	// these exchanges are too small to gain by sharing one.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // a proxy would resolve names behind our back
		DialContext:            fenced(dialer.DialContext),
		Protocols:              &protocols,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		ExpectContinueTimeout:  0,
		MaxResponseHeaderBytes: maxResponseHeader,
		MaxIdleConns:           0,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true, // 64 KiB then are 64 KiB, and no bomb unfolds
		WriteBufferSize:        8 << 10,
		ReadBufferSize:         4 << 10,
	}
}

func (t *transport) close() {
	t.public.CloseIdleConnections()
	t.private.CloseIdleConnections()
}

// request is one POST.
type request struct {
	url         *url.URL
	private     bool // the merchant's network allowance
	contentType string
	apiKey      countersign.APIKey // X-API-KEY; empty: none
	body        []byte
	tooLate     func() bool // says that nothing of it must go out any more
}

// errTooLate breaks a request off before all of it has gone out.
var errTooLate = errors.New("too late to send")

// fencedConn is a connection to a merchant that sends nothing more when it is too
// late for the request that has it. The context's deadline is not enough: a
// process that was stopped and goes on, or a machine that slept, may write before
// any timer fires, after another node has taken the callback over. That this is
// not done by the body's reader saves a packet: http.Transport sends the header
// ahead of a body that it does not know to be in memory.
type fencedConn struct {
	net.Conn
	request atomic.Pointer[request]
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func fenced(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &fencedConn{Conn: c}, nil
	}
}

func (c *fencedConn) Write(p []byte) (int, error) {
	if q := c.request.Load(); q != nil && q.tooLate() {
		return 0, errTooLate
	}
	return c.Conn.Write(p)
}

// reader gives the body anew, as a type that http.Transport knows to be in memory.
func (q *request) reader() io.ReadCloser { return io.NopCloser(bytes.NewReader(q.body)) }

// fence makes the request's end that of what is sent through conn.
func (q *request) fence(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	conn.(*fencedConn).request.Store(q)
}

// post makes one exchange under ctx, its deadline included, and reads the
// response. It follows no redirect: http.Transport does not. Done of the
// Response is left to the caller.
func (t *transport) post(ctx context.Context, q request) Response {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { q.fence(got.Conn) }})
	header := http.Header{
		"Content-Type": {q.contentType},
		"Accept":       {"application/json"},
		"User-Agent":   {userAgent},
	}
	if q.apiKey != "" {
		header["X-Api-Key"] = []string{q.apiKey.Reveal()}
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: q.url, Host: q.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(q.body)),
		Body:          q.reader(),
		// The transport uses GetBody only where an idle connection turned out to be
		// closed before a byte of a POST was written: still one POST.
		GetBody: func() (io.ReadCloser, error) {
			if q.tooLate() {
				return nil, errTooLate // and not on every idle connection in turn
			}
			return q.reader(), nil
		},
	}).WithContext(ctx)
	rt := t.public
	if q.private {
		rt = t.private
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return Response{Failure: classify(ctx, err)}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		if resp.ContentLength >= 0 && resp.ContentLength <= maxIgnoredBody {
			// A short read keeps the connection for the next attempt.
			_, _ = io.CopyN(io.Discard, resp.Body, resp.ContentLength)
		}
		return Response{Status: resp.StatusCode}
	}
	if resp.ContentLength > maxResponseBody {
		return Response{Status: resp.StatusCode, Failure: ReasonTooLarge}
	}
	body, err := readBody(resp.Body, resp.ContentLength)
	switch {
	case err != nil:
		return Response{Status: resp.StatusCode, Failure: classify(ctx, err)}
	case len(body) > maxResponseBody:
		return Response{Status: resp.StatusCode, Failure: ReasonTooLarge}
	}
	return Response{Status: resp.StatusCode, Body: body}
}

// readBody reads up to one byte over the limit and no more.
func readBody(r io.Reader, length int64) ([]byte, error) {
	size := length + 1 // one more, so that the end is seen without growing
	if length < 0 {
		size = 1 << 10
	}
	body := make([]byte, 0, size)
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		room := min(cap(body), maxResponseBody+1)
		n, err := r.Read(body[len(body):room])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		case len(body) > maxResponseBody:
			return body, nil
		}
	}
}

// classify gives the reason for an error of an exchange. The error's own text goes
// nowhere: it holds addresses and what the merchant's server sent.
func classify(ctx context.Context, err error) Reason {
	var (
		dns       *net.DNSError
		op        *net.OpError
		alert     tls.AlertError
		record    tls.RecordHeaderError
		untrusted *tls.CertificateVerificationError
		timeout   interface{ Timeout() bool }
	)
	text := err.Error()
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedPort),
		errors.Is(err, ssrf.ErrProhibitedNetwork), errors.Is(err, ssrf.ErrInvalidHostPort):
		return ReasonBlockedAddress
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, errTooLate):
		return ReasonStopped
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return ReasonTimeout
	case errors.As(err, &dns):
		return ReasonResolve
	case errors.As(err, &timeout) && timeout.Timeout():
		return ReasonTimeout
	case errors.As(err, &untrusted), errors.As(err, &record), errors.As(err, &alert), strings.Contains(text, "tls: "),
		strings.Contains(text, "HTTP response to HTTPS"):
		return ReasonTLS
	case strings.Contains(text, "response headers exceeded"):
		return ReasonTooLarge
	case errors.As(err, &op) && op.Op == "dial":
		return ReasonConnect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed),
		strings.Contains(text, "server closed"), strings.HasSuffix(text, "unexpected EOF"):
		return ReasonClosed
	}
	return ReasonHTTP
}
