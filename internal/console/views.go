package console

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// view is a filter of a list that a person has given a name. Views are in a cookie: they need no
// right, no row and no script, and nobody else reads what they look for. They are those of one
// token in one browser.
type view struct {
	Name  string `json:"n"`
	Path  string `json:"p"`
	Query string `json:"q"` // encoded
}

// The bounds of views beside that of a cookie, which has all of them.
const (
	maxViews    = 20
	maxViewName = 60 // characters
	viewsLife   = 400 * 24 * time.Hour
)

// viewPaths are the lists that have views.
var viewPaths = []string{"/console/callbacks", "/console/withdrawals", "/console/orders", "/console/deposits", root, "/console/addresses", "/console/alarms"}

// viewsCookie names the cookie of the session's token.
func (v *visit) viewsCookie() string {
	of := sha256.Sum256([]byte(v.me.ID))
	return "views-" + hex.EncodeToString(of[:4])
}

func (v *visit) views() (list []view) {
	if !v.c.kept(v.r, v.viewsCookie(), &list) {
		return nil
	}
	return list
}

// filterOf returns the part of a query that a view has.
func filterOf(q url.Values) url.Values {
	f := maps.Clone(q)
	for _, own := range []string{"cursor", "did", "format"} {
		f.Del(own)
	}
	maps.DeleteFunc(f, func(_ string, values []string) bool { return strings.Join(values, "") == "" })
	return f
}

// savedView is a view as a page offers it.
type savedView struct {
	view
	Link string
	Here bool // the list is filtered so now
}

// viewsBar is what the page of a list shows of views.
type viewsBar struct {
	Views       []savedView
	Path, Query string // of what can be saved
	Current     string // the name of the view that the page shows; empty: none
	Name        string // of what is saved, if nothing else is typed
}

// ViewsBar returns the views of this page's list.
func (f frame) ViewsBar() viewsBar {
	bar := viewsBar{Path: f.Path, Query: filterOf(f.v.r.URL.Query()).Encode()}
	for _, s := range f.v.views() {
		if s.Path != f.Path {
			continue
		}
		shown := savedView{s, s.Path + "?" + s.Query, s.Query == bar.Query}
		if shown.Here {
			bar.Current = s.Name
		}
		bar.Views = append(bar.Views, shown)
	}
	bar.Name = viewName(filterOf(f.v.r.URL.Query()))
	return bar
}

// viewName says what a filter selects.
func viewName(q url.Values) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		parts = append(parts, q.Get(name))
	}
	name := []rune(strings.Join(parts, ", "))
	return string(name[:min(len(name), maxViewName)])
}

// viewSave gives the filter of a list a name, or takes the name from it.
func (v *visit) viewSave() error {
	path := v.form("path")
	q, err := url.ParseQuery(v.form("query"))
	if err != nil || !slices.Contains(viewPaths, path) {
		return refuse("there is no such list")
	}
	q = filterOf(q)
	name := strings.Join(strings.Fields(v.form("name")), " ")
	if name == "" {
		name = viewName(q)
	}
	remove := v.form("remove") != ""
	list := slices.DeleteFunc(v.views(), func(s view) bool {
		return s.Path == path && (s.Query == q.Encode() || !remove && s.Name == name)
	})
	did := "view-removed"
	if !remove {
		did = "view-saved"
		switch {
		case len(q) == 0:
			return refuse("nothing is filtered: search for something, and save that")
		case utf8.RuneCountInString(name) > maxViewName || !utf8.ValidString(name):
			return refuse("the name is too long: 60 characters are the most")
		case len(list) == maxViews:
			return refuse("there are 20 views already: remove one of them first")
		}
		list = append(list, view{name, path, q.Encode()})
	}
	w := &headerOnly{header: http.Header{}}
	if err := v.c.keep(w, v.r, v.viewsCookie(), root, list, viewsLife); err != nil {
		return err
	}
	if set := w.header.Get("Set-Cookie"); !remove && len(set) > maxCookie {
		return refuse("a browser keeps no more of them: remove a view, or filter by less")
	}
	v.w.Header().Add("Set-Cookie", w.header.Get("Set-Cookie"))
	return v.done(path+"?"+q.Encode(), did)
}

// headerOnly takes a header alone.
type headerOnly struct{ header http.Header }

func (w *headerOnly) Header() http.Header         { return w.header }
func (w *headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (w *headerOnly) WriteHeader(int)             {}
