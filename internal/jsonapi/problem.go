package jsonapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"countersign"
	"countersign/internal/store"
)

// Problem is an answer that says what went wrong, in the form of RFC 9457
// (application/problem+json). The client gives it as an error.
type Problem struct {
	Title  string   `json:"title" doc:"the status in words"`
	Status int      `json:"status" minimum:"400" maximum:"599"`
	Detail string   `json:"detail,omitempty" doc:"what is wrong"`
	Errors []Detail `json:"errors,omitempty" nullable:"false" doc:"the members at fault, with their items where there are several"`
}

// Detail names one fault of a request.
type Detail struct {
	Location string `json:"location" doc:"where: body, query, path or header, then the member, such as body[3].amount"`
	Message  string `json:"message" doc:"what is wrong with it"`
}

// At makes a Detail.
func At(location, message string) Detail { return Detail{location, message} }

func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", p.Status, p.Title)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for i, e := range p.Errors {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + e.Location + " " + e.Message)
	}
	return b.String()
}

// Is makes the errors of the store comparable across the wire: a 404 is
// store.ErrNotFound and a 409 is store.ErrConflict.
func (p *Problem) Is(target error) bool {
	return target == store.ErrNotFound && p.Status == http.StatusNotFound ||
		target == store.ErrConflict && p.Status == http.StatusConflict
}

// NewProblem makes a Problem. Its words are shown to the caller.
func NewProblem(status int, detail string, faults ...Detail) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: detail, Errors: faults}
}

// Invalid is what a request with wrong members gets.
func Invalid(faults ...Detail) *Problem {
	return NewProblem(http.StatusUnprocessableEntity, "the request is not valid", faults...)
}

// Faults collects what is wrong with a request.
type Faults []Detail

// Add notes one fault.
func (f *Faults) Add(location, message string) { *f = append(*f, Detail{location, message}) }

// Err gives the Problem of the faults, nil where there are none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return Invalid(f...)
}

// ErrStopping is for handlers that have nothing to say because the end stops:
// a 503 that is no failure.
var ErrStopping = errors.New("stopping")

// statuses is the one table from errors to statuses; the first row that the
// error is wins. A row without words lets the error speak: such errors are
// made for the caller and hold no secret. END is the end's own name.
var statuses = []struct {
	is     error
	status int
	detail string
}{
	{store.ErrConflict, http.StatusConflict, ""},
	{store.ErrNotFound, http.StatusNotFound, "there is no such thing"},
	{store.ErrInvalid, http.StatusUnprocessableEntity, "the request holds what cannot be stored"},
	{store.ErrClosed, http.StatusServiceUnavailable, "END is stopping"},
	{store.ErrUnavailable, http.StatusServiceUnavailable, "END cannot reach its database; repeat the request"},
	{countersign.ErrMalformed, http.StatusUnprocessableEntity, "the request is not valid"},
	{ErrStopping, http.StatusServiceUnavailable, "END is stopping"},
	{context.Canceled, http.StatusServiceUnavailable, "the request was given up"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "END is too busy"},
}

// ProblemOf turns an error into what the caller is told. What is not in the
// table is a 500 that says nothing; the log has the cause.
func (a *API) ProblemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return NewProblem(http.StatusRequestEntityTooLarge, "", Detail{"body", fmt.Sprintf("is longer than %d bytes", tooLarge.Limit)})
	}
	if a.c.ProblemOf != nil {
		if p := a.c.ProblemOf(err); p != nil {
			return p
		}
	}
	for _, row := range statuses {
		if !errors.Is(err, row.is) {
			continue
		}
		p := NewProblem(row.status, strings.Replace(row.detail, "END", a.c.Self, 1))
		var conflict *store.ConflictError
		var member *countersign.MemberError
		switch {
		case errors.As(err, &conflict):
			p.Detail = conflict.Error()
			if conflict.Member != "" {
				p.Errors = []Detail{{"body." + conflict.Member, conflict.Reason}}
			}
		case errors.As(err, &member):
			p.Errors = []Detail{{"body." + member.Member, member.Problem}}
		case p.Detail == "":
			p.Detail = err.Error()
		}
		return p
	}
	return NewProblem(http.StatusInternalServerError, a.c.Self+" failed; its log says why")
}

// WriteProblem answers with p. It needs no handler to have run.
func WriteProblem(w http.ResponseWriter, p *Problem) {
	var b bytes.Buffer
	if err := EncodeJSON(&b, p); err != nil { // only strings and numbers: cannot be
		b.Reset()
		b.WriteString(`{"title":"Internal Server Error","status":500}`)
	}
	writeHeader(w, p.Status, typeProblem)
	_, _ = w.Write(b.Bytes()) // nobody is left to be told
}

// writeHeader begins an answer with a body.
func writeHeader(w http.ResponseWriter, status int, mediaType string) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
}

// EncodeJSON writes v and a line feed, leaving <, > and & as they are.
func EncodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
