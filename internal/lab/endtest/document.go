package endtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/lab/dbtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// End is the API of one end, with a database behind it.
type End struct {
	API    *api.API
	URL    string
	Tokens *api.Tokens
	// Keep keeps a token and returns its secret.
	Keep func(api.Token) string
	// Pass lets so much time pass that no rate is exceeded.
	Pass func()
	// Path returns the path at which an endpoint is called.
	Path func(*api.Endpoint) string
}

// Answer is what an API answered.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Call makes a call with the secret of a token; empty: without one. body is a text, a reader or a value to be written as
// JSON.
func Call(t testing.TB, secret, method, url, contentType string, body any) Answer {
	t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	case io.Reader:
		r = b
	default:
		r = strings.NewReader(Encode(t, b))
	}
	req := dbtest.Must(http.NewRequestWithContext(t.Context(), method, url, r))(t)
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp := dbtest.Must(http.DefaultClient.Do(req))(t)
	defer func() { _ = resp.Body.Close() }()
	b := dbtest.Must(io.ReadAll(resp.Body))(t)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(b)}
}

// ask is Call at a path of the end.
func (e End) ask(t testing.TB, secret, method, path, contentType, body string) Answer {
	t.Helper()
	return Call(t, secret, method, e.URL+path, contentType, body)
}

// Problem returns the problem in a, zero for none.
func (a Answer) Problem() (p client.Problem) {
	if a.Header.Get("Content-Type") == "application/problem+json" {
		_ = json.Unmarshal([]byte(a.Body), &p)
	}
	return p
}

// names reports whether a refuses with this status and names location.
func (a Answer) names(status int, location string) bool {
	return a.Status == status &&
		slices.ContainsFunc(a.Problem().Faults, func(f client.Fault) bool { return f.Location == location && f.Message != "" })
}

// Names fails unless a refuses with this status and names location.
func (a Answer) Names(t testing.TB, status int, location string) {
	t.Helper()
	if !a.names(status, location) {
		t.Errorf("status %d, want %d that names %s: %s", a.Status, status, location, a.Body)
	}
}

// Searched returns what a search finds: kind, id and what matched of each.
func Searched(t testing.TB, by client.API, text string) (list []string) {
	t.Helper()
	for _, f := range dbtest.Must(client.Get[client.List[client.Found]](t.Context(), by, "/v1/search", struct{ Q string }{text}))(t).Items {
		list = append(list, fmt.Sprint(f.Kind, " ", f.ID, " ", f.Matched))
	}
	return list
}

// Document compares the document with the mux and with
// testdata/operations.golden, so that operations change only on purpose.
func Document(t *testing.T, e End) {
	a := e.ask(t, "", http.MethodGet, "/openapi.json", "", "")
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Roles       []string `json:"x-roles"`
			Security    []any
			Responses   map[string]any
			RequestBody *struct{ Content map[string]any }
		}
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(a.Body), &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("version %q, %v", doc.OpenAPI, err)
	}
	documented := map[string]string{}
	var golden []string
	for path, operations := range doc.Paths {
		for method, op := range operations {
			pattern := strings.ToUpper(method) + " " + path
			documented[pattern] = op.OperationID
			r := dbtest.Must(http.NewRequest(strings.ToUpper(method), regexp.MustCompile(`{\w+}`).ReplaceAllString(path, "some"), nil))(t)
			if _, got := e.API.Mux().Handler(r); got != pattern {
				t.Errorf("%s is in the document; the mux gives it to %q", pattern, got)
			}
			if (len(op.Roles) == 0) != (len(op.Security) == 0) {
				t.Errorf("%s: roles %v and security %v", pattern, op.Roles, op.Security)
			}
			bodies := ""
			if op.RequestBody != nil {
				bodies = " " + strings.Join(slices.Sorted(maps.Keys(op.RequestBody.Content)), ",")
			}
			golden = append(golden, fmt.Sprintf("%s %s roles=%s%s -> %s", pattern, op.OperationID, strings.Join(op.Roles, "+"), bodies,
				strings.Join(slices.Sorted(maps.Keys(op.Responses)), ",")))
		}
	}
	for _, rt := range e.API.Endpoints() {
		if got := documented[rt.Pattern()]; got != rt.ID {
			t.Errorf("%s is %q in the document", rt.Pattern(), got)
		}
	}
	if want := len(e.API.Endpoints()); len(documented) != want {
		t.Errorf("%d operations, want %d", len(documented), want)
	}
	used := map[string]bool{}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllStringSubmatch(a.Body, -1) {
		if used[ref[1]] = true; doc.Components.Schemas[ref[1]] == nil {
			t.Errorf("schema %s is not described", ref[1])
		}
	}
	for name := range doc.Components.Schemas {
		if !used[name] {
			t.Errorf("schema %s is not used", name)
		}
	}
	var whole any
	dbtest.OK(t, json.Unmarshal([]byte(a.Body), &whole))
	undescribed(t, "the document", whole)
	slices.Sort(golden)
	checkGolden(t, filepath.Join("testdata", "operations.golden"), golden)
}

