package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/daemon"
)

func TestSession(t *testing.T) {
	base, token := node(t, nil)
	s := newSite(t, base)
	s.get("/console/merchants?cursor=a").leads("/console/signin?next=" + url.QueryEscape("/console/merchants?cursor=a")) // signed out
	s.post("/console/stop/freeze", url.Values{"reason": {"r"}, "confirm": {"freeze"}}).leads("/console/signin")          // a post, signed out
	for _, wrong := range []string{"", "cst_nothing", "two words", token.Reveal() + "x", "é"} {
		p := s.post("/console/signin", url.Values{"token": {wrong}})
		if p.status != 401 || !strings.Contains(p.body, "not a valid token") || len(s.cookies()) > 0 || wrong != "" && strings.Contains(p.body, wrong) {
			t.Errorf("token %q: %d %v", wrong, p.status, s.cookies())
		}
	}
	for next, want := range map[string]string{
		"/console/alarms?state=all": "/console/alarms?state=all", "": "/console/", "https://evil.example/": "/console/", "//evil.example/console/": "/console/",
		"/console/\\evil": "/console/", "/v1/stats": "/console/", "/console/signin": "/console/",
	} {
		s.post("/console/signin", url.Values{"token": {token.Reveal()}, "next": {next}}).leads(want)
	}
	p := s.post("/console/signin", url.Values{"token": {token.Reveal()}})
	set := p.header.Get("Set-Cookie")
	for _, want := range []string{"countersign-service-", "Path=/console/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie lacks %q: %s", want, set)
		}
	}
	if strings.Contains(set, "Secure") || strings.Contains(set, token.Reveal()) {
		t.Errorf("the cookie: %s", set)
	}
	if p := s.do("POST", "/console/signin", url.Values{"token": {token.Reveal()}}, "X-Forwarded-Proto", "https"); !strings.Contains(p.header.Get("Set-Cookie"), "Secure") {
		t.Error("behind TLS the cookie is not Secure")
	}
	s = newSite(t, base).signIn(token)
	if p := s.get("/console/"); p.status != 200 || strings.Contains(p.body, token.Reveal()) {
		t.Errorf("signed in: %d", p.status)
	}

	// A cookie that was changed in one character opens nothing.
	cookie := s.cookies()[0]
	for _, at := range []int{0, 3, 40, len(cookie.Value) / 2, len(cookie.Value) - 1} {
		changed := []byte(cookie.Value)
		changed[at] = map[bool]byte{true: 'B', false: 'A'}[changed[at] == 'A']
		other := newSite(t, base)
		other.do("GET", "/console/", nil, "Cookie", cookie.Name+"="+string(changed)).is(303)
	}
	other := newSite(t, base)
	other.do("GET", "/console/signin/provider/return", nil, "Cookie", strings.Replace(cookie.Name, "session", "provider", 1)+"="+cookie.Value).is(400) // a session as another cookie

	// A copy of the cookie ends with the session that was ended, and no other does.
	copied, again := newSite(t, base), newSite(t, base).signIn(token)
	if p := s.post("/console/signout", nil); p.status != 303 || len(s.cookies()) > 0 {
		t.Errorf("signing out: %d, %v", p.status, s.cookies())
	}
	if p := copied.do("GET", "/console/", nil, "Cookie", cookie.Name+"="+cookie.Value); p.status != 303 || !strings.HasPrefix(p.to(), "/console/signin") {
		t.Errorf("a copy of the cookie, signed out: %d", p.status)
	}
	again.get("/console/").is(200) // another session of the token
	// A browser that is signed in to two services under one host name stays so, since their cookies have other names.
	second, secondToken := node(t, nil)
	again.base = second
	again.get("/console/").is(303) // the other service takes the session
	again.signIn(secondToken)
	again.base = base
	again.get("/console/").is(200) // signed in to both
	again.post("/console/signout", nil)
	again.base = second
	again.get("/console/").is(200) // signing out of the one signs out of the other
	// What keeps a page up to date is led away with it.
	if p := copied.do("GET", "/console/now", nil, "Cookie", cookie.Name+"="+cookie.Value, "HX-Request", "true"); p.status != 401 || p.header.Get("HX-Redirect") != "/console/signin" {
		t.Errorf("a live page, signed out: %d %v", p.status, p.header)
	}
}

// TestForms: forms count in the memory for bodies, those of strangers are short and take nothing of it, and what stops
// money gets through where others hold all.
func TestForms(t *testing.T) {
	c, _ := bare(t, &callsOf{})
	server := httptest.NewServer(c)
	defer server.Close()
	newSite(t, server.URL).post("/console/signin", url.Values{"token": {strings.Repeat("x", 9000)}}).is(413) // 9 KB before a session
	s, held := newSite(t, server.URL).signIn("cst_any"), 0
	for c.Bodies.Callers.Take(1 << 10) {
		held += 1 << 10
	}
	alarm := url.Values{"note": {"seen"}, "seq": {"1"}}
	s.post("/console/alarms/ack", alarm).is(503) // a form beyond the memory for bodies
	if p := s.post("/console/stop/freeze", url.Values{"reason": {"r"}, "confirm": {"freeze"}}); p.status != 303 || !strings.Contains(p.to(), "did=") {
		t.Errorf("freezing while others hold all: %d, %q", p.status, p.to())
	}
	newSite(t, server.URL).signIn("cst_any")
	c.Bodies.Callers.Give(held)
	s.post("/console/alarms/ack", alarm).is(303) // when they hold it no more
}

