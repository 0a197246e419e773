package gateway

import (
	"bytes"
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
	Title  string  `json:"title" doc:"the status in words"`
	Status int     `json:"status" minimum:"400" maximum:"599"`
	Detail string  `json:"detail,omitempty" doc:"what is wrong"`
	Errors []Fault `json:"errors,omitempty" nullable:"false" doc:"the members at fault"`
}

// Fault names one fault of a request.
type Fault struct {
	Location string `json:"location" doc:"where: body, query, path or header, then the member, such as body.amount"`
	Message  string `json:"message" doc:"what is wrong with it"`
}

func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", p.Status, p.Title)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for i, f := range p.Errors {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + f.Location + " " + f.Message)
	}
	return b.String()
}

// Is makes the errors of the store comparable across the wire: a 404 is
// store.ErrNotFound and a 409 is store.ErrConflict.
func (p *Problem) Is(target error) bool {
	return target == store.ErrNotFound && p.Status == http.StatusNotFound ||
		target == store.ErrConflict && p.Status == http.StatusConflict
}

func problem(status int, detail string, faults ...Fault) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: detail, Errors: faults}
}

// invalid is what a request with wrong members gets.
func invalid(faults ...Fault) *Problem {
	return problem(http.StatusUnprocessableEntity, "the request is not valid", faults...)
}

var (
	errToken    = problem(http.StatusUnauthorized, "a valid token is needed: Authorization: Bearer TOKEN")
	errStopping = errors.New("stopping")
)

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
	{store.ErrInvalid, http.StatusUnprocessableEntity, "the request is not valid"},
	{store.ErrClosed, http.StatusServiceUnavailable, "the gateway is stopping"},
	{countersign.ErrMalformed, http.StatusUnprocessableEntity, "the request is not valid"},
	{errStopping, http.StatusServiceUnavailable, "the gateway is stopping"},
	{context.Canceled, http.StatusServiceUnavailable, "the request was given up"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "the gateway is too busy"},
}

// problemOf turns an error into what the caller is told. What is not in the
// table is a 500 that says nothing; the log has the cause.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	for _, row := range statuses {
		if !errors.Is(err, row.is) {
			continue
		}
		p := problem(row.status, row.detail)
		var conflict *store.ConflictError
		var item *store.ItemError
		var member *countersign.MemberError
		switch {
		case errors.As(err, &conflict):
			p.Detail = conflict.Error()
			if conflict.Member != "" {
				p.Errors = []Fault{{"body." + conflict.Member, conflict.Reason}}
			}
		case errors.As(err, &item) && item.Member != "":
			p.Errors = []Fault{{"body." + item.Member, strings.TrimPrefix(item.Error(), item.Member+" ")}}
		case errors.As(err, &member):
			p.Errors = []Fault{{"body." + member.Member, member.Problem}}
		case p.Detail == "":
			p.Detail = err.Error()
		}
		return p
	}
	return problem(http.StatusInternalServerError, "the gateway failed; its log says why")
}

// writeProblem answers with p. It needs no handler to have run.
func writeProblem(w http.ResponseWriter, p *Problem) {
	b, err := encodeJSON(p)
	if err != nil { // only strings and numbers: cannot be
		b = []byte(`{"title":"Internal Server Error","status":500}`)
	}
	writeBody(w, p.Status, "application/problem+json", b)
}

func writeBody(w http.ResponseWriter, status int, mediaType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // nobody is left to be told
}

// encodeJSON writes v and a line feed, leaving <, > and & as they are.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
