package console

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// refused is a post that was refused: the problems and what was typed. The answer is the page with the form, which
// shows both.
type refused struct {
	Problems []string
	Act      string // the last part of the path that was posted to
	Typed    map[string]string
	status   int
}

type refusedKey struct{}

// retry shows the page that was posted from. It drops secrets.
func (v *visit) retry(status int, problems []string) {
	o := refused{problems, path.Base(v.r.URL.Path), map[string]string{}, status}
	for name := range v.r.PostForm {
		switch name {
		case "apiKey", "callbackApiKey", "token", "confirm", "state":
		default:
			o.Typed[name] = v.r.PostForm.Get(name)
		}
	}
	r, err := http.NewRequestWithContext(context.WithValue(v.r.Context(), refusedKey{}, o), http.MethodGet,
		v.cameFrom(), nil)
	if err != nil {
		panic(err) // a page of the console
	}
	r.Host, r.RemoteAddr, r.TLS, r.Header = v.r.Host, v.r.RemoteAddr, v.r.TLS, v.r.Header
	v.c.mux.ServeHTTP(v.w, r)
}

// cameFrom returns the page with the posted form, if the browser names it, or else the nearest page above.
func (v *visit) cameFrom() string {
	from, err := url.Parse(v.r.Referer())
	if err != nil || from.Host != v.r.Host {
		return v.nearest(v.r.URL.EscapedPath())
	}
	to := v.nearest(from.EscapedPath())
	q := from.Query()
	q.Del("did")
	if to == from.EscapedPath() && len(q) > 0 {
		to += "?" + q.Encode()
	}
	return to
}

// above returns the page above this one.
func (v *visit) above() string { return v.nearest(path.Dir(v.r.URL.EscapedPath())) }

// nearest returns at, or the nearest path above it that is a page.
func (v *visit) nearest(at string) string {
	for ; strings.HasPrefix(at, root); at = path.Dir(at) {
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: at}}
		if _, pattern := v.c.mux.Handler(r); strings.HasPrefix(pattern, "GET ") {
			return at
		}
	}
	return root
}

// values returns the values for a form: what was typed before a post was refused, or else is.
func (v *visit) values(is map[string]string) map[string]string {
	if len(v.before.Problems) > 0 {
		return v.before.Typed
	}
	return is
}
