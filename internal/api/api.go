package api

import (
	"cmp"
	"context"
	"crypto/sha256"
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
	"countersign/internal/journal"
	"countersign/internal/web"
)

// Process holds what a running process gives to the API of its end.
type Process struct {
	// Audit is the end's audit log. Required.
	Audit *journal.Log
	// TestAlarm posts a test message to --alarm-url. Nil: alarms are not posted.
	TestAlarm func(ctx context.Context) (client.AlarmTest, error)
	// Node is the id of this process among the nodes of the database. Empty: it is not a node.
	Node string
	// Metrics answers /metrics, without a token. Nil: the route does not exist.
	Metrics http.Handler
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Log gets one line for each call that changes something, is refused or fails. Nil: discards.
	Log *slog.Logger
	// Bodies bounds the bytes of all request bodies that are held at once. A call that would exceed it gets 503. Nil:
	// web.NewShares(0).
	Bodies *web.Shares
	// Version is shown in the OpenAPI document. Empty: "dev".
	Version string
}

// SetDefaults sets the fields that are zero and have a default.
func (p *Process) SetDefaults() {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	if p.Bodies == nil {
		p.Bodies = web.NewShares(0)
	}
	p.Version = cmp.Or(p.Version, "dev")
}

// Config configures New.
type Config struct {
	Process
	// Self is the end's name in problems, such as "the service". Required.
	Self string
	// Description says in the OpenAPI document what the end does. Required.
	Description string
	// Tags describes, in the OpenAPI document, the collections that only this end has. The key is the collection's
	// name in the paths; "operation" stands for the routes outside /v1.
	Tags map[string]string
	// Tokens finds the end's tokens. Required.
	Tokens TokenStore
	// MaxBody is the longest body in bytes. Required.
	MaxBody int64
	// RatePerSecond is how many requests a second one token may make, and also how many at once. 0: no limit.
	RatePerSecond float64
	// ProblemOf maps the end's own errors. If it returns nil, the table of errors decides. Nil: only the table
	// decides.
	ProblemOf func(error) *client.Problem
	// Concerns notes the merchant that a call is about, before the call is handled. Nil: the log names no merchant.
	Concerns func(*Call)
	// Called returns the id of a thing that the path names as MERCHANT/NAME. Nil: paths hold ids only.
	Called func(c *Call, merchant, name string) (id string, err error)
	// End has the document describe the words that this end uses. 0: those of the service.
	End client.End
	// Shape changes schemas of the document before any request is checked. Nil: they stay as they are.
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
	notReady  atomic.Value  // the detail of the last /readyz answer that was not 200
	patience  time.Duration // readPatience; tests shorten it
	guesses   *guesses
	ends      *guesses // counts the ends of sign-ins that began here
	stopping  context.Context
	stop      context.CancelFunc
}

// New returns the API of a table of routes: the mux and the OpenAPI document. It starts nothing.
func New(c Config, routes []Route) (*API, error) {
	if c.Self == "" || c.Tokens == nil || c.MaxBody <= 0 || c.RatePerSecond < 0 {
		return nil, errors.New("api: Config is not complete")
	}
	c.SetDefaults()
	tags := commonTags(c.Self)
	maps.Copy(tags, c.Tags)
	c.Tags = tags
	a := &API{c: c, mux: http.NewServeMux(), patience: readPatience, guesses: newGuesses(guessRate, allGuessRate),
		ends: newGuesses(endRate, rate.Inf)}
	a.stopping, a.stop = context.WithCancel(context.Background())
	a.tokens.known, a.tokens.bounds = map[[sha256.Size]byte]knownToken{}, map[string]*bounds{}
	a.registry = huma.NewMapRegistry("#/components/schemas/", schemaName)
	for t, alias := range aliasesAt(c.End) {
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
	// Encoding the document takes as long as the rest of New, and few callers read it.
	a.document = sync.OnceValues(func() (json.RawMessage, error) { return published(doc) })
	return a, nil
}

// schemaName returns the name of a type in the document. It drops the prefix Service or Gateway, since a document
// describes only one end.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for _, end := range []string{"Service", "Gateway"} {
		if rest, ok := strings.CutPrefix(name, end); ok && rest != "" {
			return rest
		}
	}
	return name
}

// Mux returns the handler of all routes, /healthz, /readyz, /metrics and /openapi.json included.
func (a *API) Mux() *http.ServeMux { return a.mux }

// Endpoints returns the prepared routes, in the order of the table.
func (a *API) Endpoints() []*Endpoint { return a.endpoints }

// Registry returns the schemas of the document.
func (a *API) Registry() huma.Registry { return a.registry }

// Leave makes /readyz answer 503, so that load balancers send no new calls here. Everything else goes on.
func (a *API) Leave() { a.leaving.Store(true) }

// Stop makes waiting calls answer at once, and /readyz answer 503. Call it before http.Server.Shutdown, which would
// otherwise wait for those calls.
func (a *API) Stop() {
	a.Leave()
	a.stop()
}

// noRoute answers a request that matches no route: 405 if the path has a route for another method, otherwise 404.
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
