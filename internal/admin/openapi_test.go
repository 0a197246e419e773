package admin

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The document and the mux name the same routes: each operation of the
// document is answered by the handler of its own pattern, and each handler is
// in the document.
func TestDocumentMatchesHandlers(t *testing.T) {
	h := sqlite(t)
	a := h.raw("", get, "/openapi.json", "", nil)
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Roles       []string `json:"x-roles"`
			Security    []any
			Responses   map[string]any
			RequestBody *struct{ Content map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %s", doc.OpenAPI)
	}
	documented := map[string]bool{}
	var golden []string
	for path, ops := range doc.Paths {
		for method, op := range ops {
			pattern := strings.ToUpper(method) + " " + path
			documented[pattern] = true
			r, err := newRequest(strings.ToUpper(method), strings.Replace(path, "{id}", "some-id", 1))
			if err != nil {
				t.Fatal(err)
			}
			if _, got := h.server.api.Mux().Handler(r); got != pattern {
				t.Errorf("%s is in the document; the mux gives it to %q", pattern, got)
			}
			if (len(op.Roles) == 0) != (len(op.Security) == 0) {
				t.Errorf("%s: roles %v and security %v", pattern, op.Roles, op.Security)
			}
			bodies := ""
			if op.RequestBody != nil {
				bodies = " " + strings.Join(slices.Sorted(maps.Keys(op.RequestBody.Content)), ",")
			}
			golden = append(golden, fmt.Sprintf("%s %s roles=%s%s -> %s", pattern, op.OperationID, strings.Join(op.Roles, "+"), bodies, strings.Join(slices.Sorted(maps.Keys(op.Responses)), ",")))
		}
	}
	for _, rt := range h.server.api.Endpoints() {
		if !documented[rt.Pattern()] {
			t.Errorf("%s is not in the document", rt.Pattern())
		}
	}
	if len(documented) != len(h.server.api.Endpoints())+1 { // and /metrics
		t.Errorf("%d operations for %d routes and /metrics", len(documented), len(h.server.api.Endpoints()))
	}
	slices.Sort(golden)
	checkGolden(t, "operations.golden", []byte(strings.Join(golden, "\n")+"\n"))
}

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; if that is meant, run the test with -update\n%s", path, firstDifference(string(got), string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: %s\nwant:   %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// Every reference leads somewhere and every schema is used.
func TestDocumentIsWhole(t *testing.T) {
	h := sqlite(t)
	doc, err := h.server.api.Document()
	if err != nil {
		t.Fatal(err)
	}
	text := string(doc)
	for name := range h.server.api.Registry().Map() {
		if !strings.Contains(text, `"#/components/schemas/`+name+`"`) {
			t.Errorf("schema %s is not used", name)
		}
	}
	for _, part := range strings.Split(text, `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if h.server.api.Registry().Map()[name] == nil {
			t.Errorf("schema %s is not there", name)
		}
	}
}

func TestOpenRoutes(t *testing.T) {
	h := sqlite(t)
	for path, want := range map[string]string{
		"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ready"}`, "/metrics": "countersign_up 1",
	} {
		if a := h.raw("", get, path, "", nil); a.status != 200 || strings.TrimSpace(a.body) != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	h.server.Stop()
	if a := h.raw("", get, "/readyz", "", nil); a.status != 503 {
		t.Errorf("/readyz while stopping: %d, want 503", a.status)
	}
}

func newRequest(method, path string) (*http.Request, error) {
	return http.NewRequest(method, path, nil)
}