// undescribed fails for each operation without a summary, each parameter and member of an object in v without a
// description, and each member that is required and is not there.
func undescribed(t *testing.T, where string, v any) {
	if list, is := v.([]any); is {
		for _, item := range list {
			undescribed(t, where, item)
		}
	}
	o, _ := v.(map[string]any)
	lacks := func(of any, where, what string) {
		if text, _ := of.(map[string]any)[what].(string); strings.TrimSpace(text) == "" {
			t.Errorf("%s has no %s", where, what)
		}
	}
	if _, is := o["operationId"].(string); is {
		lacks(o, where, "summary")
	}
	if _, is := o["in"].(string); is {
		lacks(o, fmt.Sprint(where, " ", o["name"]), "description")
	}
	members, _ := o["properties"].(map[string]any)
	for name, m := range members {
		lacks(m, where+"."+name, "description")
	}
	required, _ := o["required"].([]any)
	for _, name := range required {
		if members[name.(string)] == nil {
			t.Errorf("%s requires %s, which it does not have", where, name)
		}
	}
	for name, inner := range o {
		if name != "example" && name != "examples" && name != "default" {
			undescribed(t, where+"."+name, inner)
		}
	}
}

func checkGolden(t *testing.T, path string, got []string) {
	if *update {
		dbtest.OK(t, os.WriteFile(path, []byte(strings.Join(got, "\n")+"\n"), 0o644))
	}
	b := dbtest.Must(os.ReadFile(path))(t)
	want := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s lacks, and has it with -update if that is meant: %s", path, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s has what is no operation: %s", path, line)
		}
	}
}

// Fits returns next and compares each answer with the document: status, media type and body, by huma's validator, which
// is not the one that the server uses. seen gets each answer.
func Fits(t testing.TB, a *api.API, next http.Handler, seen func(rt *api.Endpoint, status int, body string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := &tee{ResponseWriter: w}
		next.ServeHTTP(kept, r)
		_, pattern := a.Mux().Handler(r)
		i := slices.IndexFunc(a.Endpoints(), func(rt *api.Endpoint) bool { return rt.Pattern() == pattern })
		if i < 0 {
			return
		}
		rt := a.Endpoints()[i]
		if problem := fits(a, rt, kept); problem != "" {
			t.Errorf("%s %d does not fit the document: %s\n%.500s", pattern, kept.status, problem, kept.body.String())
		}
		if seen != nil {
			seen(rt, kept.status, kept.body.String())
		}
	})
}

// tee keeps what is answered.
type tee struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *tee) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *tee) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.body.Write(b)
	return w.ResponseWriter.Write(b)
}

func (w *tee) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// fits returns how an answer differs from the document.
func fits(a *api.API, rt *api.Endpoint, t *tee) string {
	op := rt.Operation()
	resp := op.Responses[fmt.Sprint(t.status)]
	if resp == nil {
		return "no such status"
	}
	mediaType := t.Header().Get("Content-Type")
	if len(resp.Content) == 0 {
		if t.body.Len() > 0 {
			return "a body"
		}
		return ""
	}
	media := resp.Content[mediaType]
	if media == nil {
		return "media type " + mediaType
	}
	var v any
	if err := json.Unmarshal(t.body.Bytes(), &v); err != nil {
		return err.Error()
	}
	res := &huma.ValidateResult{}
	huma.Validate(a.Registry(), media.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, v, res)
	if len(res.Errors) > 0 {
		return errors.Join(res.Errors...).Error()
	}
	return ""
}
