package console_test

import (
	"cmp"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
)

// later is a clock that a test sets forward.
type later struct {
	began time.Time
	more  atomic.Int64
}

func (l *later) elapsed() time.Duration  { return time.Since(l.began) + time.Duration(l.more.Load()) }
func (l *later) forward(d time.Duration) { l.more.Add(int64(d)) }

// people runs a service that people sign in to with p.
func people(t testing.TB, p *peer, groups ...string) (base string, admin *client.Service, clock *later) {
	t.Helper()
	clock = &later{began: time.Now()}
	base, token := node(t, func(c *daemon.ServiceConfig) {
		c.OIDC, c.World.Elapsed = p.oidc(groups...), clock.elapsed
	})
	return base, serviceAPI(t, base, token), clock
}

// tokenOf returns the row of the person with a subject.
func tokenOf(t testing.TB, admin *client.Service, subject string) client.Token {
	t.Helper()
	list, err := client.Get[client.List[client.Token]](t.Context(), admin, "/v1/tokens")
	i := slices.IndexFunc(list.Items, func(k client.Token) bool { return k.Subject == "oidc:"+subject })
	if err != nil || i < 0 {
		t.Fatalf("nobody has the subject %s: %+v, %v", subject, list, err)
	}
	return list.Items[i]
}

// TestProvider: a person signs in with the role of the first group that matches, acts under the
// provider's subject, and signs out.
func TestProvider(t *testing.T) {
	p := newPeer(t, "staff", "shop-b", "shop-a")
	base, admin, _ := people(t, p, "treasury=approver", "shop-a=operator:a,c", "staff=viewer", "shop-b=operator:b")
	s := newSite(t, base)
	if in := s.get("/console/signin?next=/console/alarms"); !strings.Contains(in.body, `href="/console/signin/provider?next=%2fconsole%2falarms"`) || !strings.Contains(in.body, "Sign in with "+strings.TrimPrefix(p.URL, "http://")) {
		t.Errorf("the page for signing in: %s", in.body)
	}
	back := s.atPeer("/console/alarms?state=all")
	in := s.get(back)
	set := strings.Join(in.header.Values("Set-Cookie"), "\n")
	if in.status != 200 || in.header.Get("Refresh") != "0;url=/console/alarms?state=all" || !strings.Contains(set, "session=") || strings.Contains(set, "cso_") {
		t.Fatalf("signed in: %d %v", in.status, in.header)
	}
	s.get("/console/callbacks").is(200, "Ann (ann@example.com)") // the first page
	ann := tokenOf(t, admin, "ann")
	if ann.Role != client.RoleOperator || !slices.Equal(ann.Merchants, []string{"a", "b", "c"}) || ann.Name != "Ann (ann@example.com)" {
		t.Errorf("%+v", ann)
	}
	// A second browser is the same person.
	other := newSite(t, base).signInPeer()
	if list, err := client.Get[client.List[client.Token]](t.Context(), admin, "/v1/tokens"); err != nil || len(list.Items) != 2 {
		t.Errorf("tokens: %+v, %v", list, err)
	}
	log := must(admin.Audit(t.Context(), client.FeedOptions{Limit: 1000}))(t)
	signedIn := 0
	for _, e := range log.Entries {
		told := must(journal.Read(e.Record))(t)
		if told.Kind == "person.signedin" && told.By != nil && told.By.Subject == "oidc:ann" && told.By.Name == ann.Name && strings.Contains(string(e.Record), `"group":"shop-a"`) && strings.Contains(string(e.Record), p.URL) {
			signedIn++
		}
	}
	if signedIn != 2 {
		t.Errorf("%d records of 2 sign-ins", signedIn)
	}
	// The other session does not end with this one.
	s.post("/console/signout", nil).is(303) // signing out
	other.get("/console/callbacks").is(200) // the other session
	// Revoked, the person is signed out everywhere.
	must(admin.RevokeToken(t.Context(), ann.ID))(t)
	other.get("/console/callbacks").is(303) // revoked
	other.signInPeer()
	other.get("/console/callbacks").is(200) // signed in again
}

