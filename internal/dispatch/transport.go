package dispatch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/web"
)

// Limits of one exchange (PROTOCOL.md, HTTP).
const (
	maxResponseBody   = countersign.MaxMessage // bytes
	maxResponseHeader = 16 << 10               // bytes
	maxIgnoredBody    = 4 << 10                // bytes read to keep a connection after a status other than 200
	connectTimeout    = 5 * time.Second
	tlsTimeout        = 5 * time.Second
	idleTimeout       = 90 * time.Second
	idlePerHost       = 256
)

// userAgent names the sender without its version, which could help an attacker.
const userAgent = "countersign"

// transport makes exchanges with merchants. It has two connection pools, so that merchants that may be on private
// networks never share a connection with others.
type transport struct {
	public, private *http.Transport
}

// newTransport returns the transport for both kinds of merchants, those that p allows to be on private networks and the
// others. Nil roots are the system's, and a nil dial is the network's. It keeps up to idle unused connections open.
func newTransport(p TargetRules, roots *x509.CertPool, dial dialFunc, idle int) *transport {
	public, private := p, p
	public.AllowPrivate, private.AllowPrivate = false, true
	t := &transport{public: roundTripper(public, roots), private: roundTripper(private, roots)}
	if dial != nil {
		t.public.DialContext, t.private.DialContext = fenced(dial), fenced(dial)
	}
	t.public.MaxIdleConns, t.private.MaxIdleConns = max(1, idle/2), max(1, idle/2)
	return t
}

func roundTripper(p TargetRules, roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second, Control: dialControl(p)}
	// HTTP/1.1 alone: with HTTP/2 a lost packet, or a server that abuses flow control, would block all exchanges of a
	// connection, and such small exchanges gain nothing from sharing one.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // a proxy would resolve names itself, unchecked
		DialContext:            fenced(dialer.DialContext),
		Protocols:              &protocols,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    tlsTimeout,
		ExpectContinueTimeout:  0,
		MaxResponseHeaderBytes: maxResponseHeader,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true, // so that 64 KiB stay 64 KiB
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
	private     bool // the merchant may be on a private network
	contentType string
	apiKey      countersign.APIKey // X-API-KEY; empty: none
	signature   http.Header        // of the signed link; nil: none
	body        []byte
	tooLate     func() bool   // reports whether nothing more of it may be sent
	phase       *atomic.Int32 // a phase; post sets it
}

// errTooLate ends a request before all of it is sent.
var errTooLate = errors.New("too late to send")

// fencedConn is a connection to a merchant that sends nothing more when it is too late for its request. The context's
// deadline is not enough: after a process was stopped or a machine slept, it may write before any timer fires, although
// another node has claimed the callback meanwhile. (It can still be stopped between the look at the clock and the
// write: see the package comment.) The body's reader could check this too, but then http.Transport would send the
// header in a packet of its own.
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

// reader returns a new reader of the body, of a type that http.Transport knows to be in memory.
func (q *request) reader() io.ReadCloser { return io.NopCloser(bytes.NewReader(q.body)) }

// fence makes conn refuse to send when it is too late for q.
func (q *request) fence(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	conn.(*fencedConn).request.Store(q)
}

// post makes one exchange within ctx's deadline and reads the response. It follows no redirect, because http.Transport
// does not. The caller sets Response.Done.
func (t *transport) post(ctx context.Context, q request) Response {
	q.phase = new(atomic.Int32)
	ctx = q.trace(ctx)
	header := http.Header{
		"Content-Type": {q.contentType},
		"Accept":       {"application/json"},
		"User-Agent":   {userAgent},
	}
	if q.apiKey != "" {
		header["X-Api-Key"] = []string{q.apiKey.Reveal()}
	}
	maps.Copy(header, q.signature) // its Content-Type is the same
	req := (&http.Request{
		Method: http.MethodPost, URL: q.url, Host: q.url.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(q.body)),
		Body:          q.reader(),
		// The transport uses GetBody only if an idle connection was closed before a byte of the POST was written, so
		// there is still one POST.
		GetBody: func() (io.ReadCloser, error) {
			if q.tooLate() {
				return nil, errTooLate // so that it does not try every idle connection
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
		return q.failed(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		// Reading a short body whole keeps the connection for the next attempt.
		page, _ := io.ReadAll(io.LimitReader(resp.Body, maxIgnoredBody))
		return Response{Status: resp.StatusCode, Page: page, Location: resp.Header.Get("Location")}
	}
	tooLarge := Response{Status: http.StatusOK, Failure: client.ReasonTooLarge,
		Cause: fmt.Sprintf("the body is longer than %d bytes", maxResponseBody)}
	if resp.ContentLength > maxResponseBody {
		return tooLarge
	}
	body, err := web.ReadBody(resp.Body, resp.ContentLength, maxResponseBody, nil)
	switch {
	case errors.Is(err, web.ErrTooLong):
		return tooLarge
	case err != nil:
		q.reached(phaseBody)
		r := q.failed(ctx, err)
		r.Status = resp.StatusCode
		return r
	}
	r := Response{Status: resp.StatusCode, Body: body.Bytes, Encoding: web.Encoding(resp.Header)}
	if q.signature != nil {
		r.Header = envelope.LinkHeaders(resp.Header)
	}
	return r
}

// classify returns the reason for an error of an exchange. The error's text is never shown: it holds addresses and what
// the merchant's server sent.
func classify(ctx context.Context, err error) client.Reason {
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
	// By the text too: the resolver's errors do not wrap their cause.
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), strings.Contains(text, syscall.EMFILE.Error()):
		return client.ReasonOpenFiles
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedPort),
		errors.Is(err, ssrf.ErrProhibitedNetwork), errors.Is(err, ssrf.ErrInvalidHostPort):
		return client.ReasonBlockedAddress
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, errTooLate):
		return client.ReasonStopped
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return client.ReasonTimeout
	case errors.As(err, &dns):
		return client.ReasonResolve
	case errors.As(err, &timeout) && timeout.Timeout():
		return client.ReasonTimeout
	case errors.As(err, &untrusted), errors.As(err, &record), errors.As(err, &alert), strings.Contains(text, "tls: "),
		strings.Contains(text, "HTTP response to HTTPS"):
		return client.ReasonTLS
	case strings.Contains(text, "response headers exceeded"):
		return client.ReasonTooLarge
	case errors.As(err, &op) && op.Op == "dial":
		return client.ReasonConnect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed),
		strings.Contains(text, "server closed"), strings.HasSuffix(text, "unexpected EOF"):
		return client.ReasonClosed
	}
	return client.ReasonHTTP
}
