package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/time/rate"

	"countersign/client"
	"countersign/internal/bodies"
	"countersign/internal/journal"
)

// Process is what a process hands to the API of its end.
type Process struct {
	// Audit is the end's audit log. Nil: its routes find nothing.
	Audit *journal.Log
	// Keys are the end's keys besides those of merchants. Nil: none are shown.
	Keys *Keys
	// TestAlarm posts a message to --alarm-url. Nil: there is none.
	TestAlarm func(ctx context.Context) (client.AlarmTest, error)
	// Node is the id of the process among the nodes of the database. Empty: it is not one of them.
	Node string
	// Metrics answers /metrics, without a token. Nil: there is no such route.
	Metrics http.Handler
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Log gets one line for every call that changes something, is refused or
	// fails. Nil: discards.
	Log *slog.Logger
	// Bodies bounds the bytes of bodies that are held at once. A call beyond it gets 503.
	// Nil: bodies.NewShares(0).
	Bodies *bodies.Shares
	// Version is shown in the OpenAPI document. Empty: "dev".
	Version string
}

// SetDefaults fills in what has a default.
func (p *Process) SetDefaults() {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	if p.Bodies == nil {
		p.Bodies = bodies.NewShares(0)
	}
	p.Version = cmp.Or(p.Version, "dev")
}

// Config is what an API is made of.
type Config struct {
	Process
	// Self is what the end calls itself in problems, such as "the service".
	// Required.
	Self string
	// Title, Description and TokenDescription are texts of the OpenAPI document.
	// Required.
	Title, Description, TokenDescription string
	// Tags describes each collection in the OpenAPI document that is not one of both
	// ends. A key is the collection's name in the paths; "operation" stands for the
	// routes outside /v1.
	Tags map[string]string
	// Tokens keeps the end's tokens. Required.
	Tokens TokenStore
	// MaxBody is the longest body in bytes. Required.
	MaxBody int64
	// RatePerSecond is how many requests a second one token may make, and how
	// many at once. 0: no limit.
	RatePerSecond float64
	// ProblemOf maps the end's own errors. Where it returns nil, the table of
	// errors decides. Nil: only the table decides.
	ProblemOf func(error) *client.Problem
	// Concerns notes, before the call is handled, the merchant that it is about.
	// Nil: the audit names no merchant.
	Concerns func(*Call)
	// Called returns the id of what a path calls MERCHANT/NAME in place of an id. Nil: a path
	// has ids alone.
	Called func(c *Call, merchant, name string) (id string, err error)
	// Words describe the words of the end: ServiceWords or GatewayWords. Nil: those that both ends have alone.
	Words Aliases
	// Shape changes schemas of the document before any request is checked. Nil: nothing does.
	Shape func(huma.Registry)
}

// API answers the routes of one end. Make it with New.
type API struct {
	c         Config
	registry  huma.Registry
	endpoints []*Endpoint
	mux       *http.ServeMux
	document  func() (json.RawMessage, error)
	tokens    tokens
	leaving   atomic.Bool
	notReady  atomic.Value // the text of the last answer of /readyz that was no 200
	reads     *reads
	guesses   *guesses
	ends      *guesses // counts ends of sign-ins that began here
	ending    chan struct{}
	stopping  context.Context
	stop      context.CancelFunc
}

// New makes the mux and the document from the one table of routes. It starts
// nothing.
func New(c Config, routes []Route) (*API, error) {
	if c.Self == "" || c.Tokens == nil || c.MaxBody <= 0 || c.RatePerSecond < 0 {
		return nil, errors.New("api: Config is not complete")
	}
	c.SetDefaults()
	tags := commonTags(c.Self)
	maps.Copy(tags, c.Tags)
	c.Tags = tags
	a := &API{c: c, mux: http.NewServeMux(), reads: newReads(), guesses: newGuesses(guessRate, allGuessRate),
		ends: newGuesses(endRate, rate.Inf), ending: make(chan struct{}, endsMost)}
	a.stopping, a.stop = context.WithCancel(context.Background())
	a.tokens.init()
	a.registry = huma.NewMapRegistry("#/components/schemas/", schemaName)
	aliases := common()
	maps.Copy(aliases, c.Words)
	for t, alias := range aliases {
		a.registry.RegisterTypeAlias(t, alias)
	}
	for _, r := range routes {
		if c.Tags[tagOf(r.Path)] == "" {
			return nil, fmt.Errorf("api: Config.Tags has no text for %s", tagOf(r.Path))
		}
		if len(r.Roles) == 0 {
			return nil, fmt.Errorf("api: %s says no roles", r.ID)
		}
		rt := a.Endpoint(r)
		a.endpoints = append(a.endpoints, rt)
		a.mux.Handle(rt.Pattern(), rt)
	}
	if c.Shape != nil {
		c.Shape(a.registry)
	}
	if c.Metrics != nil {
		a.mux.Handle("GET /metrics", c.Metrics)
	}
	a.mux.HandleFunc("/", a.noRoute)
	doc := a.describe()
	// Writing it takes as long as the rest of a start, and few readers ask for it.
	a.document = sync.OnceValues(func() (json.RawMessage, error) { return published(doc) })
	return a, nil
}

// schemaName names a type in the document, without the prefix Service or Gateway: a
// document is about one end only.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for _, end := range []string{"Service", "Gateway"} {
		if rest, ok := strings.CutPrefix(name, end); ok && rest != "" {
			return rest
		}
	}
	return name
}

// Mux answers every route.
func (a *API) Mux() *http.ServeMux { return a.mux }

// Endpoints returns the prepared routes, in the order of the table.
func (a *API) Endpoints() []*Endpoint { return a.endpoints }

// Registry has the schemas of the document.
func (a *API) Registry() huma.Registry { return a.registry }

// Document is the OpenAPI document.
func (a *API) Document() (json.RawMessage, error) { return a.document() }

// Leave makes /readyz answer 503 while everything else goes on, so that no new calls
// are sent to this process.
func (a *API) Leave() { a.leaving.Store(true) }

// Stop makes calls that wait for something to happen answer at once, and /readyz
// answer 503.
func (a *API) Stop() {
	a.Leave()
	a.stop()
}

// noRoute answers a request that no route takes: 405 if the path has a route for
// another method, else 404.
func (a *API) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut} {
		other := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := a.mux.Handler(other); pattern != "" && pattern != "/" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		WriteProblem(w, NewProblem(http.StatusNotFound, "there is no such path"))
		return
	}
	allow := strings.Join(allowed, ", ")
	w.Header().Set("Allow", allow)
	WriteProblem(w, NewProblem(http.StatusMethodNotAllowed, "this path takes "+allow))
}
