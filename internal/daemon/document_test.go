package daemon

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocuments: in the OpenAPI document of each end every reference leads somewhere, every member and parameter is
// described, every type is JSON's, what is required is there, and every operation has a name of its own, a summary, a
// described tag, its security and an answer of success. endtest.Document compares it with the routes.
func TestDocuments(t *testing.T) {
	b := startBoth(t, t.TempDir(), "", "")
	defer b.stop()
	for _, url := range []string{b.service.URL(), b.gateway.URL()} {
		_, text := get(t, url+"/openapi.json")
		i := inspection{t: t}
		ok(t, json.Unmarshal([]byte(text), &i.doc))
		if i.doc["openapi"] != "3.1.0" || len(listIn(i.doc, "servers")) == 0 {
			i.t.Errorf("the document is of version %v, or has no servers", i.doc["openapi"])
		}
		i.operations()
		i.schemas("the document", i.doc)
	}
}

// object is an object of a document.
type object = map[string]any

func in(o object, name string) object {
	inner, _ := o[name].(object)
	return inner
}

func listIn(o object, name string) []any {
	list, _ := o[name].([]any)
	return list
}

type inspection struct {
	t   *testing.T
	doc object
}

// has checks that texts are not empty.
func (i inspection) has(where string, o object, names ...string) {
	for _, name := range names {
		if text, _ := o[name].(string); strings.TrimSpace(text) == "" {
			i.t.Errorf("%s has no %s", where, name)
		}
	}
}

func (i inspection) operations() {
	tags, ids := map[any]bool{}, map[any]bool{}
	for _, v := range listIn(i.doc, "tags") {
		i.has("a tag", v.(object), "name", "description")
		tags[v.(object)["name"]] = true
	}
	for path, item := range in(i.doc, "paths") {
		for method, v := range item.(object) {
			where, op := method+" "+path, v.(object)
			i.has(where, op, "operationId", "summary")
			if id := op["operationId"]; ids[id] {
				i.t.Errorf("%s is named as another is", where)
			} else {
				ids[id] = true
			}
			if list := listIn(op, "tags"); len(list) == 0 || slices.ContainsFunc(list, func(tag any) bool { return !tags[tag] }) {
				i.t.Errorf("%s has the tags %v", where, list)
			}
			open := !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v1/signin/provider")
			if list, is := op["security"].([]any); !is || open != (len(list) == 0) {
				i.t.Errorf("%s has the security %v", where, op["security"])
			}
			inPath := map[any]bool{}
			for _, p := range listIn(op, "parameters") {
				i.has(where+": a parameter", p.(object), "name", "in", "description")
				if p.(object)["in"] == "path" && p.(object)["required"] == true {
					inPath[p.(object)["name"]] = true
				}
			}
			named := regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1)
			if len(named) != len(inPath) || slices.ContainsFunc(named, func(m []string) bool { return !inPath[m[1]] }) {
				i.t.Errorf("%s describes %v in the path", where, inPath)
			}
			succeeds := false
			for status, r := range in(op, "responses") {
				succeeds = succeeds || status[0] == '2'
				i.has(where+" "+status, r.(object), "description")
			}
			if !succeeds {
				i.t.Errorf("%s has no answer of success", where)
			}
		}
	}
}

// schemas checks every schema in v.
func (i inspection) schemas(where string, v any) {
	if list, is := v.([]any); is {
		for _, item := range list {
			i.schemas(where, item)
		}
	}
	o, _ := v.(object)
	if ref, is := o["$ref"].(string); is && in(in(in(i.doc, "components"), "schemas"), strings.TrimPrefix(ref, "#/components/schemas/")) == nil {
		i.t.Errorf("%s refers to %s, which leads nowhere", where, ref)
	}
	properties := in(o, "properties")
	for name, p := range properties {
		i.has(where+"."+name, p.(object), "description")
	}
	for _, name := range listIn(o, "required") {
		if properties[name.(string)] == nil {
			i.t.Errorf("%s requires %s, which it does not have", where, name)
		}
	}
	for _, name := range append(listIn(o, "type"), o["type"]) {
		if text, is := name.(string); is && !slices.Contains(
			[]string{"string", "number", "integer", "boolean", "array", "object", "null", "http"}, text) {
			i.t.Errorf("%s has the type %s", where, text)
		}
	}
	for name, inner := range o {
		if name != "example" && name != "examples" && name != "default" {
			i.schemas(where+"."+name, inner)
		}
	}
}
