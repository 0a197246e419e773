package gateway

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"countersign/internal/store"
)

// maxBody is the longest body of a request of the API, in bytes.
const maxBody = 64 << 10

// api is the private JSON API.
type api struct {
	c        Config
	end      *store.MerchantEnd
	mux      *http.ServeMux
	document []byte
	tokens   tokens
	stopOnce sync.Once
	stopping chan struct{}
}

func newAPI(end *store.MerchantEnd, c Config) (*api, error) {
	a := &api{c: c, end: end, mux: http.NewServeMux(), stopping: make(chan struct{})}
	a.tokens.init()
	routes := a.routes()
	for _, r := range routes {
		a.mux.Handle(r.method+" "+r.path, &endpoint{a, r})
	}
	if c.Metrics != nil {
		a.mux.Handle("GET /metrics", c.Metrics)
	}
	a.mux.HandleFunc("/", a.noRoute)
	var err error
	if a.document, err = describe(routes, c); err != nil {
		return nil, fmt.Errorf("gateway: writing the OpenAPI document: %w", err)
	}
	return a, nil
}

func (a *api) stop() { a.stopOnce.Do(func() { close(a.stopping) }) }

func (a *api) isStopping() bool {
	select {
	case <-a.stopping:
		return true
	default:
		return false
	}
}

// noRoute answers what no route takes: 405 where another method would do.
func (a *api) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{http.MethodDelete, http.MethodGet, http.MethodPost, http.MethodPut} {
		other := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := a.mux.Handler(other); pattern != "" && pattern != "/" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		writeProblem(w, problem(http.StatusNotFound, "there is no such path"))
		return
	}
	allow := strings.Join(allowed, ", ")
	w.Header().Set("Allow", allow)
	writeProblem(w, problem(http.StatusMethodNotAllowed, "this path takes "+allow))
}

// call is one request on its way through.
type call struct {
	a      *api
	route  *route
	w      *recorder
	r      *http.Request
	now    store.Millis
	token  store.Token
	query  map[string]string
	status int // of success; a handler may change it
}

// number gives a query parameter that has been checked.
func (c *call) number(name string) int64 {
	n, _ := strconv.ParseInt(c.query[name], 10, 64)
	return n
}

// pathSeq gives the number in the path. What is no number is not found.
func (c *call) pathSeq() (int64, error) {
	n, err := strconv.ParseInt(c.r.PathValue("seq"), 10, 64)
	if err != nil || n <= 0 {
		return 0, store.ErrNotFound
	}
	return n, nil
}

// readBody fills the struct that v points to. Where all members are optional,
// no body is the empty object.
func (c *call) readBody(v any) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problem(http.StatusRequestEntityTooLarge, "", Fault{"body", fmt.Sprintf("is longer than %d bytes", maxBody)})
	case err != nil:
		return problem(http.StatusBadRequest, "the body could not be read")
	case len(body) == 0 && c.route.bodyOptional:
		return nil
	}
	mediaType, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || mediaType != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return problem(http.StatusUnsupportedMediaType, "", Fault{"header.Content-Type", "is not application/json"})
	}
	if text := syntaxProblem(body); text != "" {
		return problem(http.StatusBadRequest, "", Fault{"body", text})
	}
	if faults := readObject(body, v); len(faults) > 0 {
		return invalid(faults...)
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

// endpoint is the one path of every request: token and role first, then the
// query and the body, the handler, the answer; the audit whatever happens.
type endpoint struct {
	a *api
	route
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := e.a
	start := a.c.Now()
	c := &call{a: a, route: &e.route, w: &recorder{ResponseWriter: w}, r: r, now: store.MillisOf(start), status: e.status}
	var err error
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			a.c.Log.Error("panic", "route", e.path, "stack", string(debug.Stack()))
			err = errors.New("panic")
		}
		if err != nil && c.w.status == 0 {
			writeProblem(c.w, problemOf(err))
		}
		c.audit(err, a.c.Now().Sub(start))
	}()
	if err = a.admit(c); err != nil {
		return
	}
	var faults []Fault
	if c.query, faults = readQuery(e.params, r.URL.Query()); len(faults) > 0 {
		err = invalid(faults...)
		return
	}
	var out any
	if out, err = e.run(c); err != nil {
		return
	}
	if out == nil {
		c.w.WriteHeader(c.status)
		return
	}
	var body []byte
	if body, err = encodeJSON(out); err == nil {
		writeBody(c.w, c.status, "application/json", body)
	}
}

// audit writes one line for every call that may have changed something or was
// turned away. It never holds a body, a query or a header.
func (c *call) audit(err error, took time.Duration) {
	level, message := slog.LevelInfo, "request"
	status := c.w.status
	switch {
	case status >= http.StatusInternalServerError && !errors.Is(err, errStopping):
		level, message = slog.LevelError, "request failed"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		level, message = slog.LevelWarn, "request refused"
	case c.r.Method == http.MethodGet || c.r.Method == http.MethodHead:
		return
	}
	attrs := []slog.Attr{slog.String("token", c.token.ID), slog.String("route", c.route.method+" "+c.route.path),
		slog.Int("status", status), slog.Int64("ms", took.Milliseconds())}
	var told *Problem
	if level == slog.LevelError && err != nil && !errors.As(err, &told) {
		attrs = append(attrs, slog.String("cause", err.Error()))
	}
	c.a.c.Log.LogAttrs(c.r.Context(), level, message, attrs...)
}
