package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents returns the OpenAPI documents of a service and of a gateway, indented.
func documents(t *testing.T) map[string]string {
	t.Helper()
	b := startBoth(t, t.TempDir(), "", "")
	defer b.stop()
	list := map[string]string{}
	for end, url := range map[string]string{"service": b.service.URL(), "gateway": b.gateway.URL()} {
		_, body := get(t, url+"/openapi.json")
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(body), "", "  "); err != nil {
			t.Fatal(err)
		}
		list[end] = indented.String()
	}
	return list
}

// TestDocumentStructure checks that both documents have the structure of OpenAPI 3.1
// and what readers and code generators need beside it, and that the check finds faults.
func TestDocumentStructure(t *testing.T) {
	both := documents(t)
	for end, text := range both {
		if faults := documentFaults(t, []byte(text)); len(faults) > 0 {
			t.Errorf("%s:\n%s", end, strings.Join(faults, "\n"))
		}
	}
	good := both["service"]
	for name, c := range map[string]struct{ old, new, want string }{
		"reference to nothing":    {`"#/components/schemas/Fault"`, `"#/components/schemas/Gone"`, "leads nowhere"},
		"no security":             {`"security": []`, `"x-security": []`, "has no security"},
		"a name twice":            {`"operationId": "stats"`, `"operationId": "alarms"`, "twice"},
		"a tag that is not there": {`"tags": [`, `"tags": [ "gone",`, "gone"},
		"no description":          {`"description": "what the alarm is about",`, ``, "has no description"},
		"unknown type":            {`"type": "boolean"`, `"type": "truth"`, "truth"},
		"required and not there":  {`"required": [`, `"required": [ "gone",`, "gone"},
		"path member not told":    {`"in": "path"`, `"in": "query"`, "in the path"},
	} {
		broken := strings.Replace(good, c.old, c.new, 1)
		if broken == good {
			t.Errorf("%s: the document has no %s", name, c.old)
		}
		if faults := strings.Join(documentFaults(t, []byte(broken)), "\n"); faults == "" || !strings.Contains(faults, c.want) {
			t.Errorf("%s: faults %q, want %q", name, faults, c.want)
		}
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

// inspection collects what is wrong with a document.
type inspection struct {
	doc    object
	faults []string
}

func documentFaults(t *testing.T, b []byte) []string {
	t.Helper()
	i := &inspection{}
	if err := json.Unmarshal(b, &i.doc); err != nil {
		t.Fatal(err)
	}
	if i.doc["openapi"] != "3.1.0" || len(listIn(i.doc, "servers")) == 0 {
		i.fault("the document", "is of version %v, or has no servers", i.doc["openapi"])
	}
	tags, ids := map[string]bool{}, map[string]bool{}
	for _, v := range listIn(i.doc, "tags") {
		i.said("a tag", v.(object), "name", "description")
		tags[v.(object)["name"].(string)] = true
	}
	for path, item := range in(i.doc, "paths") {
		for method, op := range item.(object) {
			i.operation(strings.ToUpper(method)+" "+path, path, op.(object), tags, ids)
		}
	}
	for name, s := range in(in(i.doc, "components"), "schemas") {
		if s.(object)["type"] != "object" {
			i.fault(name, "is no object")
		}
		i.schemas(name, s)
	}
	i.schemas("paths", i.doc["paths"])
	return i.faults
}

func (i *inspection) fault(where, format string, args ...any) {
	i.faults = append(i.faults, where+" "+fmt.Sprintf(format, args...))
}

// said checks that texts are not empty.
func (i *inspection) said(where string, o object, names ...string) {
	for _, name := range names {
		if text, _ := o[name].(string); strings.TrimSpace(text) == "" {
			i.fault(where, "has no %s", name)
		}
	}
}

func (i *inspection) operation(where, path string, op object, tags, ids map[string]bool) {
	i.said(where, op, "operationId", "summary")
	id, _ := op["operationId"].(string)
	if ids[id] {
		i.fault(where, "is named %s, as another is: it occurs twice", id)
	}
	ids[id] = true
	if len(listIn(op, "tags")) == 0 {
		i.fault(where, "has no tags")
	}
	for _, tag := range listIn(op, "tags") {
		if !tags[tag.(string)] {
			i.fault(where, "has the tag %s, which the document does not describe", tag)
		}
	}
	// An operation without a token says so, and one with a token names the scheme.
	list, there := op["security"].([]any)
	switch open := !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v1/signin/provider"); {
	case !there:
		i.fault(where, "has no security")
	case open != (len(list) == 0):
		i.fault(where, "has the security %v", list)
	}
	for _, needs := range list {
		for scheme := range needs.(object) {
			if in(in(in(i.doc, "components"), "securitySchemes"), scheme) == nil {
				i.fault(where, "needs the security scheme %s, which is not there", scheme)
			}
		}
	}
	seen := map[string]bool{}
	for _, v := range listIn(op, "parameters") {
		p := v.(object)
		name, _ := p["name"].(string)
		i.said(where+" parameter "+name, p, "name", "in", "description")
		if in(p, "schema") == nil || seen[name] {
			i.fault(where, "has the parameter %s twice or without a schema", name)
		}
		seen[name] = p["in"] == "path" && p["required"] == true
		if p["in"] == "path" && !strings.Contains(path, "{"+name+"}") {
			i.fault(where, "has no %s in the path", name)
		}
	}
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
		if !seen[m[1]] {
			i.fault(where, "has %s in the path and does not describe it", m[1])
		}
	}
	succeeds := false
	for status, r := range in(op, "responses") {
		succeeds = succeeds || status[0] == '2'
		i.said(where+" "+status, r.(object), "description")
	}
	if !succeeds {
		i.fault(where, "has no answer of success")
	}
}

// schemas checks each schema in v: references lead somewhere, members are described, types are JSON's, and patterns
// compile.
func (i *inspection) schemas(where string, v any) {
	if list, is := v.([]any); is {
		for _, item := range list {
			i.schemas(where, item)
		}
	}
	o, _ := v.(object)
	if ref, there := o["$ref"].(string); there {
		name, local := strings.CutPrefix(ref, "#/components/schemas/")
		if !local || in(in(in(i.doc, "components"), "schemas"), name) == nil {
			i.fault(where, "refers to %s, which leads nowhere", ref)
		}
	}
	properties := in(o, "properties")
	for name, p := range properties {
		i.said(where+"."+name, p.(object), "description")
	}
	if required, is := o["required"].([]any); is {
		for _, name := range required {
			if _, ok := properties[name.(string)]; !ok {
				i.fault(where, "requires %s, which it does not have", name)
			}
		}
	}
	types, _ := o["type"].([]any)
	if text, is := o["type"].(string); is {
		types = []any{text}
	}
	for _, name := range types {
		if !slices.Contains([]any{"string", "number", "integer", "boolean", "array", "object", "null"}, name) {
			i.fault(where, "has the type %v", name)
		}
	}
	if pattern, there := o["pattern"].(string); there {
		if _, err := regexp.Compile(pattern); err != nil {
			i.fault(where, "has a pattern that is none: %v", err)
		}
	}
	for name, inner := range o {
		if name != "example" && name != "examples" && name != "default" {
			i.schemas(where+"."+name, inner)
		}
	}
}
