package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// At makes a fault.
func At(location, message string) client.Fault {
	return client.Fault{Location: location, Message: message}
}

// NewProblem makes a Problem. Its words are shown to the caller.
func NewProblem(status int, detail string, faults ...client.Fault) *client.Problem {
	return &client.Problem{Title: http.StatusText(status), Status: status, Detail: detail, Faults: faults}
}

// Invalid makes the Problem of a request with wrong members.
func Invalid(faults ...client.Fault) *client.Problem {
	return NewProblem(http.StatusUnprocessableEntity, "the request is not valid", faults...)
}

// Faults collects what is wrong with a request.
type Faults []client.Fault

// Add notes one fault.
func (f *Faults) Add(location, message string) { *f = append(*f, At(location, message)) }

// Err returns the Problem of the faults, nil where there are none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return Invalid(f...)
}

// ErrStopping is the error of a handler that cannot answer because the end stops.
// It gives a 503 that is not logged as a failure.
var ErrStopping = errors.New("stopping")

const noSuchThing = "there is no such thing"

// statuses is the one table from errors to statuses; the first row that matches
// decides. A row without a detail shows the error's own text to the caller: such
// errors hold no secret. END stands for Config.Self.
var statuses = []struct {
	is     error
	status int
	detail string
}{
	{db.ErrConflict, http.StatusConflict, ""},
	{db.ErrNotFound, http.StatusNotFound, noSuchThing},
	{db.ErrPurged, http.StatusGone, ""},
	{db.ErrInvalid, http.StatusUnprocessableEntity, "the request holds a value that cannot be stored"},
	{db.ErrClosed, http.StatusServiceUnavailable, "END is stopping"},
	{db.ErrFull, http.StatusInsufficientStorage, "the disk of END's database is full; repeat the request when it has room"},
	{db.ErrUnavailable, http.StatusServiceUnavailable, "END cannot use its database; repeat the request"},
	{countersign.ErrMalformed, http.StatusUnprocessableEntity, "the request is not valid"},
	{ErrStopping, http.StatusServiceUnavailable, "END is stopping"},
	{context.Canceled, http.StatusServiceUnavailable, "the request was cancelled"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "END is too busy"},
}

// ProblemOf returns the Problem that the caller sees. An error that is not in the
// table is a 500 without its cause; the log has the cause.
func (a *API) ProblemOf(err error) *client.Problem {
	var p *client.Problem
	if errors.As(err, &p) {
		return p
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return NewProblem(http.StatusRequestEntityTooLarge, "", At("body", fmt.Sprintf("is longer than %d bytes", tooLarge.Limit)))
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
		if errors.Is(err, context.DeadlineExceeded) {
			p.RetryAfter = time.Second
		}
		var conflict *db.ConflictError
		var member *countersign.MemberError
		switch {
		case errors.As(err, &conflict):
			p.Detail, p.Code = conflict.Error(), conflict.Code
			if conflict.Member != "" {
				p.Faults = []client.Fault{At("body."+conflict.Member, conflict.Reason)}
			}
		case errors.As(err, &member):
			p.Faults = []client.Fault{At("body."+member.Member, member.Problem)}
		case p.Detail == "":
			p.Detail = err.Error()
		}
		return p
	}
	return NewProblem(http.StatusInternalServerError, a.c.Self+" failed; its log says why")
}

// WriteProblem answers with p.
func WriteProblem(w http.ResponseWriter, p *client.Problem) {
	var b bytes.Buffer
	if err := EncodeJSON(&b, p); err != nil { // cannot fail: p holds only texts and numbers
		b.Reset()
		b.WriteString(`{"title":"Internal Server Error","status":500}`)
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	writeHeader(w, p.Status, typeProblem)
	_, _ = w.Write(b.Bytes()) // the caller is gone
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
