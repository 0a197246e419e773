package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"countersign/client"
	"countersign/internal/web"
)

// visit is one request for a page by a signed-in person.
type visit struct {
	c *Console
	w http.ResponseWriter
	r *http.Request

	me     client.Self    // the session's token and what it may do
	api    *client.Common // of the end
	before refused        // the post that this page answers; zero: it was not refused, or there is none
	err    error          // the first of fetch, which render returns
}

// page returns the handler of one row of the table of pages.
func (c *Console) page(p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{c: c, w: w, r: r}
		v.before, _ = r.Context().Value(refusedKey{}).(refused)
		token, err := c.signedIn(r)
		if err == nil {
			if _, bad := url.ParseQuery(r.URL.RawQuery); bad != nil { // v.query would leave a filter out
				err = refuse("the address is malformed")
			}
		}
		if err == nil {
			err = v.enter(token)
		}
		if err == nil && r.Method == http.MethodPost {
			budget := c.Bodies.Callers
			if slices.Contains(urgent, p.pattern) {
				budget = c.Bodies.Urgent
			}
			var form web.Body
			form, err = readForm(r, maxForm, budget)
			defer form.Free()
		}
		if err == nil {
			err = p.serve(v)
		}
		if err != nil {
			v.fail(err)
		}
	})
}

// enter connects the visit to the API and reads whose token it is.
func (v *visit) enter(token client.Secret) error {
	err := v.connect(token)
	if err != nil { // a token with characters that no token has
		return errSignedOut
	}
	v.me, err = v.api.Self(v.r.Context())
	if errors.Is(err, client.ErrUnauthorized) {
		return errSignedOut
	}
	return err
}

// connect connects the visit to the API.
func (v *visit) connect(token client.Secret) error {
	s, err := client.NewService(client.Config{URL: "http://console.invalid", Token: token,
		HTTPClient: &http.Client{Transport: directTransport{v.c.API, v.r.RemoteAddr}}})
	if err == nil {
		v.api = &s.Common // all that is used of it is the same for both ends
	}
	return err
}

// read returns what the API answers at a path.
func read[T any](v *visit, path string, query ...any) (T, error) {
	return client.Get[T](v.r.Context(), v.api, path, query...)
}

// fetch reads an answer for a page that is rendered afterwards. It keeps the first error, which render returns, and
// reads nothing more after it.
func fetch[T any](v *visit, path string, query ...any) (answer T) {
	if v.err == nil {
		answer, v.err = read[T](v, path, query...)
	}
	return answer
}

// fetchPage returns the entries of the first page of a list, as fetch does. more reports whether there are others.
func fetchPage[T any](v *visit, path string, limit int, filter ...any) (items []T, more bool) {
	page := fetch[client.List[T]](v, path, append(filter, client.PageOptions{Limit: limit})...)
	return page.Items, page.Next != nil
}

// send posts to the API.
func send[T any](v *visit, path string, in any) (T, error) {
	return client.Post[T](v.r.Context(), v.api, path, in)
}

// atEnd returns the value for this end.
func atEnd[T any](v *visit, service, gateway T) T {
	if v.c.end.name == "service" {
		return service
	}
	return gateway
}

// may reports whether the session's token may call an operation of the API.
func (v *visit) may(operation string) bool { return slices.Contains(v.me.May, operation) }

// query returns a parameter of the address.
func (v *visit) query(name string) string { return strings.TrimSpace(v.r.URL.Query().Get(name)) }

// form returns a field of the form, without spaces around it. Browsers post the end of a line as two characters.
func (v *visit) form(name string) string {
	return strings.TrimSpace(strings.ReplaceAll(v.r.PostFormValue(name), "\r\n", "\n"))
}

// done ends a post: it redirects the browser to the page at to, which shows what was done. The back button then skips
// the post.
func (v *visit) done(to, did string) error {
	sep := "?"
	if strings.Contains(to, "?") {
		sep = "&"
	}
	http.Redirect(v.w, v.r, to+sep+"did="+did, http.StatusSeeOther)
	return nil
}

// call returns the handler of a form that makes one call of the API. operation is its method and path, whose {id} is
// that of the page. members are the fields of the form that are members of the body; one with a ? is true if it is
// ticked. The browser then goes back.
func call(notice, operation string, members ...string) func(*visit) error {
	method, path, _ := strings.Cut(operation, " ")
	return func(v *visit) error {
		var body json.RawMessage
		if len(members) > 0 {
			in := map[string]any{}
			for _, name := range members {
				name, box := strings.CutSuffix(name, "?")
				if text := v.form(name); text != "" && box {
					in[name] = true
				} else if text != "" {
					in[name] = text
				}
			}
			body, _ = json.Marshal(in) // texts and truths
		}
		return v.change(v.cameFrom(), notice, method, strings.Replace(path, "{id}", url.PathEscape(v.r.PathValue("id")), 1), body)
	}
}