// TestProviderAgain: the provider is asked again; who loses the group loses the role, a session
// ends with the provider's, and one that cannot be asked about ends too.
func TestProviderAgain(t *testing.T) {
	p := newPeer(t, "desk")
	base, admin, clock := people(t, p, "desk=operator", "audit=viewer")
	s := newSite(t, base).signInPeer()
	is := func(what string, status int) {
		t.Helper()
		if at := s.get("/console/callbacks"); at.status != status {
			t.Errorf("%s: %d, want %d", what, at.status, status)
		}
	}
	is("at once", 200)
	if p.asked.Load() != 0 {
		t.Errorf("asked %d times at once", p.asked.Load())
	}
	clock.forward(6 * time.Minute)
	is("6 minutes later", 200)
	is("and again", 200)
	if p.asked.Load() != 1 || p.replayed.Load() != 0 {
		t.Errorf("asked %d times, %d replayed", p.asked.Load(), p.replayed.Load())
	}
	p.set(func() { p.claims["groups"] = []string{"audit"}; p.claims["name"] = "Ann B." })
	clock.forward(6 * time.Minute)
	is("as a viewer", 200)
	if ann := tokenOf(t, admin, "ann"); ann.Role != client.RoleViewer || !strings.HasPrefix(ann.Name, "Ann B.") {
		t.Errorf("%+v", ann)
	}
	// The provider is away for less than 15 minutes, and for more.
	p.set(func() { p.away = true })
	clock.forward(6 * time.Minute)
	is("away for 6 minutes", 200)
	p.set(func() { p.away = false })
	clock.forward(6 * time.Minute)
	is("12 minutes without an answer", 200)
	if p.replayed.Load() != 0 {
		t.Errorf("%d replayed", p.replayed.Load())
	}
	p.set(func() { p.away = true })
	clock.forward(14 * time.Minute)
	is("away for 14 minutes", 200)
	clock.forward(90 * time.Second)
	is("away for 15 minutes", 303)
	p.set(func() { p.away = false })
	s.signInPeer()
	// A session ends with the provider's.
	p.set(func() { p.over = true })
	is("before it is asked", 200)
	clock.forward(6 * time.Minute)
	is("signed out at the provider", 303)
	p.set(func() { p.over = false })
	s.signInPeer()
	// The provider's answer to a refresh token reaches nobody, as where the process is killed before it keeps the next
	// one. What the provider said before counts for its 15 minutes, and then nothing does.
	replayed := p.replayed.Load()
	p.set(func() { p.lost = true })
	clock.forward(6 * time.Minute)
	is("the answer is lost", 200)
	p.set(func() { p.lost = false })
	clock.forward(time.Minute)
	is("with a token that was used", 303)
	if p.replayed.Load() != replayed+1 {
		t.Errorf("%d replayed", p.replayed.Load()-replayed)
	}
	s.signInPeer()
	// No group has a role any more: all that the person has here ends.
	other := newSite(t, base).signInPeer()
	p.set(func() { p.claims["groups"] = []string{"desks", "desk=operator"} })
	clock.forward(6 * time.Minute)
	other.get("/console/callbacks").is(303) // without a role
	is("another session of a person without a role", 303)
	if ann := tokenOf(t, admin, "ann"); ann.Revoked == 0 {
		t.Errorf("%+v", ann)
	}
	s.get(s.atPeer("/")).is(403, "none of the groups") // signing in without a role
	// Sessions end after half a day, whatever the provider says.
	p.set(func() { p.claims["groups"] = []string{"desk"} })
	s.signInPeer()
	clock.forward(12 * time.Hour)
	is("12 hours later", 303)
}

