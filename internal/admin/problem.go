package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

func problem(status int, detail string, faults ...Detail) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: detail, Errors: faults}
}

// invalid is what a request with wrong members gets.
func invalid(faults ...Detail) *Problem {
	return problem(http.StatusUnprocessableEntity, "the request is not valid", faults...)
}

// faulty collects what is wrong with a request.
type faulty []Detail

func (f *faulty) add(location, message string) { *f = append(*f, Detail{location, message}) }

func (f faulty) err() error {
	if len(f) == 0 {
		return nil
	}
	return invalid(f...)
}

// statuses is the one table from errors to statuses; the first row that the
// error is wins. A row without words lets the error speak: such errors are
// made for the caller and hold no secret.
var statuses = []struct {
	is     error
	status int
	detail string
}{
	{store.ErrConflict, http.StatusConflict, ""},
	{store.ErrNotFound, http.StatusNotFound, "there is no such thing"},
	{store.ErrInvalid, http.StatusUnprocessableEntity, "the request holds what cannot be stored"},
	{store.ErrClosed, http.StatusServiceUnavailable, "the service is stopping"},
	{countersign.ErrMalformed, http.StatusUnprocessableEntity, "the request is not valid"},
	{errStopping, http.StatusServiceUnavailable, "the service is stopping"},
	{context.Canceled, http.StatusServiceUnavailable, "the request was given up"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "the service is too busy"},
}

var errStopping = errors.New("stopping")

// problemOf turns an error into what the caller is told. What is not in the
// table is a 500 that says nothing; the log has the cause.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return problem(http.StatusRequestEntityTooLarge, "", Detail{"body", fmt.Sprintf("is longer than %d bytes", tooLarge.Limit)})
	}
	for _, row := range statuses {
		if !errors.Is(err, row.is) {
			continue
		}
		p := problem(row.status, row.detail)
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
	return problem(http.StatusInternalServerError, "the service failed; its log says why")
}

// writeProblem answers with p. It needs no handler to have run.
func writeProblem(w http.ResponseWriter, p *Problem) {
	b, err := json.Marshal(p)
	if err != nil { // only strings and numbers: cannot be
		b = []byte(`{"title":"Internal Server Error","status":500}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(b, '\n'))
}