// change makes one call. The browser then goes to the page at to, or to the task if an approver must approve it.
func (v *visit) change(to, notice, method, path string, in json.RawMessage) error {
	answer, err := v.api.Call(v.r.Context(), method, path, in)
	if err != nil {
		return err
	}
	var waits struct{ Task string }
	_ = json.Unmarshal(answer, &waits) // an answer without it names no task
	if waits.Task != "" {
		return v.done("/console/tasks/"+url.PathEscape(waits.Task), "waits")
	}
	return v.done(to, notice)
}

// typed returns an error unless the person has typed the word that confirms an action.
func (v *visit) typed(word string) error {
	if !strings.EqualFold(v.form("confirm"), word) {
		return refuse("type the word " + word + " to confirm")
	}
	return nil
}

// confirmed returns do, made conditional on the typed word.
func confirmed(word string, do func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		if err := v.typed(word); err != nil {
			return err
		}
		return do(v)
	}
}

// elsewhere redirects a token that may not see the first page to one that it may see.
func (v *visit) elsewhere() error {
	for _, part := range v.c.end.sections {
		if n := part.nav; n.Path != "" && n.Path != root && v.may(n.May) {
			http.Redirect(v.w, v.r, n.Path, http.StatusSeeOther)
			return nil
		}
	}
	return v.renderAs(http.StatusForbidden, "error", "Nothing to see", failure{Status: http.StatusForbidden, Back: root,
		Says: []string{
			fmt.Sprintf("A token of the role %s has no page here: it is for a program.", v.me.Role)}})
}

// fail shows what went wrong.
func (v *visit) fail(err error) {
	v.err = nil
	var p *client.Problem
	if errors.As(err, &p) && p.Code == client.CodeSignInAgain && v.again() == nil {
		return
	}
	if errors.Is(err, errSignedOut) || errors.Is(err, client.ErrUnauthorized) {
		v.c.drop(v.w, v.r, sessionCookie, root)
		to := "/console/signin"
		switch {
		case v.r.Header.Get("HX-Request") != "":
			v.w.Header().Set("HX-Redirect", to)
			v.w.WriteHeader(http.StatusUnauthorized)
			return
		case v.r.Method == http.MethodGet:
			to += "?next=" + url.QueryEscape(v.r.URL.RequestURI())
		}
		http.Redirect(v.w, v.r, to, http.StatusSeeOther)
		return
	}
	status := statusOf(err)
	if v.r.Method == http.MethodPost && v.me.ID != "" && status < http.StatusInternalServerError {
		v.retry(status, sentences(err))
		return
	}
	if status >= http.StatusInternalServerError {
		v.c.Log.Error("console", "page", v.r.Pattern, "error", err)
	}
	says := failure{status, sentences(err), v.above()}
	if err := v.renderAs(status, "error", http.StatusText(status), says); err != nil {
		v.c.Log.Error("console", "page", "error", "error", err)
	}
}

// failure is what the page of an error shows.
type failure struct {
	Status int
	Says   []string
	Back   string
}

func (v *visit) notFound() error {
	return &client.Problem{Status: http.StatusNotFound, Title: http.StatusText(http.StatusNotFound),
		Detail: "there is no such page"}
}

// refuse returns the error for a form that the console itself finds incomplete.
func refuse(detail string) error {
	return &client.Problem{Status: http.StatusUnprocessableEntity, Title: http.StatusText(http.StatusUnprocessableEntity),
		Detail: detail}
}

func statusOf(err error) int {
	var p *client.Problem
	switch {
	case errors.As(err, &p):
		return p.Status
	case errors.Is(err, web.ErrTooLong):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, client.ErrUnavailable), errors.Is(err, web.ErrBudget):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// sentences returns, for people, what an error of the API means.
func sentences(err error) []string {
	var p *client.Problem
	if !errors.As(err, &p) {
		if statusOf(err) == http.StatusInternalServerError {
			return []string{"The console failed; the log says why."}
		}
		return []string{sentence(err.Error())}
	}
	var list []string
	if p.Detail != "" && (len(p.Faults) == 0 || p.Detail != "the request is not valid") {
		list = append(list, sentence(p.Detail))
	}
	for _, f := range p.Faults {
		_, member, ok := strings.Cut(f.Location, ".")
		if !ok {
			member = f.Location
		}
		if said := member + " " + f.Message; said != p.Detail {
			list = append(list, fmt.Sprintf("%s %s.", member, f.Message))
		}
	}
	if len(list) == 0 {
		list = append(list, sentence(p.Title))
	}
	return list
}

// sentence returns s with a capital letter and a full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(s[n:], ".") + "."
}
