package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/web"
)

// Call is one request while it is handled.
type Call struct {
	W      *Recorder
	R      *http.Request
	Now    db.Millis // when the request arrived, including its body
	Token  Token     // the caller's, once admitted
	Status int       // of success; a handler may change it
	Items  int       // how many items were accepted, for the log

	a        *API
	rt       *Endpoint
	merchant string // the merchant it is about, for the log
	deadline bool   // Follow has set one for writing the answer
	body     web.Body
	endRead  func() // ends the turn of a call that reads; see beginRead
	traces   int    // how often Trace was called; trace is from the last call
	trace    string
}

// Trace notes which callback, withdrawal or order the call is about, for the log. Orders and withdrawals have a
// callBackID; everything else has only a trackingID.
func (c *Call) Trace(callBackID, trackingID string) {
	c.traces, c.trace = c.traces+1, countersign.TraceID(callBackID, trackingID)
}

// Endpoint returns the route of the call.
func (c *Call) Endpoint() *Endpoint { return c.rt }

// Concerns notes the merchant whose data the call is about. If they differ, the log says "several".
func (c *Call) Concerns(merchant string) {
	switch c.merchant {
	case "", merchant:
		c.merchant = merchant
	default:
		c.merchant = "several"
	}
}

// Vote returns what the caller says now about a thing: the reason of an approval, or a note.
func (c *Call) Vote(text string) db.Vote {
	return db.Vote{Token: c.Token.ID, Name: c.Token.Name, At: c.Now, Text: text}
}

// PathID returns the id in the path. If the path has MERCHANT/NAME, it returns the id of that thing. It returns
// db.ErrNotFound if the text cannot be an id.
func (c *Call) PathID() (string, error) {
	id := c.R.PathValue("id")
	if merchant, name, is := strings.Cut(id, "/"); is && c.a.c.Called != nil {
		return c.a.c.Called(c, merchant, name)
	}
	if !idText.MatchString(id) {
		return "", db.ErrNotFound
	}
	return id, nil
}

// PathSeq returns the number in the path. It returns db.ErrNotFound if the text is not a number of at least 1.
func (c *Call) PathSeq() (int64, error) {
	n, err := strconv.ParseInt(c.R.PathValue("seq"), 10, 64)
	if err != nil || n <= 0 {
		return 0, db.ErrNotFound
	}
	return n, nil
}

// mediaType returns the content type of the request without its parameters. It returns "" if the header is malformed
// or names a charset other than UTF-8.
func (c *Call) mediaType() string {
	t, params, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if cs := params["charset"]; err != nil || cs != "" && !strings.EqualFold(cs, "utf-8") {
		return ""
	}
	return t
}

// errBodies is the problem of a body that exceeds the budget of all bodies.
var errBodies = busy("too many request bodies are being read; repeat the request later")

// shortBody is the longest body, in bytes, of a call that needs no token or is urgent.
const shortBody = 16 << 10

// room returns the longest body that the route takes, in bytes, and the budget it is charged to.
func (rt *Endpoint) room() (limit int64, budget *web.Budget) {
	limit, of := rt.a.c.MaxBody, rt.a.c.Bodies
	switch {
	case rt.open():
		return min(limit, shortBody), of.Strangers
	case rt.urgent:
		return min(limit, shortBody), of.Urgent
	}
	return limit, of.Callers
}

