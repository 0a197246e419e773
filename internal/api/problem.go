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
	"regexp"
	"strconv"
	"strings"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// At returns a fault.
func At(location, message string) client.Fault {
	return client.Fault{Location: location, Message: message}
}

// NewProblem returns a Problem. The caller of the API sees its texts.
func NewProblem(status int, detail string, faults ...client.Fault) *client.Problem {
	return &client.Problem{Title: http.StatusText(status), Status: status, Detail: detail, Faults: faults}
}

// Invalid returns the Problem of a request with wrong members.
func Invalid(faults ...client.Fault) *client.Problem {
	return NewProblem(http.StatusUnprocessableEntity, "the request is not valid", faults...)
}

// Faults lists what is wrong with a request.
type Faults []client.Fault

// Add adds a fault.
func (f *Faults) Add(location, message string) { *f = append(*f, At(location, message)) }

// Err returns the Problem of the faults. It returns nil if there are none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return Invalid(f...)
}

// ErrStopping is returned by a handler that cannot answer because the end is stopping. The answer is a 503 that is
// not logged as a failure.
var ErrStopping = errors.New("stopping")

const typeProblem = "application/problem+json"

const noSuchThing = "there is no such thing"

// statuses maps errors to statuses. The first row that matches decides. A row without a detail shows the error's own
// text to the caller, so such errors must hold no secret. END stands for Config.Self.
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
	{db.ErrFull, http.StatusInsufficientStorage,
		"the disk of END's database is full; repeat the request when it has room"},
	{db.ErrUnavailable, http.StatusServiceUnavailable, "END cannot use its database; repeat the request"},
	{countersign.ErrMalformed, http.StatusUnprocessableEntity, "the request is not valid"},
	{ErrStopping, http.StatusServiceUnavailable, "END is stopping"},
	{context.Canceled, http.StatusServiceUnavailable, "the request was cancelled"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "END is too busy"},
}

// ProblemOf returns the Problem that the caller sees for err. An error that is not in the table of statuses becomes a
// 500 without its cause, which only the log has.
func (a *API) ProblemOf(err error) *client.Problem {
	var p *client.Problem
	if errors.As(err, &p) {
		return p
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return NewProblem(http.StatusRequestEntityTooLarge, "",
			At("body", fmt.Sprintf("is longer than %d bytes", tooLarge.Limit)))
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
		var item *db.ItemError
		switch {
		case errors.As(err, &conflict):
			p.Detail, p.Code = conflict.Error(), conflict.Code
			if conflict.Member != "" {
				p.Faults = []client.Fault{At("body."+conflict.Member, conflict.Reason)}
			}
		case errors.As(err, &member):
			p.Faults = []client.Fault{At("body."+member.Member, member.Problem)}
		case errors.As(err, &item) && item.Member != "":
			p.Faults = []client.Fault{At("body."+item.Member, strings.TrimPrefix(item.Error(), item.Member+" "))}
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
	_, _ = w.Write(b.Bytes()) // fails only if the caller is gone
}

// writeHeader begins an answer with a body.
func writeHeader(w http.ResponseWriter, status int, mediaType string) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
}

// EncodeJSON writes v and a line feed. It does not escape <, > and &.
func EncodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

var idText = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// busy returns a 503 for a cause that may pass within a second.
func busy(detail string) *client.Problem {
	p := NewProblem(http.StatusServiceUnavailable, detail)
	p.RetryAfter = time.Second
	return p
}
