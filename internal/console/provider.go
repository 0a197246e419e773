package console

import (
	"net/http"
	"net/url"
	"regexp"
	"time"

	"countersign/client"
)

const (
	providerCookie = "provider"
	providerPath   = "/console/signin/provider"
	// ReturnPath is the path to which the provider sends people back, as registered there.
	ReturnPath = providerPath + "/return"
	// providerLife is how long a sign-in at the provider may take.
	providerLife = 10 * time.Minute
)

// begun is a sign-in at the provider that this browser started.
type begun struct {
	State string `json:"s"`
	Next  string `json:"n"`
}

// provider returns the provider and its host, or zero values if there is none.
func (v *visit) provider() (p client.Provider, host string) {
	if v.connect("") == nil {
		p, _ = read[client.Provider](v, "/v1/signin/provider") // where it cannot be asked, tokens sign in
	}
	if u, err := url.Parse(p.Issuer); err == nil {
		host = u.Host
	}
	return p, host
}

// toProvider sends the browser to the provider. It is a link, not a form: the page may post forms to no other host.
func (c *Console) toProvider(w http.ResponseWriter, r *http.Request) {
	v := &visit{c: c, w: w, r: r}
	next, again := inside(r.URL.Query().Get("next")), r.URL.Query().Get("again") != ""
	err := v.connect("")
	var at client.ProviderBegun
	if err == nil {
		at, err = send[client.ProviderBegun](v, "/v1/signin/provider/begin", client.ProviderOrigin{Origin: origin(r), Again: again})
	}
	if err == nil {
		err = c.keep(w, r, providerCookie, providerPath, begun{at.State, next}, providerLife)
	}
	if err != nil {
		c.renderSignIn(w, r, statusOf(err), signInForm{Next: next, Problem: sentences(err)[0]})
		return
	}
	http.Redirect(w, r, at.URL, http.StatusSeeOther)
}

// again answers a person whose sign-in is too old for an action with a page that leads to the provider, and back to the
// page of the action. It is not a redirect: after a form, a browser follows none to another host.
func (v *visit) again() error {
	at, err := url.Parse(v.cameFrom())
	if err != nil {
		return err
	}
	q := at.Query()
	q.Set("did", "again")
	next := inside(at.EscapedPath() + "?" + q.Encode())
	return v.leadOn(http.StatusUnauthorized, leads{"Sign in again",
		"You signed in more than five minutes ago. Before this is done the company's provider asks who you are.",
		providerPath + "?again=1&next=" + url.QueryEscape(next), "Sign in again"})
}

// leads is a page that moves on to another by itself.
type leads struct{ title, Says, To, Text string }

func (v *visit) leadOn(status int, l leads) error {
	v.w.Header().Set("Refresh", "0;url="+l.To)
	return v.renderAs(status, "again", l.title, l)
}

// origin returns the origin of this page, as the browser sends it.
func origin(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

var errorWord = regexp.MustCompile(`^[a-z_]{1,40}$`)

// fromProvider signs in a browser that the provider sent back. It answers with a page that leads on, not with a
// redirect: a request by way of another site carries no session cookie.
func (c *Console) fromProvider(w http.ResponseWriter, r *http.Request) {
	var s begun
	began := c.kept(r, providerCookie, &s)
	c.drop(w, r, providerCookie, providerPath)
	v, q := &visit{c: c, w: w, r: r}, r.URL.Query()
	form := signInForm{Next: inside(s.Next)}
	err := v.connect("")
	status, word := http.StatusUnauthorized, q.Get("error")
	switch {
	case !began:
		status, form.Problem = http.StatusBadRequest,
			"This sign-in did not begin in this browser, or began more than 10 minutes ago. Sign in again."
	case errorWord.MatchString(word):
		form.Problem = "The identity provider did not sign you in (" + word + ")."
	case word != "":
		form.Problem = "The identity provider did not sign you in."
	case err == nil:
		var in client.SignedIn
		in, err = send[client.SignedIn](v, "/v1/signin/provider/finish", client.ProviderReturn{State: s.State,
			ReturnedState: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss")})
		if err == nil {
			err = c.start(w, r, in.Secret)
		}
	}
	if err != nil {
		status, form.Problem = statusOf(err), sentences(err)[0]
	}
	if form.Problem != "" {
		c.renderSignIn(w, r, status, form)
		return
	}
	if err := v.leadOn(http.StatusOK, leads{"Signed in", "You are signed in.", form.Next, "Go on"}); err != nil {
		c.Log.Error("console", "page", "signed in", "error", err)
	}
}

// endAtAPI ends a session of the identity provider. A token has no such session, and one that cannot be ended now ends
// within minutes.
func (c *Console) endAtAPI(r *http.Request, secret client.Secret) {
	v := &visit{c: c, r: r}
	if v.connect(secret) == nil {
		_, _ = v.api.Call(r.Context(), http.MethodPost, "/v1/signin/out", nil)
	}
}
