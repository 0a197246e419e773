package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html/template"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"countersign/client"
	"countersign/internal/web"
)

// Sealer seals what a browser keeps, under keys that all nodes of the end have; what was sealed for one purpose opens
// for no other. It also keeps, for all nodes, which sessions were ended.
type Sealer interface {
	SealText(purpose string, plain []byte) []byte
	OpenText(purpose string, sealed []byte) ([]byte, error)
	// EndSession ends a session that would expire at until. It reports whether nobody has ended it before.
	EndSession(ctx context.Context, id string, now, until client.Time) (first bool, err error)
	SessionEnded(ctx context.Context, id string) (bool, error)
}

// Config is what a Console needs.
type Config struct {
	// API answers the calls that pages make. Required.
	API http.Handler
	// Sealer seals sessions. Required.
	Sealer Sealer
	// Database is the random name of the end's database. A browser sends cookies to every port of a host; those of
	// another database are not this console's. Required.
	Database string
	// Bodies bounds the bytes of forms held at once, together with the API's. Required.
	Bodies *web.Shares
	// Now is the clock of sessions. Required.
	Now func() time.Time
	// Log gets what pages could not do. Required.
	Log *slog.Logger
	// Version is shown at the bottom of each page.
	Version string
}

// Console is the console of one end. Use NewService or NewGateway to make one.
type Console struct {
	Config
	end     end
	cookies string // begins the names of cookies
	mux     *http.ServeMux
	handler http.Handler
	pages   map[string]*template.Template
	notices map[string]string // of all sections
	links   sync.Map          // the tokens of one-time sign-in links, by their codes
}

// end holds what differs between the consoles of the two ends.
type end struct {
	name  string
	at    client.End
	title string
	// sections are listed in the order of the navigation.
	sections []section
}

// navItem is an entry of the navigation. It is shown only to tokens that may call the operation May.
type navItem struct{ Path, Name, May string }

// section is a part of a console. It is declared in the file of its pages.
type section struct {
	nav   navItem // zero: it is not in the navigation
	lists []lister
	pages []page
	// notices are the messages of a page after a post, by the word in its address. The address has no text, so that a
	// link cannot put words into the console's mouth.
	notices map[string]string
}

// lister is a list page.
type lister interface {
	page() page
	shape() table
}

// all returns the pages of the section, lists first.
func (s section) all() (pages []page) {
	for _, l := range s.lists {
		pages = append(pages, l.page())
	}
	return append(pages, s.pages...)
}

// page is one row of a section's table of pages.
type page struct {
	pattern string
	serve   func(*visit) error
}

// anySection has the pages outside the navigation, and the notices that pages of several sections show.
var anySection = section{
	pages: []page{
		{"GET /console/search", (*visit).search},
	},
	notices: map[string]string{
		"waits": "Proposed: nothing has changed yet, it waits for an approver.",
		"noted": "Noted.",
		"some":  "Some are done, and more match: go on.",
		"again": "You signed in again: what you wanted to do is not done yet. Do it now.",
	},
}

func newConsole(c Config, e end) (*Console, error) {
	if c.API == nil || c.Sealer == nil || c.Database == "" || c.Bodies == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("console: Config is not complete")
	}
	of := sha256.Sum256([]byte(c.Database))
	s := &Console{
		Config: c, end: e, cookies: "countersign-" + e.name + "-" + hex.EncodeToString(of[:4]) + "-",
		mux: http.NewServeMux(), notices: map[string]string{},
	}
	var err error
	if s.pages, err = parseTemplates(e); err != nil {
		return nil, err
	}
	s.mux.HandleFunc("GET /console/static/{file}", serveStatic)
	s.mux.HandleFunc("GET /console/signin", s.showSignIn)
	s.mux.HandleFunc("POST /console/signin", s.signIn)
	s.mux.HandleFunc("GET /console/signin/provider", s.toProvider)
	s.mux.HandleFunc("GET "+ReturnPath, s.fromProvider)
	s.mux.HandleFunc("POST /console/signout", s.signOut)
	s.mux.HandleFunc("GET /console/link/{code}", s.followLink)
	for _, part := range e.sections {
		for _, p := range part.all() {
			s.mux.Handle(p.pattern, s.page(p))
		}
		maps.Copy(s.notices, part.notices)
	}
	s.mux.Handle("/console/", s.page(page{serve: (*visit).notFound}))
	s.handler = http.NewCrossOriginProtection().Handler(s.mux)
	return s, nil
}

// policy allows only the parts that pages are made of: no inline code or style, no other host, no frame around them.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// The bounds on forms, in bytes: two keys fit in a session's form, and a token in a stranger's.
const (
	maxForm      = 96 << 10
	strangerForm = 8 << 10
)

// urgent are the forms that stop money or let it go on. They get through whatever else is sent.
var urgent = []string{"POST /console/stop/freeze", "POST /console/stop/thaw", "POST /console/merchants/{id}/pause",
	"POST /console/tokens/{id}/revoke"}

// readForm reads the form of a request. The form must be freed, even after an error.
func readForm(r *http.Request, most int, budget *web.Budget) (web.Body, error) {
	b, err := web.ReadBody(r.Body, r.ContentLength, most, budget)
	r.Body = io.NopCloser(bytes.NewReader(b.Bytes))
	if err == nil {
		err = r.ParseForm()
	}
	return b, err
}

// ServeHTTP answers every path below /console/.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // without a referrer, posts over http would have no origin either
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	c.handler.ServeHTTP(w, r)
}
