package dispatch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/web"
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
