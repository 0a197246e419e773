package console

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"countersign/client"
)

// sessionLife is how long a session lasts, unless its token expires earlier.
const sessionLife = 12 * time.Hour

// session is the content of the sealed cookie. Only ended sessions have a table: the API checks the token at every
// call, so revoking it ends the session on every node.
type session struct {
	Token string `json:"t"`
	ID    string `json:"i"` // random
}

// errSignedOut means that there is no session, or that it has ended.
var errSignedOut = errors.New("signed out")

// keep puts v, sealed, into a cookie for the paths below path.
func (c *Console) keep(w http.ResponseWriter, r *http.Request, name, path string, v any, life time.Duration) error {
	plain, err := json.Marshal(v)
	if err != nil {
		return err
	}
	until := strconv.FormatInt(c.Now().Add(life).UnixMilli(), 10)
	sealed := c.Sealer.SealText("cookie "+name, append([]byte(until+"\x00"), plain...))
	cookie := c.cookie(r, name, path)
	if name == providerCookie {
		cookie.SameSite = http.SameSiteLaxMode // the provider's page leads back here, and the browser must bring it
	}
	cookie.Value, cookie.MaxAge = base64.RawURLEncoding.EncodeToString(sealed), int(life.Seconds())
	http.SetCookie(w, cookie)
	return nil
}

// kept reads what keep has put into a cookie. It is sealed for its name, so that one cookie cannot stand for another,
// and with its end, because not every browser forgets.
func (c *Console) kept(r *http.Request, name string, v any) bool {
	cookie, err := r.Cookie(c.cookie(r, name, "").Name)
	if err != nil {
		return false
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cookie.Value)
	if err != nil {
		return false
	}
	plain, err := c.Sealer.OpenText("cookie "+name, sealed)
	if err != nil {
		return false
	}
	until, text, _ := strings.Cut(string(plain), "\x00")
	end, err := strconv.ParseInt(until, 10, 64)
	return err == nil && c.Now().UnixMilli() <= end && json.Unmarshal([]byte(text), v) == nil
}

func (c *Console) drop(w http.ResponseWriter, r *http.Request, name, path string) {
	cookie := c.cookie(r, name, path)
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
}

func (c *Console) cookie(r *http.Request, name, path string) *http.Cookie {
	return &http.Cookie{
		Name: c.cookies + name, Path: path, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}

const (
	sessionCookie = "session"
	root          = "/console/"
)

// start makes the session of a valid token.
func (c *Console) start(w http.ResponseWriter, r *http.Request, token client.Secret) error {
	v := &visit{c: c, w: w, r: r}
	if err := v.enter(token); err != nil {
		return err
	}
	return c.keep(w, r, sessionCookie, root, session{token.Reveal(), rand.Text()}, sessionLife)
}

// signInForm is the content of the sign-in page.
type signInForm struct {
	Next, Problem string
	Provider      client.Provider // zero: there is none
	ProviderHost  string
}

func (c *Console) showSignIn(w http.ResponseWriter, r *http.Request) {
	c.renderSignIn(w, r, http.StatusOK, signInForm{Next: inside(r.URL.Query().Get("next"))})
}

func (c *Console) renderSignIn(w http.ResponseWriter, r *http.Request, status int, form signInForm) {
	v := &visit{c: c, w: w, r: r}
	form.Provider, form.ProviderHost = v.provider()
	if err := v.renderAs(status, "signin", "Sign in", form); err != nil {
		c.Log.Error("console", "page", "signin", "error", err)
	}
}

func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	body, err := readForm(r, strangerForm, c.Bodies.Strangers)
	defer body.Free()
	form := signInForm{Next: inside(r.PostFormValue("next"))}
	if err == nil {
		err = c.start(w, r, client.Secret(strings.TrimSpace(r.PostFormValue("token"))))
	}
	switch {
	case err == nil:
		http.Redirect(w, r, form.Next, http.StatusSeeOther)
	case errors.Is(err, errSignedOut):
		form.Problem = "This is not a valid token of this " + c.end.name + "."
		c.renderSignIn(w, r, http.StatusUnauthorized, form)
	default:
		form.Problem = strings.Join(sentences(err), " ")
		c.renderSignIn(w, r, statusOf(err), form)
	}
}

// signOut ends the session, so that a copy of its cookie is worthless, and drops the cookie.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	var s session
	if c.kept(r, sessionCookie, &s) {
		c.endAtAPI(r, client.Secret(s.Token))
		now := client.TimeOf(c.Now())
		if _, err := c.Sealer.EndSession(r.Context(), s.ID, now, now+client.Time(sessionLife.Milliseconds())); err != nil {
			(&visit{c: c, w: w, r: r}).fail(err)
			return
		}
	}
	c.drop(w, r, sessionCookie, root)
	http.Redirect(w, r, "/console/signin", http.StatusSeeOther)
}

// inside returns next if it is a path of the console, otherwise the first page.
func inside(next string) string {
	if !strings.HasPrefix(next, root) || strings.ContainsAny(next, "\\\r\n") ||
		strings.HasPrefix(next, "/console/signin") {
		return root
	}
	return next
}

// Link returns the path of a link of this process that signs a browser in with the token, once.
func (c *Console) Link(token client.Secret) string {
	code := rand.Text()
	c.links.Store(code, token)
	return "/console/link/" + code
}

func (c *Console) followLink(w http.ResponseWriter, r *http.Request) {
	token, ok := c.links.LoadAndDelete(r.PathValue("code"))
	if !ok {
		c.renderSignIn(w, r, http.StatusGone, signInForm{Next: root,
			Problem: "This link was used before, or it is of an earlier run."})
		return
	}
	if err := c.start(w, r, token.(client.Secret)); err != nil {
		c.renderSignIn(w, r, http.StatusUnauthorized,
			signInForm{Next: root, Problem: "The token of this link is not valid any more."})
		return
	}
	http.Redirect(w, r, root, http.StatusSeeOther)
}

// signedIn returns the token in the session of a request.
func (c *Console) signedIn(r *http.Request) (client.Secret, error) {
	var s session
	if !c.kept(r, sessionCookie, &s) {
		return "", errSignedOut
	}
	ended, err := c.Sealer.SessionEnded(r.Context(), s.ID)
	if err == nil && ended {
		err = errSignedOut
	}
	return client.Secret(s.Token), err
}