// TestHeaders: what protects the pages is on every answer.
func TestHeaders(t *testing.T) {
	base, token := node(t, nil)
	s := newSite(t, base).signIn(token)
	out := newSite(t, base)
	for _, p := range []page{s.get("/console/"), s.get("/console/nothing"), s.get("/console/merchants/none"), out.get("/console/signin"), out.get("/console/"), out.post("/console/signin", nil),
		s.post("/console/stop/freeze", nil), out.get("/console/static/app.js"), out.get("/console/link/none")} {
		policy := p.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("policy %q", policy)
		}
		if p.header.Get("X-Content-Type-Options") != "nosniff" || p.header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("headers %v", p.header)
		}
		if control := p.header.Get("Cache-Control"); control != "no-store" && !strings.Contains(p.header.Get("Content-Type"), "javascript") {
			t.Errorf("Cache-Control %q", control)
		}
		if strings.Contains(p.body, "<script>") || strings.Contains(p.body, " style=") || strings.Contains(p.body, "javascript:") {
			t.Error("a page has inline code or style")
		}
	}
	s.get("/console/nothing").is(404, "There is no such page")
	if p := out.get("/console"); p.status != 301 || p.to() != "/console/" {
		t.Errorf("/console: %d %q", p.status, p.to())
	}
}

// TestCrossOrigin: no other site can post with the session of a browser.
func TestCrossOrigin(t *testing.T) {
	base, token := node(t, nil)
	s := newSite(t, base).signIn(token)
	form := url.Values{"reason": {"r"}, "confirm": {"freeze"}}
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
	} {
		s.do("POST", "/console/stop/freeze", form, headers...).is(403)
	}
	api := serviceAPI(t, base, token)
	if f, err := api.Frozen(t.Context()); err != nil || f.Frozen {
		t.Fatalf("%+v, %v", f, err)
	}
	s.do("POST", "/console/stop/freeze", form, "Sec-Fetch-Site", "same-origin", "Origin", base).leads("/console/stop?did=frozen") // from here
	if f, err := api.Frozen(t.Context()); err != nil || !f.Frozen {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestLink: a link of this process signs in once.
func TestLink(t *testing.T) {
	c, _ := bare(t, &callsOf{})
	server := httptest.NewServer(c)
	defer server.Close()
	link := c.Link("cst_any")
	if other := c.Link("cst_any"); other == link || strings.Contains(link, "cst_") {
		t.Errorf("links %q and %q", link, other)
	}
	for i, want := range []int{http.StatusSeeOther, http.StatusGone} {
		if p := newSite(t, server.URL).get(link); p.status != want || len(p.header.Values("Set-Cookie")) != 1-i {
			t.Errorf("time %d: %d %v %s", i+1, p.status, p.header, p.body)
		}
	}
}

// TestNoConsole: the flag leaves it out, and the API is as before.
func TestNoConsole(t *testing.T) {
	base, token := node(t, func(c *daemon.ServiceConfig) { c.NoConsole = true })
	s := newSite(t, base)
	for _, path := range []string{"/console/", "/console", "/console/signin", "/console/static/app.js"} {
		if p := s.get(path); p.status != 404 || p.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d", path, p.status)
		}
	}
	if _, err := serviceAPI(t, base, token).Stats(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFormIsKept: a form that is refused is open and has what was typed, in every field but what
// is typed to confirm.
func TestFormIsKept(t *testing.T) {
	s := newShop(t)
	o := s.held("kept")
	b := newSite(t, s.base).signIn(s.first)
	page := "/console/orders/" + o.CallBackID
	reason := strings.Repeat(`why "not" <b>`, 45) // longer than a reason may be
	p := b.do(http.MethodPost, "/console/tasks/"+client.TaskID(client.TaskOrder, o.CallBackID)+"/decline", url.Values{"reason": {reason}}, "Referer", s.base+page)
	if p.status != http.StatusUnprocessableEntity || !strings.Contains(p.body, "Order <bdi>kept") {
		t.Fatalf("%d %s", p.status, p.body)
	}
	_, form, _ := strings.Cut(p.body, `<details open class="act"><summary>Decline</summary>`)
	form, _, _ = strings.Cut(form, "</details>")
	if !strings.Contains(p.body, "This was not done:") || !strings.Contains(form, `value="why &#34;not&#34; &lt;b&gt;why`) || strings.Contains(p.body, "not\" <b>") {
		t.Errorf("the form is %q", form)
	}
	if strings.Count(p.body, "<details open") != 1 {
		t.Error("another form is open too")
	}
	if p = b.get(page); strings.Contains(p.body, "<details open") || strings.Contains(p.body, "why &#34;not") {
		t.Error("it is kept for longer than once")
	}
}
