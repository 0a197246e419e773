package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The sentinels for errors.Is. The status of a *Problem determines which of them it
// is.
var (
	// ErrInvalid: the request is wrong (status 400, 413, 415 or 422). The
	// Problem names the members at fault. Repeating it changes nothing.
	ErrInvalid = errors.New("the request is not valid")
	// ErrUnauthorized: the token is missing or not valid (401).
	ErrUnauthorized = errors.New("the token is not valid")
	// ErrForbidden: the token's role does not allow the call, or the token ordered
	// the withdrawal that it would approve (403).
	ErrForbidden = errors.New("the token may not do this")
	// ErrNotFound: there is no such thing (404).
	ErrNotFound = errors.New("not found")
	// ErrPurged: it is older than what is kept (410); Problem.Detail says what is known of it.
	ErrPurged = errors.New("purged")
	// ErrConflict: the request conflicts with the present state (409), such as
	// other content under the same identifier, or a permit that another holder has.
	ErrConflict = errors.New("conflict")
	// ErrTooMany: the token made more calls than it may, or the address made too many
	// without a valid token (429). The Problem
	// says when to try again.
	ErrTooMany = errors.New("too many requests")
	// ErrUnavailable: this end cannot be reached, or cannot work at the moment (502,
	// 503, 504, or 507 if the disk of its database is full). Repeat the call later; it
	// may have been carried out.
	ErrUnavailable = errors.New("unavailable")
)

// Problem describes an error in the form of RFC 9457 (application/problem+json). It
// is the error of every call whose answer has an error status.
type Problem struct {
	Title  string  `json:"title" doc:"the status in words"`
	Status int     `json:"status" minimum:"400" maximum:"599" doc:"the HTTP status, 400 to 599"`
	Detail string  `json:"detail,omitempty" doc:"what is wrong, as a sentence for people"`
	Code   string  `json:"code,omitempty" doc:"a fixed word for programs, where the status does not say it: awaiting_approval, of a release that a person must approve first; sign_in_again, of a person whose last sign-in is older than five minutes"`
	Faults []Fault `json:"errors,omitempty" nullable:"false" doc:"the members at fault, at most 20"`

	// RetryAfter is how long to wait before the next call, in whole seconds,
	// where the answer says so; else 0.
	RetryAfter time.Duration `json:"-"`
}

// CodeSignInAgain is the Code of a refusal of an act that moves money: the person must first sign in at the identity
// provider again.
const CodeSignInAgain = "sign_in_again"

// CodeAwaitingApproval is the Code of the conflict of a release that a person must approve first.
const CodeAwaitingApproval = "awaiting_approval"

// Fault names one member of a request that is wrong.
type Fault struct {
	Location string `json:"location" doc:"body, query, path or header, then the member, such as body.amount or, in an array, body[3].amount"`
	Message  string `json:"message" doc:"what is wrong with it; it never repeats the value"`
}

func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", p.Status, p.Title)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	separator := ": "
	for _, f := range p.Faults {
		_, member, _ := strings.Cut(f.Location, ".")
		if p.Detail == member+" "+f.Message {
			continue // Detail says it
		}
		b.WriteString(separator + f.Location + " " + f.Message)
		separator = "; "
	}
	return b.String()
}

// sentinels are the errors of this package by the statuses of problems.
var sentinels = map[int]error{
	http.StatusBadRequest: ErrInvalid, http.StatusRequestEntityTooLarge: ErrInvalid,
	http.StatusUnsupportedMediaType: ErrInvalid, http.StatusUnprocessableEntity: ErrInvalid,
	http.StatusUnauthorized: ErrUnauthorized, http.StatusForbidden: ErrForbidden, http.StatusNotFound: ErrNotFound,
	http.StatusGone: ErrPurged, http.StatusConflict: ErrConflict, http.StatusTooManyRequests: ErrTooMany,
	http.StatusBadGateway: ErrUnavailable, http.StatusServiceUnavailable: ErrUnavailable,
	http.StatusGatewayTimeout: ErrUnavailable, http.StatusInsufficientStorage: ErrUnavailable,
}

// Is reports whether target is the sentinel of this package for the status of p.
func (p *Problem) Is(target error) bool { return target != nil && target == sentinels[p.Status] }

// readProblem returns the error of a response. For a response of something else, such
// as a proxy, the error holds only its status.
func readProblem(resp *http.Response) error {
	p := &Problem{}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if mediaType == "application/problem+json" {
		_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(p)
	}
	p.Status = resp.StatusCode
	if p.Title == "" {
		p.Title = http.StatusText(resp.StatusCode)
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
