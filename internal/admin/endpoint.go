package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/store"
)

const (
	typeJSON   = "application/json"
	typeMerge  = "application/merge-patch+json"
	typeNDJSON = "application/x-ndjson"
)

// route is one row of the table of routes.
type route struct {
	method, path string
	id           string // operationId; the client's method has the same name
	need         access
	status       int // of success
	handler
	summary string
	errors  []int // beside those that every route of its kind gives
}

// handler is a function with the types that go in and come out of it.
type handler struct {
	query, in, out reflect.Type
	run            func(c *call) (any, error)
	lines          func(c *call) error // takes the body as NDJSON and answers itself; may be nil
}

// none is for a handler without query, body or answer.
type none struct{}

// handle makes a handler of f. The query and the body reach f checked against
// their schemas; what only f can know, f checks.
func handle[Q, In, Out any](f func(*call, Q, In) (Out, error)) handler {
	return handler{
		query: reflect.TypeFor[Q](), in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		run: func(c *call) (any, error) {
			var q Q
			var in In
			if faults := readQuery(c.rt.params, c.r.URL.Query(), reflect.ValueOf(&q).Elem()); len(faults) > 0 {
				return nil, invalid(faults...)
			}
			if err := c.readBody(&in); err != nil {
				return nil, err
			}
			return f(c, q, in)
		},
	}
}

// call is one request on its way through.
type call struct {
	s        *Server
	rt       *endpoint
	w        *recorder
	r        *http.Request
	now      store.Millis
	token    store.Token
	merchant string // for the audit
	items    int    // for the audit: deposits taken
	deadline bool   // writeWithin was called
}

// writeWithin gives the answer d from now, whatever the server's own time-out.
func (c *call) writeWithin(d time.Duration) {
	c.deadline = true
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(d))
}

// concerns notes whose data the call is about.
func (c *call) concerns(merchant string) {
	switch c.merchant {
	case "", merchant:
		c.merchant = merchant
	default:
		c.merchant = "several"
	}
}

var idText = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// pathID gives the id in the path. One that cannot be an id is not found.
func (c *call) pathID() (string, error) {
	id := c.r.PathValue("id")
	if !idText.MatchString(id) {
		return "", store.ErrNotFound
	}
	return id, nil
}

// concernsPath notes the merchant that an id in the path begins with.
func (c *call) concernsPath() {
	id, err := c.pathID()
	if err != nil || strings.HasPrefix(c.rt.path, "/v1/tokens/") {
		return
	}
	merchant, _, _ := strings.Cut(id, ".")
	c.concerns(merchant)
}

// mediaType gives the request's content type without its parameters.
func (c *call) mediaType() string {
	t, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if cs := params["charset"]; err != nil || cs != "" && !strings.EqualFold(cs, "utf-8") {
		return ""
	}
	return t
}

// readBody fills the value that v points to.
func (c *call) readBody(v any) error {
	t := reflect.TypeOf(v).Elem()
	if t == reflect.TypeFor[none]() && c.r.Method == http.MethodGet {
		return nil
	}
	if c.r.ContentLength > c.s.MaxBody {
		return &http.MaxBytesError{Limit: c.s.MaxBody}
	}
	var buf bytes.Buffer
	if n := c.r.ContentLength; n > 0 {
		buf.Grow(int(n) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(http.MaxBytesReader(c.w, c.r.Body, c.s.MaxBody)); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return err
		}
		return problem(http.StatusBadRequest, "the body could not be read")
	}
	body := buf.Bytes()
	if len(body) == 0 && c.rt.mayBeEmpty {
		return nil
	}
	if !slices.Contains(c.rt.accepts, c.mediaType()) {
		return problem(http.StatusUnsupportedMediaType, "", Detail{"header.Content-Type", "is not " + strings.Join(c.rt.accepts, " or ")})
	}
	return c.s.decode(c.rt.schema, body, v)
}

// decode checks body against a schema and fills the value that v points to.
func (s *Server) decode(schema *huma.Schema, body []byte, v any) error {
	if text := syntax(body); text != "" {
		return problem(http.StatusBadRequest, "", Detail{"body", text})
	}
	if faults := checkJSON(s.registry, schema, body, "body"); len(faults) > 0 {
		return invalid(faults...)
	}
	if t := reflect.TypeOf(v).Elem(); t == reflect.TypeFor[none]() {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		// The schema lets nothing through that a type refuses; should a type
		// be stricter, the caller is told so without its value.
		var at *json.UnmarshalTypeError
		if errors.As(err, &at) && at.Field != "" {
			return invalid(Detail{"body." + at.Field, "is out of range"})
		}
		return invalid(Detail{"body", "does not fit its schema"})
	}
	return nil
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServeHTTP is the one path of every request: token, role and rate first, then
// the body, the handler, the answer; the audit whatever happens.
func (rt *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := rt.s
	start := s.Now()
	c := &call{s: s, rt: rt, w: &recorder{ResponseWriter: w}, r: r, now: store.MillisOf(start)}
	var err error
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.Log.Error("panic", "route", rt.pattern(), "stack", string(debug.Stack()))
			err = errors.New("panic")
			if c.w.status == 0 {
				writeProblem(c.w, problemOf(err))
			}
		}
		if c.deadline { // the next request on this connection has its own
			_ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{})
		}
		c.audit(err, s.Now().Sub(start))
	}()
	c.concernsPath()
	if err = s.admit(c); err == nil {
		err = c.answer()
	}
	if err != nil && c.w.status == 0 {
		writeProblem(c.w, problemOf(err))
	}
}

// answer runs the handler and writes what it gives.
func (c *call) answer() error {
	if c.rt.lines != nil && c.mediaType() == typeNDJSON {
		return c.rt.lines(c)
	}
	out, err := c.rt.run(c)
	if err != nil {
		return err
	}
	if _, empty := out.(none); empty {
		c.w.WriteHeader(c.rt.status)
		return nil
	}
	var b bytes.Buffer
	if err := encodeJSON(&b, out); err != nil {
		return err
	}
	c.jsonHeader(typeJSON)
	c.w.WriteHeader(c.rt.status)
	_, err = c.w.Write(b.Bytes())
	return err
}

func (c *call) jsonHeader(mediaType string) {
	h := c.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

// encodeJSON writes v and a line feed, leaving <, > and & as they are.
func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// audit writes one line for every call that may have changed something or was
// turned away. It never holds a body, a query or a header.
func (c *call) audit(err error, took time.Duration) {
	level, message := slog.LevelInfo, "request"
	status := c.w.status
	switch {
	case status >= http.StatusInternalServerError && !errors.Is(err, errStopping):
		level, message = slog.LevelError, "request failed"
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		level, message = slog.LevelWarn, "request refused"
	case c.r.Method == http.MethodGet || c.r.Method == http.MethodHead:
		return
	}
	attrs := []slog.Attr{
		slog.String("token", c.token.ID),
		slog.String("route", c.rt.pattern()),
		slog.String("merchant", c.merchant),
		slog.Int("status", status),
		slog.Int64("ms", took.Milliseconds()),
	}
	if c.items > 0 {
		attrs = append(attrs, slog.Int("taken", c.items))
	}
	var told *Problem
	if level == slog.LevelError && err != nil && !errors.As(err, &told) {
		attrs = append(attrs, slog.String("cause", err.Error()))
	}
	c.s.Log.LogAttrs(c.r.Context(), level, message, attrs...)
}
