package console_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/console"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/web"
)

// site is a console as a program sees it: a browser without JavaScript.
type site struct {
	t    testing.TB
	base string
	c    *http.Client
}

func newSite(t testing.TB, base string) *site {
	jar := must(cookiejar.New(nil))(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &site{t, base, &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// page is an answer of a console.
type page struct {
	t      testing.TB
	of     string // the request
	status int
	header http.Header
	body   string
}

func (p page) to() string { return p.header.Get("Location") }

// is wants a status, and texts on the page.
func (p page) is(status int, texts ...string) page {
	p.t.Helper()
	lacks := slices.DeleteFunc(texts, func(text string) bool { return strings.Contains(p.body, text) })
	if p.status != status || len(lacks) > 0 {
		p.t.Errorf("%s: %d to %q, want %d; it lacks %q\n%s", p.of, p.status, p.to(), status, lacks, saysOf(p.body))
	}
	return p
}

// leads wants the page to lead to another one.
func (p page) leads(to string) {
	p.t.Helper()
	if p.is(http.StatusSeeOther); p.to() != to {
		p.t.Errorf("%s leads to %q, want %q", p.of, p.to(), to)
	}
}

func (s *site) do(method, path string, form url.Values, headers ...string) page {
	s.t.Helper()
	r := must(http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(form.Encode())))(s.t)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp := must(s.c.Do(r))(s.t)
	defer func() { _ = resp.Body.Close() }()
	b := must(io.ReadAll(resp.Body))(s.t)
	if resp.StatusCode == http.StatusTooManyRequests && bytes.Contains(b, []byte("requests a second with one token")) { // nothing was done
		time.Sleep(50 * time.Millisecond)
		return s.do(method, path, form, headers...)
	}
	return page{s.t, method + " " + path, resp.StatusCode, resp.Header, string(b)}
}

func (s *site) get(path string) page { s.t.Helper(); return s.do(http.MethodGet, path, nil) }

func (s *site) post(path string, form url.Values) page {
	s.t.Helper()
	return s.do(http.MethodPost, path, form)
}

func (s *site) signIn(token client.Secret) *site {
	s.t.Helper()
	s.post("/console/signin", url.Values{"token": {token.Reveal()}}).leads("/console/")
	return s
}

// cookies are what the site has set for its own paths.
func (s *site) cookies() []*http.Cookie {
	u := must(url.Parse(s.base + "/console/"))(s.t)
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
	s = must(daemon.NewService(c))(t)
	run(t, s.Open, s.Run)
	return s, token
}

// sharedKeys are the keys of nodes of one database.
func sharedKeys() *db.MasterKey { return db.NewMasterKey([32]byte{1}) }

func serviceAPI(t testing.TB, base string, token client.Secret) *client.Service {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return must(client.NewService(client.Config{URL: base, Token: token, HTTPClient: &http.Client{Transport: transport}}))(t)
}

// addMerchant makes a merchant of which nothing listens at the URLs, unless they are given.
func addMerchant(t testing.TB, admin *client.Service, id string, with client.MerchantSettings) client.CreatedMerchant {
	t.Helper()
	with.Name = cmp.Or(with.Name, id)
	with.NotifyURL, with.WithdrawURL = cmp.Or(with.NotifyURL, "http://127.0.0.1:1/n"), cmp.Or(with.WithdrawURL, "http://127.0.0.1:1/w")
	return must(admin.CreateMerchant(t.Context(), client.NewMerchant{ID: id, Key: &client.KeySpec{Bits: 1024}, MerchantSettings: with}))(t)
}

var ok = dbtest.OK

func must[T any](v T, err error) func(dbtest.Failer) T { return dbtest.Must(v, err) }

func amount(t testing.TB, s string) countersign.Amount {
	t.Helper()
	return must(countersign.ParseAmount(s))(t)
}

func deposit(t testing.TB, merchant, id string) client.NewDeposit {
	return client.NewDeposit{Merchant: merchant, TrackingID: id, TenantUserID: "user-7", TxID: "0x" + id, ChainName: "TRON", Symbol: "USDT",
		Amount: amount(t, "7.400000000000000001"), FromAddress: "TFrom", ToAddress: "TTo", TxIndex: -1}
}

// noSealer seals nothing.
type noSealer struct{}

func (noSealer) SealText(_ string, plain []byte) []byte             { return plain }
func (noSealer) OpenText(_ string, sealed []byte) ([]byte, error)   { return sealed, nil }
func (noSealer) SessionEnded(context.Context, string) (bool, error) { return false, nil }
func (noSealer) EndSession(context.Context, string, client.Time, client.Time) (bool, error) {
	return true, nil
}

// bare returns the consoles of both ends over an API that is none of theirs.
func bare(t testing.TB, api http.Handler) (service, gateway *console.Console) {
	t.Helper()
	c := console.Config{API: api, Sealer: noSealer{}, Database: "none", Bodies: web.NewShares(0), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	return must(console.NewService(c))(t), must(console.NewGateway(c))(t)
}