// readBody reads, checks and decodes the body into the value that v points to.
func (c *Call) readBody(v any) error {
	if isNone(c.rt.in) && c.R.Method == http.MethodGet {
		return nil
	}
	if compressed := web.Encoding(c.R.Header); compressed != "" {
		return NewProblem(http.StatusUnsupportedMediaType, "",
			At("header.Content-Encoding", "is "+compressed+": "+web.NotCompressed))
	}
	limit, budget := c.rt.room()
	if c.R.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	var err error
	c.body, err = web.ReadBody(http.MaxBytesReader(c.W, c.R.Body, limit), c.R.ContentLength, int(limit), budget)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
	case errors.As(err, &tooLarge):
		return err
	case errors.Is(err, web.ErrBudget):
		return errBodies
	default:
		return NewProblem(http.StatusBadRequest, "the body could not be read")
	}
	// The body may have taken long to arrive, and the token may have ended meanwhile. Now is set after the body, so
	// that the times in the audit log rise with the record numbers.
	if err := c.checkToken(false); err != nil {
		return err
	}
	c.Now = db.MillisOf(c.a.c.Now())
	body := c.body.Bytes
	if len(body) == 0 && c.rt.mayBeEmpty {
		return nil
	}
	if !slices.Contains(c.rt.accepts, c.mediaType()) {
		return NewProblem(http.StatusUnsupportedMediaType, "",
			At("header.Content-Type", "is not "+strings.Join(c.rt.accepts, " or ")))
	}
	return c.a.Decode(c.rt.schema, body, v)
}

// Decode checks src against a schema and decodes it into the value that v points to. It returns a problem with status
// 400 if src is not JSON, and 422 if src does not fit the schema.
func (a *API) Decode(schema *huma.Schema, src []byte, v any) error {
	if len(bytes.TrimSpace(src)) == 0 {
		return NewProblem(http.StatusBadRequest, "", At(inBody, "is empty"))
	}
	faults, err := checkJSON(a.registry, schema, src, a.c.MaxBody)
	if err != nil {
		return NewProblem(http.StatusBadRequest, "", At(inBody, "is not JSON: "+err.Error()))
	}
	if len(faults) > 0 {
		return Invalid(faults...)
	}
	if isNone(reflect.TypeOf(v).Elem()) {
		return nil
	}
	if err := json.Unmarshal(src, v); err != nil {
		// A schema should be as strict as its type. If the type is stricter, the caller is shown the member's name,
		// not its value.
		var at *json.UnmarshalTypeError
		if errors.As(err, &at) && at.Field != "" {
			return Invalid(At(inBody+"."+at.Field, "is out of range"))
		}
		return Invalid(At(inBody, "does not fit its schema"))
	}
	return nil
}

// ServeHTTP handles a request: it checks token, role and rate, reads the body, runs the handler and writes the
// answer. It calls audit for every request, even after a panic.
func (rt *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := rt.a
	start := a.c.Now()
	c := &Call{a: a, rt: rt, W: &Recorder{ResponseWriter: w}, R: r, Now: db.MillisOf(start), Status: rt.Status}
	var err error
	defer func() {
		c.stopRead()
		c.body.Free()
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			a.c.Log.Error("panic", "route", rt.Pattern(), "stack", string(debug.Stack()))
			err = errors.New("panic")
			if c.W.status == 0 {
				WriteProblem(c.W, a.ProblemOf(err))
			}
		}
		if c.deadline { // the deadline must not apply to the next request on this connection
			_ = http.NewResponseController(c.W).SetWriteDeadline(time.Time{})
		}
		c.audit(err, a.c.Now().Sub(start))
	}()
	if a.c.Concerns != nil {
		a.c.Concerns(c)
	}
	if err = a.admit(c); err == nil {
		err = c.answer()
	}
	if err != nil && c.W.status == 0 {
		WriteProblem(c.W, rt.ProblemOf(err))
	}
}

// ProblemOf is API.ProblemOf, except that a 404 names the kind of thing that was not found.
func (rt *Endpoint) ProblemOf(err error) *client.Problem {
	p := rt.a.ProblemOf(err)
	if p.Status == http.StatusNotFound && p.Detail == noSuchThing {
		p.Detail = "there is no such " + oneOf(tagOf(rt.Path))
	}
	return p
}

