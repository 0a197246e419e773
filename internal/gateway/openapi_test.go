package gateway

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/countersigntest"
	"countersign/internal/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestOpenAPI: the document and the mux name the same routes, what the document
// refers to is there, and its operations change only where that is meant.
func TestOpenAPI(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.Metrics = http.NotFoundHandler() })
	_, body, _ := r.client.send(t, "GET", "/openapi.json", "", "")
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
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %s", doc.OpenAPI)
	}
	documented := map[string]string{}
	var golden []string
	for path, operations := range doc.Paths {
		for method, op := range operations {
			pattern := strings.ToUpper(method) + " " + path
			documented[pattern] = op.OperationID
			if (len(op.Roles) == 0) != (len(op.Security) == 0) {
				t.Errorf("%s: roles %v and security %v", pattern, op.Roles, op.Security)
			}
			bodies := ""
			if op.RequestBody != nil {
				bodies = " " + strings.Join(slices.Sorted(maps.Keys(op.RequestBody.Content)), ",")
			}
			golden = append(golden, fmt.Sprintf("%s %s roles=%s%s -> %s", pattern, op.OperationID, strings.Join(op.Roles, "+"), bodies,
				strings.Join(slices.Sorted(maps.Keys(op.Responses)), ",")))
			req, err := http.NewRequest(strings.ToUpper(method), regexp.MustCompile(`{\w+}`).ReplaceAllString(path, "some"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, got := r.api.mux.Handler(req); got != pattern {
				t.Errorf("%s is in the document; the mux gives it to %q", pattern, got)
			}
		}
	}
	routes := append(r.api.table(), api.Route{Method: "GET", Path: "/metrics", ID: "metrics"})
	for _, route := range routes {
		if got := documented[route.Method+" "+route.Path]; got != route.ID {
			t.Errorf("%s %s is %q", route.Method, route.Path, got)
		}
	}
	if len(documented) != len(routes) {
		t.Errorf("%d operations for %d routes", len(documented), len(routes))
	}
	used := map[string]bool{}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllStringSubmatch(body, -1) {
		if used[ref[1]] = true; doc.Components.Schemas[ref[1]] == nil {
			t.Errorf("%s is not described", ref[1])
		}
	}
	for name := range doc.Components.Schemas {
		if !used[name] {
			t.Errorf("schema %s is not used", name)
		}
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
	if bytes.Equal(got, want) {
		return
	}
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	n := 0
	for n < min(len(g), len(w))-1 && g[n] == w[n] {
		n++
	}
	t.Errorf("%s differs; if that is meant, run the test with -update\nline %d: %s\nwant:   %s", path, n+1, g[n], w[n])
}
