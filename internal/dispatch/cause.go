package dispatch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"

	"countersign/client"

	"code.dny.dev/ssrf"
)

// phase is the last step that an exchange has reached.
type phase int32

const (
	phaseName phase = iota
	phaseConnect
	phaseTLS
	phaseAnswer
	phaseHeader
	phaseBody
)

var phases = [...]string{"while its name was looked up", "while connecting", "in the TLS handshake",
	"before a response came", "in the header of the response", "in the body of the response"}

// reached notes a phase. It never goes back: connections are made in parallel with the exchange, which may use another
// one.
func (q *request) reached(p phase) {
	for at := q.phase.Load(); at < int32(p) && !q.phase.CompareAndSwap(at, int32(p)); at = q.phase.Load() {
	}
}

// trace returns a context whose trace notes the phases of q.
func (q *request) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectStart:      func(string, string) { q.reached(phaseConnect) },
		TLSHandshakeStart: func() { q.reached(phaseTLS) },
		GotConn: func(got httptrace.GotConnInfo) {
			q.fence(got.Conn)
			q.reached(phaseAnswer)
		},
		GotFirstResponseByte: func() { q.reached(phaseHeader) },
	})
}

// failed returns the Response of an exchange that ended with err.
func (q *request) failed(ctx context.Context, err error) Response {
	r := Response{}
	r.Failure, r.Cause = classify(ctx, err)
	if r.Failure == client.ReasonTimeout || r.Failure == client.ReasonClosed {
		r.Cause += " " + phases[q.phase.Load()]
	}
	return r
}

// classify returns the reason for an error of an exchange, and a text of it for people. The error's own text is never
// shown: it holds addresses and what the merchant's server sent.
func classify(ctx context.Context, err error) (reason client.Reason, cause string) {
	var (
		dns       *net.DNSError
		op        *net.OpError
		alert     tls.AlertError
		record    tls.RecordHeaderError
		untrusted *tls.CertificateVerificationError
		timeout   interface{ Timeout() bool }
	)
	const late = "the time ran out"
	text := err.Error()
	switch {
	// By the text too: the resolver's errors do not wrap their cause.
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), strings.Contains(text, syscall.EMFILE.Error()):
		return client.ReasonOpenFiles, ""
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedPort),
		errors.Is(err, ssrf.ErrProhibitedNetwork), errors.Is(err, ssrf.ErrInvalidHostPort):
		return client.ReasonBlockedAddress, "the host's address is not one that the service may call"
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, errTooLate):
		return client.ReasonStopped, ""
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return client.ReasonTimeout, late
	case errors.As(err, &dns) && dns.IsNotFound:
		return client.ReasonResolve, "the name server knows no such host"
	case errors.As(err, &dns) && dns.IsTimeout:
		return client.ReasonResolve, "the name server did not answer"
	case errors.As(err, &dns):
		return client.ReasonResolve, "the name server failed"
	case errors.As(err, &timeout) && timeout.Timeout():
		return client.ReasonTimeout, late
	case errors.As(err, &untrusted), errors.As(err, &record), errors.As(err, &alert), strings.Contains(text, "tls: "),
		strings.Contains(text, "HTTP response to HTTPS"):
		return client.ReasonTLS, tlsCause(err)
	case strings.Contains(text, "response headers exceeded"):
		return client.ReasonTooLarge, fmt.Sprintf("the header is longer than %d bytes", maxResponseHeader)
	case errors.Is(err, syscall.ECONNREFUSED):
		return client.ReasonConnect, "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH):
		return client.ReasonConnect, "no route to the host"
	case errors.Is(err, syscall.ENETUNREACH):
		return client.ReasonConnect, "no route to the network"
	case errors.As(err, &op) && op.Op == "dial":
		return client.ReasonConnect, "no connection"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed),
		strings.Contains(text, "server closed"), strings.HasSuffix(text, "unexpected EOF"):
		return client.ReasonClosed, "the connection was closed"
	}
	return client.ReasonHTTP, "the response is not HTTP/1.1"
}

// tlsCause returns why no trusted session came about. The texts of certificates are the server's: whoever shows them
// cleans them.
func tlsCause(err error) string {
	var (
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
		alert   tls.AlertError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the certificate is valid only from %s to %s",
			invalid.Cert.NotBefore.UTC().Format(http.TimeFormat), invalid.Cert.NotAfter.UTC().Format(http.TimeFormat))
	case errors.As(err, &invalid):
		return "the certificate is not valid"
	case errors.As(err, &name):
		names := name.Certificate.DNSNames
		for _, ip := range name.Certificate.IPAddresses {
			names = append(names[:len(names):len(names)], ip.String())
		}
		return fmt.Sprintf("the certificate is for %s and not for %s",
			strings.Join(names[:min(len(names), 3)], ", "), name.Host)
	case errors.As(err, &unknown) && unknown.Cert != nil:
		return "the certificate is signed by an unknown authority, or an intermediate certificate is missing: " +
			unknown.Cert.Issuer.String()
	case errors.As(err, &alert):
		return alert.Error()
	case strings.Contains(err.Error(), "HTTP response to HTTPS"),
		strings.Contains(err.Error(), "does not look like a TLS handshake"):
		return "the server there does not speak TLS"
	}
	return "the TLS handshake failed"
}
