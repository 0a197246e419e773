package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"countersign/client"
)

// The exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// statusError ends the command with its own exit status.
type statusError struct {
	error
	status int
}

func (e statusError) Unwrap() error { return e.error }

// hintedError is an error with a hint on what to try.
type hintedError struct {
	err   error
	hints []string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

// explain adds what to try to errors that new users meet.
func explain(called string, err error) error {
	var p *client.Problem
	switch {
	case called == "":
	case errors.As(err, &p) && slices.ContainsFunc(p.Faults,
		func(f client.Fault) bool { return f.Location == "body.role" }):
		return &hintedError{err, []string{fmt.Sprintf(
			"roles of the service: %s. Roles of the gateway, with --gateway: %s; it has one merchant.",
			client.ValuesAt[client.Role](client.AtService), client.ValuesAt[client.Role](client.AtGateway))}}
	case errors.Is(err, client.ErrUnauthorized):
		return &hintedError{err, []string{"the token is not of this API, or was revoked: give --token or --data."}}
	case errors.As(err, &p) && p.Status == http.StatusNotFound && p.Detail == "there is no such path":
		return &hintedError{err, []string{fmt.Sprintf("--api %s may be the other end's API.", called)}}
	case errors.As(err, &p) && p.Status == http.StatusNotFound:
		return &hintedError{err, []string{"countersign search TEXT has the ids of what another identifier names; a callback's, callbacks list trackingId=TEXT."}}
	case errors.Is(err, http.ErrSchemeMismatch):
		return &hintedError{err, []string{fmt.Sprintf("the API at %s has no TLS: give --api http://…", called)}}
	case errors.As(err, &p) && p.Status == http.StatusBadRequest && p.Detail == "" && strings.HasPrefix(called, "http:"):
		return &hintedError{err, []string{fmt.Sprintf("the API at %s may have TLS: give --api https://…", called)}}
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return &hintedError{err, []string{"this machine does not know the authority of the API's certificate: give --ca FILE with it, or --data with the data directory of the daemon."}}
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return &hintedError{err, []string{fmt.Sprintf(
			"the certificate of %s is not right for this address; --api names another.", called)}}
	case errors.Is(err, client.ErrUnavailable) && !errors.As(err, &p):
		return &hintedError{err, []string{fmt.Sprintf("nothing answers at %s: is it running, and is --api right?", called)}}
	}
	return err
}

// report writes the error that ends the command. With asJSON it writes a log line, because whoever collects a daemon's
// log as JSON reads nothing else.
func report(w io.Writer, asJSON bool, err error) {
	var h *hintedError
	if !errors.As(err, &h) {
		h = new(hintedError)
	}
	if asJSON {
		log := slog.New(slog.NewJSONHandler(w, nil))
		log.Error("stopped by an error", "error", plainly(err), "try", h.hints)
		return
	}
	fmt.Fprintf(w, "countersign: %s\n", plainly(err))
	for _, hint := range h.hints {
		fmt.Fprintf(w, "  try: %s\n", hint)
	}
}

// plainly returns the text of an error. For errors of encoding/json it names the member and the value, and no Go type.
func plainly(err error) string {
	text := err.Error()
	if kind := new(json.UnmarshalTypeError); errors.As(err, &kind) {
		came, _, _ := strings.Cut(kind.Value, " ") // the value itself follows a number
		text = strings.Replace(text, kind.Error(), fmt.Sprintf("%s: the type %s is not allowed here",
			cmp.Or(kind.Field, "all of it"), came), 1)
	}
	return strings.ReplaceAll(strings.TrimPrefix(text, "json: "), " json: ", " ") // a file's name may end with json
}