// answer runs the handler and writes its answer.
func (c *Call) answer() error {
	if err := c.beginRead(); err != nil {
		return err
	}
	out, err := c.rt.run(c)
	c.stopRead() // before writing the answer, which the caller may read slowly
	if err != nil {
		return err
	}
	if _, empty := out.(None); empty {
		c.W.WriteHeader(c.Status)
		return nil
	}
	var b bytes.Buffer
	if err := EncodeJSON(&b, out); err != nil {
		return err
	}
	writeHeader(c.W, c.Status, TypeJSON)
	_, err = c.W.Write(b.Bytes())
	return err
}

// audit logs one line for each call that may have changed something, was refused or failed. The line never contains a
// body, a query or a header.
func (c *Call) audit(err error, took time.Duration) {
	level, message := slog.LevelInfo, "request"
	status := c.W.status
	switch {
	case status >= http.StatusInternalServerError && !errors.Is(err, ErrStopping):
		level, message = slog.LevelError, "request failed"
	case errors.Is(err, errGuesses):
		return // somebody who guesses must not fill the log too
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		level, message = slog.LevelWarn, "request refused"
	case c.R.Method == http.MethodGet || c.R.Method == http.MethodHead:
		return
	}
	attrs := []slog.Attr{slog.String("token", c.Token.ID), slog.String("route", c.rt.Pattern())}
	if c.a.c.Concerns != nil {
		attrs = append(attrs, slog.String("merchant", c.merchant))
	}
	attrs = append(attrs, slog.Int("status", status), slog.Int64("ms", took.Milliseconds()))
	if c.Items > 0 {
		attrs = append(attrs, slog.Int("taken", c.Items))
	}
	if c.traces == 1 { // the items of an array have several
		attrs = append(attrs, slog.String("trace", c.trace))
	}
	var known *client.Problem
	if level == slog.LevelError && err != nil && !errors.As(err, &known) {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	c.a.c.Log.LogAttrs(c.R.Context(), level, message, attrs...)
}

// Recorder is a ResponseWriter that remembers the status of the answer.
type Recorder struct {
	http.ResponseWriter
	status int
}

// Answered reports whether the answer has begun.
func (w *Recorder) Answered() bool { return w.status != 0 }

// WriteHeader begins the answer.
func (w *Recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes part of the answer.
func (w *Recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Sees reports whether the caller may know of the merchant. A token that is bound to others must not learn that it
// exists.
func (c *Call) Sees(merchant string) bool { return c.Token.Sees(merchant) }

// actor returns the holder of the call's token, with the caller's address.
func (c *Call) actor() journal.Actor {
	address, _, err := net.SplitHostPort(c.R.RemoteAddr)
	if err != nil {
		address = c.R.RemoteAddr
	}
	a := actorOf(c.Token)
	a.Address = address
	return a
}

const (
	// maxTokenReads is how many reads of one token run at once. It is less than the connections that the lists of an
	// end have together (db.DB.ForLists), so that callers who read in a loop leave some to the others.
	maxTokenReads = 3
	readPatience  = 2 * time.Second // how long a read waits at most
	readTimeout   = 10 * time.Second
)

// errReads is the problem of a read that waited too long.
var errReads = busy("too many reads at once; repeat the request later")

// beginRead waits until a call may read, and limits the time of the read. A call that changes something does not
// wait.
func (c *Call) beginRead() error {
	if c.rt.open() || c.R.Method != http.MethodGet {
		return nil
	}
	reads, whole := c.a.boundsOf(c.Token.ID).reads, c.R
	patience, enough := context.WithTimeoutCause(whole.Context(), c.a.patience, errReads)
	defer enough()
	select {
	case reads <- struct{}{}:
	case <-patience.Done():
		return context.Cause(patience)
	}
	ctx, cancel := context.WithTimeout(whole.Context(), readTimeout)
	c.R = whole.WithContext(ctx)
	c.endRead = func() {
		cancel()
		<-reads
		c.R, c.endRead = whole, nil
	}
	return nil
}

// stopRead ends the turn that beginRead began.
func (c *Call) stopRead() {
	if c.endRead != nil {
		c.endRead()
	}
}
