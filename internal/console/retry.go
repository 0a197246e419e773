package console

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// refused is a post that was refused: what was wrong with it, and what was typed. The
// browser is sent back to the page with the form and brings it along in a cookie, so
// that no page of the browser's history is a post.
type refused struct {
	Problems []string
	At       string // path that was posted to
	Typed    map[string]string
	Packed   []byte // Typed, where it is long: a note has 2,000 characters
}

const (
	refusedCookie = "refused"
	refusedLife   = 2 * time.Minute // for the browser to follow the redirect
	// maxCookie is what browsers keep in one cookie, in characters, with its name and
	// attributes.
	maxCookie = 3500
)

// retry sends the browser back to the page that it posted from. Secrets are not kept.
func (v *visit) retry(problems []string) error {
	o := refused{Problems: problems, At: v.r.URL.EscapedPath(), Typed: map[string]string{}}
	n := 0
	for name := range v.r.PostForm {
		switch name {
		case "apiKey", "callbackApiKey", "token", "confirm", "state", "credential", "signed-credential", "signed-text":
		default:
			o.Typed[name] = v.r.PostForm.Get(name)
			n += len(name) + len(o.Typed[name])
		}
	}
	if n > maxCookie/2 {
		o.Packed, o.Typed = pack(o.Typed), nil
	}
	if err := v.c.keep(v.w, v.r, refusedCookie, root, o, refusedLife); err != nil {
		return err
	}
	http.Redirect(v.w, v.r, v.cameFrom(), http.StatusSeeOther)
	return nil
}

// pack makes what was typed short, and gives nil where that is too long for a cookie all the same.
func pack(typed map[string]string) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err == nil {
		err = json.NewEncoder(w).Encode(typed)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil || b.Len() > maxCookie/2 { // Base64, twice
		return nil
	}
	return b.Bytes()
}

// unpack returns what pack was given.
func unpack(packed []byte) (typed map[string]string) {
	// The console sealed it, so it is no longer than a form.
	if json.NewDecoder(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxForm)).Decode(&typed) != nil {
		return nil
	}
	return typed
}

// cameFrom is the page with the form that was posted: the browser says so. Else it is the
// page above.
func (v *visit) cameFrom() string {
	from, err := url.Parse(v.r.Referer())
	if err == nil && from.Host == v.r.Host && strings.HasPrefix(from.Path, root) {
		q := from.Query()
		q.Del("did")
		from.RawQuery = q.Encode()
		return from.RequestURI()
	}
	return v.above()
}

// above is the page above this one.
func (v *visit) above() string {
	if up := path.Dir(strings.TrimSuffix(v.r.URL.Path, "/")); strings.HasPrefix(up, root) {
		return up
	}
	return root
}

// refused returns the post that was refused before this page, once.
func (v *visit) refused() refused {
	var o refused
	if v.before == nil {
		if v.c.kept(v.r, refusedCookie, &o) {
			v.c.drop(v.w, v.r, refusedCookie, root)
			if o.Packed != nil {
				o.Typed = unpack(o.Packed)
			}
		}
		v.before = &o
	}
	return *v.before
}

// values fills a form: with what was typed before a post was refused, else with is.
func (v *visit) values(is map[string]string) map[string]string {
	if o := v.refused(); len(o.Problems) > 0 && o.Typed != nil {
		return o.Typed
	}
	return is
}
