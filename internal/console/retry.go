package console

import (
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
	Act      string // the last part of the path that was posted to
	Typed    map[string]string
}

const (
	refusedCookie = "refused"
	refusedLife   = 2 * time.Minute // for the browser to follow the redirect
	// maxTyped is how much of what was typed is kept, in bytes: sealed, it must fit into the 4,096
	// that browsers keep of a cookie. A longer text is lost.
	maxTyped = 2400
)

// retry sends the browser back to the page that it posted from. Secrets are not kept.
func (v *visit) retry(problems []string) error {
	o := refused{Problems: problems, Act: path.Base(v.r.URL.Path), Typed: map[string]string{}}
	n := 0
	for name := range v.r.PostForm {
		switch name {
		case "apiKey", "callbackApiKey", "token", "confirm", "state":
		default:
			o.Typed[name] = v.r.PostForm.Get(name)
			n += len(name) + len(o.Typed[name])
		}
	}
	if n > maxTyped {
		o.Typed = nil
	}
	if err := v.c.keep(v.w, v.r, refusedCookie, root, o, refusedLife); err != nil {
		return err
	}
	http.Redirect(v.w, v.r, v.cameFrom(), http.StatusSeeOther)
	return nil
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
