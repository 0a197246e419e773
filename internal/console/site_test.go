package console_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/db"
)

// site is a console as a program sees it: a browser without JavaScript.
type site struct {
	t    testing.TB
	base string
	c    *http.Client
}

func newSite(t testing.TB, base string) *site {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &site{t, base, &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// page is an answer of a console.
type page struct {
	status int
	header http.Header
	body   string
}

func (p page) to() string { return p.header.Get("Location") }

func (s *site) do(method, path string, form url.Values, headers ...string) page {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.c.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode == http.StatusTooManyRequests && bytes.Contains(b, []byte("requests a second with one token")) { // nothing was done
		time.Sleep(50 * time.Millisecond)
		return s.do(method, path, form, headers...)
	}
	return page{resp.StatusCode, resp.Header, string(b)}
}

func (s *site) get(path string) page { s.t.Helper(); return s.do(http.MethodGet, path, nil) }

func (s *site) post(path string, form url.Values) page {
	s.t.Helper()
	return s.do(http.MethodPost, path, form)
}

func (s *site) signIn(token client.Secret) *site {
	s.t.Helper()
	if p := s.post("/console/signin", url.Values{"token": {token.Reveal()}}); p.status != http.StatusSeeOther || p.to() != "/console/" {
		s.t.Fatalf("signing in: %d %s", p.status, p.body)
	}
	return s
}

// cookies are what the site has set for its own paths.
func (s *site) cookies() []*http.Cookie {
	u, err := url.Parse(s.base + "/console/")
	if err != nil {
		s.t.Fatal(err)
	}
	return s.c.Jar.Cookies(u)
}

// node runs a service until the test ends.
func node(t testing.TB, change func(*daemon.ServiceConfig)) (base string, token client.Secret) {
	t.Helper()
	s, token := runService(t, change)
	return s.URL(), token
}

// runService is node that gives the service.
func runService(t testing.TB, change func(*daemon.ServiceConfig)) (s *daemon.Service, token client.Secret) {
	t.Helper()
	c := daemon.ServiceConfig{
		Common: daemon.Common{Storage: daemon.Storage{Dir: filepath.Join(t.TempDir(), "data")}, ShowToken: func(first, _ string) { token = client.Secret(first) }},
		Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true,
	}
	if change != nil {
		change(&c)
	}
	s, err := daemon.NewService(c)
	if err == nil {
		err = s.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the service: %v", err)
		}
	})
	return s, token
}

// sharedKeys are the keys of nodes of one database.
func sharedKeys() *db.MasterKey { return db.NewMasterKey([32]byte{1}) }

func serviceAPI(t testing.TB, base string, token client.Secret) *client.Service {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.NewService(client.Config{URL: base, Token: token, HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