// TestProviderAttacks: what is not the provider's answer to this browser's sign-in signs nobody in.
func TestProviderAttacks(t *testing.T) {
	p := newPeer(t, "desk")
	p.named = true
	base, admin, clock := people(t, p, "desk=operator")
	none := func(what string, s *site, path string, status int) {
		t.Helper()
		at := s.get(path)
		if at.status != status || slices.ContainsFunc(s.cookies(), func(c *http.Cookie) bool { return strings.HasSuffix(c.Name, "session") }) || at.header.Get("Refresh") != "" {
			t.Errorf("%s: %d, want %d: %s", what, at.status, status, at.body)
		}
	}
	with := func(path, name, value string) string {
		u, _ := url.Parse(path)
		q := u.Query()
		q.Set(name, value)
		return u.Path + "?" + q.Encode()
	}
	s := newSite(t, base)
	none("another state", s, with(s.atPeer("/"), "state", "mine"), 422)
	none("no state", s, with(s.atPeer("/"), "state", ""), 422)
	none("of another issuer", s, with(s.atPeer("/"), "iss", "https://evil.example"), 401)
	none("of no issuer", s, with(s.atPeer("/"), "iss", ""), 401)
	none("another code", s, with(s.atPeer("/"), "code", "mine"), 401)
	none("an error", s, with(s.atPeer("/"), "error", "<script>"), 401)
	victim := newSite(t, base)
	none("a sign-in that another browser began", victim, s.atPeer("/"), 400)
	mine := s.atPeer("/")
	victim.atPeer("/")
	none("of another browser, which has begun one too", victim, mine, 422)
	late := s.atPeer("/")
	clock.forward(11 * time.Minute)
	none("after 11 minutes", s, late, 400)

	// A redirect is taken once, also with the cookie that it needs.
	back := s.atPeer("/")
	u, _ := url.Parse(base + back)
	var cookies []string
	for _, c := range s.c.Jar.Cookies(u) {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	s.get(back).is(200)
	before := p.replayed.Load()
	if at := newSite(t, base).do("GET", back, nil, "Cookie", strings.Join(cookies, "; ")); at.status != 422 || p.replayed.Load() != before {
		t.Errorf("a redirect again: %d, at the provider %d", at.status, p.replayed.Load()-before)
	}
	// The session is a new one, whatever cookie the browser had; and nothing leads elsewhere.
	for _, next := range []string{"https://evil.example/", "//evil.example", "/console/\\evil", "/v1/stats"} {
		if at := s.get(s.atPeer(next)); at.header.Get("Refresh") != "0;url=/console/" {
			t.Errorf("next %q leads to %q", next, at.header.Get("Refresh"))
		}
	}

	other := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	s = newSite(t, base)
	claim := func(name string, v any) func(map[string]any) string {
		return func(c map[string]any) string { c[name] = v; return p.rs256(c) }
	}
	for what, sign := range map[string]func(map[string]any) string{
		"another audience": claim("aud", "other"), "two audiences": claim("aud", []string{peerClient, "other"}), "another party": claim("azp", "other"),
		"another issuer": claim("iss", "https://evil.example"), "another nonce": claim("nonce", "n"), "no nonce": claim("nonce", nil), "expired": claim("exp", time.Now().Add(-time.Hour).Unix()),
		"no subject": claim("sub", ""), "a subject with a line": claim("sub", "a\nb"), "a subject with a space": claim("sub", "a b"), "a long subject": claim("sub", strings.Repeat("a", 256)),
		"another key": func(c map[string]any) string { return rs256By(other, c) },
		"the secret":  func(c map[string]any) string { return hs256By(peerSecret, c) },
		"none": func(c map[string]any) string {
			return jwt(map[string]any{"alg": "none"}, c, func(string) []byte { return nil })
		},
		"no token": func(map[string]any) string { return "" },
	} {
		p.set(func() { p.sign = sign })
		none(what, s, s.atPeer("/"), 401)
	}
	p.set(func() { p.sign = nil })
	// Hostile texts: of a group that is not the one it looks like, and of a name.
	for _, groups := range []any{[]string{"Desk"}, []string{"desk\x00"}, []string{"desk\u200b"}, []string{"x=operator\ndesk"}, "desk,x", nil, 7, []any{[]string{"desk"}}} {
		p.set(func() { p.claims["groups"] = groups })
		none("groups", s, s.atPeer("/"), 403)
	}
	p.set(func() {
		p.claims["groups"], p.sub = "desk", "../../tok'<b>"
		p.claims["name"], p.claims["email"] = "\u202eAnn\x00 <script>\n"+strings.Repeat("x", 500), "a\tb"
	})
	s.signInPeer()
	if k := tokenOf(t, admin, p.sub); strings.ContainsAny(k.Name, "\u202e\x00\n\t") || len([]rune(k.Name)) > 200 || !strings.HasPrefix(k.Name, "Ann <script>") {
		t.Errorf("%q", k.Name)
	}
	// The session is of who signed in, though the browser had another person's.
	if at := s.get("/console/callbacks"); at.status != 200 || !strings.Contains(at.body, "Ann &lt;script&gt;") || strings.Contains(at.body, "Ann (ann@") {
		t.Errorf("%d %s", at.status, at.body)
	}
}

// TestProviderAway: a daemon whose provider is away starts, takes tokens, and says so.
func TestProviderAway(t *testing.T) {
	p := newPeer(t, "desk")
	p.away, p.public = true, true // its client has no secret
	base, admin, clock := people(t, p, "desk=operator")
	must(admin.Self(t.Context()))(t)
	s := newSite(t, base)
	s.get("/console/signin").is(200, "cannot be used to sign in now. A token still signs in.")
	s.get("/console/signin/provider").is(503, "tokens still sign in")
	p.set(func() { p.away = false })
	clock.forward(5 * time.Second)
	s.signInPeer()
	clock.forward(6 * time.Minute)
	if at := s.get("/console/callbacks"); at.status != 200 || p.asked.Load() != 1 || p.replayed.Load() != 0 {
		t.Errorf("%d, asked %d times, %d replayed", at.status, p.asked.Load(), p.replayed.Load())
	}
}

// TestNodes: a session holds on every node of a database, and ends on every node with its token, or when the person
// signs out. The provider is asked by one node at a time.
func TestNodes(t *testing.T) {
	database := dbtest.Postgres(t)
	p := newPeer(t, "desk")
	clock := &later{began: time.Now()}
	var bases []string
	var token client.Secret
	for i := range 2 {
		base, first := node(t, func(c *daemon.ServiceConfig) {
			c.OIDC, c.World.Elapsed, c.DB, c.Keys, c.Node = p.oidc("desk=operator"), clock.elapsed, database, sharedKeys(), fmt.Sprint("node-", i+1)
			c.World.Every = func(usual time.Duration) time.Duration { // no node follows the database's clock, which stays
				if usual == 5*time.Second {
					return time.Hour
				}
				return usual
			}
		})
		bases, token = append(bases, base), cmp.Or(token, first)
	}
	admin := serviceAPI(t, bases[0], token)
	dbtest.Until(t, "both nodes are listed", func() bool {
		list, err := client.Get[client.List[client.Node]](t.Context(), serviceAPI(t, bases[1], token), "/v1/nodes")
		return err == nil && len(list.Items) == 2 && list.Items[0].Name == "node-1" && !list.Items[0].Self && list.Items[1].Self && !list.Items[1].Silent
	})
	made := must(admin.CreateToken(t.Context(), client.NewToken{Name: "program", Role: client.RoleViewer}))(t)
	b := newSite(t, bases[0]).signIn(made.Secret)
	b.base = bases[1]                                                                    // a balancer leads the browser to the other node: cookies know no ports
	b.get("/console/now").is(200, "node-1", `node-2</bdi> <span class="hint">this one,`) // on the other node
	must(admin.RevokeToken(t.Context(), made.ID))(t)
	dbtest.Until(t, "the session ends with its token", func() bool { return b.get("/console/").status != 200 })
	if len(b.cookies()) > 0 {
		t.Errorf("a cookie is left: %v", b.cookies())
	}

	s := newSite(t, bases[0]).signInPeer()
	cookie := s.cookies()[0]
	ask := func(base string) int {
		return newSite(t, base).do("GET", "/console/callbacks", nil, "Cookie", cookie.Name+"="+cookie.Value).status
	}
	if got := ask(bases[1]); got != 200 {
		t.Errorf("at the other node: %d", got)
	}
	clock.forward(30 * time.Minute) // nobody is answered before the provider is
	got := make(chan int)
	for i := range 20 {
		go func() { got <- ask(bases[i%2]) }()
	}
	for range 20 {
		if status := <-got; status != 200 {
			t.Errorf("with others: %d", status)
		}
	}
	if p.asked.Load() != 1 || p.replayed.Load() != 0 {
		t.Errorf("asked %d times, %d with a token that was used", p.asked.Load(), p.replayed.Load())
	}
	s.post("/console/signout", nil).is(303)
	if got := ask(bases[1]); got != 303 {
		t.Errorf("signed out at the other node: %d", got)
	}
}
