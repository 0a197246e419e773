package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
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
		"unknown member of a schema": {`"pattern":`, `"patternDescription": "x", "pattern":`, "patternDescription"},
		"reference to nothing":       {`"#/components/schemas/Fault"`, `"#/components/schemas/Gone"`, "leads nowhere"},
		"no servers":                 {`"servers":`, `"x-servers":`, "has no servers"},
		"no security":                {`"security": []`, `"x-security": []`, "has no security"},
		"a name twice":               {`"operationId": "stats"`, `"operationId": "alarms"`, "twice"},
		"a tag that is not there":    {`"tags": [`, `"tags": [ "gone",`, "gone"},
		"no description":             {`"description": "what the alarm is about",`, ``, "has no description"},
		"unknown type":               {`"type": "boolean"`, `"type": "truth"`, "truth"},
		"required and not there":     {`"required": [`, `"required": [ "gone",`, "gone"},
		"path member not told":       {`"in": "path"`, `"in": "query"`, "in the path"},
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

// members lists the members that each kind of object may have, beside those that
// begin with x-.
var members = map[string]string{
	"document":        "openapi info jsonSchemaDialect servers paths webhooks components security tags externalDocs",
	"info":            "title summary description termsOfService contact license version",
	"server":          "url description variables",
	"components":      "schemas responses parameters examples requestBodies headers securitySchemes links callbacks pathItems",
	"security scheme": "type description name in scheme bearerFormat flows openIdConnectUrl",
	"tag":             "name description externalDocs",
	"path":            "summary description get put post delete options head patch trace servers parameters",
	"operation":       "tags summary description externalDocs operationId parameters requestBody responses callbacks deprecated security servers",
	"parameter":       "name in description required deprecated allowEmptyValue style explode allowReserved schema example examples content",
	"request body":    "description content required",
	"response":        "description headers content links",
	"media type":      "schema example examples encoding",
	"schema": "type title description $ref format contentMediaType contentEncoding default examples items additionalProperties properties " +
		"enum const minimum exclusiveMinimum maximum exclusiveMaximum multipleOf minLength maxLength pattern minItems maxItems uniqueItems " +
		"required dependentRequired minProperties maxProperties readOnly writeOnly deprecated oneOf anyOf allOf not discriminator",
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
	i.document()
	return i.faults
}

func (i *inspection) fault(where, format string, args ...any) {
	i.faults = append(i.faults, where+" "+fmt.Sprintf(format, args...))
}

// known checks the names of an object's members.
func (i *inspection) known(where, kind string, o object) {
	for name := range o {
		if !strings.HasPrefix(name, "x-") && !slices.Contains(strings.Fields(members[kind]), name) {
			i.fault(where, "has the member %s, which is none of a %s", name, kind)
		}
	}
}

// said checks that texts are not empty.
func (i *inspection) said(where string, o object, names ...string) {
	for _, name := range names {
		if text, _ := o[name].(string); strings.TrimSpace(text) == "" {
			i.fault(where, "has no %s", name)
		}
	}
}

func in(o object, name string) object {
	inner, _ := o[name].(object)
	return inner
}

func listIn(o object, name string) []any {
	list, _ := o[name].([]any)
	return list
}

func (i *inspection) document() {
	i.known("the document", "document", i.doc)
	if i.doc["openapi"] != "3.1.0" {
		i.fault("the document", "is of version %v", i.doc["openapi"])
	}
	i.known("info", "info", in(i.doc, "info"))
	i.said("info", in(i.doc, "info"), "title", "description", "version")
	if len(listIn(i.doc, "servers")) == 0 {
		i.fault("the document", "has no servers")
	}
	for _, s := range listIn(i.doc, "servers") {
		i.known("a server", "server", s.(object))
		i.said("a server", s.(object), "url", "description")
	}
	components := in(i.doc, "components")
	i.known("components", "components", components)
	for name, s := range in(components, "securitySchemes") {
		i.known(name, "security scheme", s.(object))
		i.said(name, s.(object), "type", "description")
	}
	tags := map[string]bool{}
	for _, v := range listIn(i.doc, "tags") {
		i.known("a tag", "tag", v.(object))
		i.said("a tag", v.(object), "name", "description")
		tags[v.(object)["name"].(string)] = false
	}
	ids := map[string]bool{}
	for path, item := range in(i.doc, "paths") {
		i.known(path, "path", item.(object))
		for method, op := range item.(object) {
			i.operation(strings.ToUpper(method)+" "+path, path, op.(object), tags, ids)
		}
	}
	for tag, used := range tags {
		if !used {
			i.fault("the tag "+tag, "is not used")
		}
	}
	for name, s := range in(components, "schemas") {
		if !regexp.MustCompile(`^[A-Za-z0-9._-]+$`).MatchString(name) {
			i.fault(name, "is no name of a schema")
		}
		i.schema(name, s.(object), true)
	}
}

func (i *inspection) operation(where, path string, op object, tags, ids map[string]bool) {
	i.known(where, "operation", op)
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
		if _, ok := tags[tag.(string)]; !ok {
			i.fault(where, "has the tag %s, which the document does not describe", tag)
		}
		tags[tag.(string)] = true
	}
	i.security(where, path, op)
	i.parameters(where, path, op)
	if body := in(op, "requestBody"); body != nil {
		i.known(where+" body", "request body", body)
		i.content(where+" body", body)
	}
	succeeds := false
	for status, r := range in(op, "responses") {
		at := where + " " + status
		n, err := strconv.Atoi(status)
		if err != nil || n < 100 || n > 599 {
			i.fault(at, "is no status")
		}
		succeeds = succeeds || n >= 200 && n < 300
		i.known(at, "response", r.(object))
		i.said(at, r.(object), "description")
		if in(r.(object), "content") != nil {
			i.content(at, r.(object))
		}
	}
	if !succeeds {
		i.fault(where, "has no answer of success")
	}
}

// security checks that an operation without a token says so, and that one with a
// token names the scheme.
func (i *inspection) security(where, path string, op object) {
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
}

func (i *inspection) parameters(where, path string, op object) {
	inPath := map[string]bool{}
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
		inPath[m[1]] = false
	}
	seen := map[string]bool{}
	for _, v := range listIn(op, "parameters") {
		p := v.(object)
		name, _ := p["name"].(string)
		at := where + " parameter " + name
		i.known(at, "parameter", p)
		i.said(at, p, "name", "in", "description")
		if seen[name] {
			i.fault(at, "occurs twice")
		}
		seen[name] = true
		if p["in"] == "path" {
			if _, ok := inPath[name]; !ok || p["required"] != true {
				i.fault(at, "is not a required member of the path")
			}
			inPath[name] = true
		}
		if in(p, "schema") == nil {
			i.fault(at, "has no schema")
		}
		i.schema(at, in(p, "schema"), false)
	}
	for name, told := range inPath {
		if !told {
			i.fault(where, "has %s in the path and does not describe it", name)
		}
	}
}

func (i *inspection) content(where string, o object) {
	if len(in(o, "content")) == 0 {
		i.fault(where, "has no content")
	}
	for mediaType, m := range in(o, "content") {
		at := where + " " + mediaType
		if strings.Count(mediaType, "/") != 1 {
			i.fault(at, "is no media type")
		}
		i.known(at, "media type", m.(object))
		if s := in(m.(object), "schema"); s != nil {
			i.schema(at, s, false)
		}
	}
}

// schema checks s and what is in it. Its members must be described.
func (i *inspection) schema(where string, s object, component bool) {
	i.known(where, "schema", s)
	if ref, there := s["$ref"].(string); there {
		name, local := strings.CutPrefix(ref, "#/components/schemas/")
		if !local || in(in(in(i.doc, "components"), "schemas"), name) == nil {
			i.fault(where, "refers to %s, which leads nowhere", ref)
		}
	}
	i.types(where, s, component)
	properties := in(s, "properties")
	for _, name := range listIn(s, "required") {
		if _, ok := properties[name.(string)]; !ok {
			i.fault(where, "requires %s, which it does not have", name)
		}
	}
	for name, v := range properties {
		at := where + "." + name
		i.said(at, v.(object), "description")
		i.schema(at, v.(object), false)
	}
	for _, name := range []string{"items", "additionalProperties", "not"} {
		if inner := in(s, name); inner != nil {
			i.schema(where+"."+name, inner, false)
		}
	}
	for _, name := range []string{"oneOf", "anyOf", "allOf"} {
		for n, inner := range listIn(s, name) {
			i.schema(fmt.Sprintf("%s.%s[%d]", where, name, n), inner.(object), false)
		}
	}
}

// types checks what a schema says of values: the types are JSON's, enumerations
// and bounds fit them, patterns compile.
func (i *inspection) types(where string, s object, component bool) {
	var types []any
	switch v := s["type"].(type) {
	case string:
		types = []any{v}
	case []any:
		types = v
	}
	for _, v := range types {
		if !slices.Contains([]any{"string", "number", "integer", "boolean", "array", "object", "null"}, v) {
			i.fault(where, "has the type %v", v)
		}
	}
	if component && !slices.Contains(types, any("object")) {
		i.fault(where, "is no object")
	}
	if slices.Contains(types, any("array")) && in(s, "items") == nil {
		i.fault(where, "has no items")
	}
	enum := listIn(s, "enum")
	if _, there := s["enum"]; there && len(enum) == 0 {
		i.fault(where, "has an empty enum")
	}
	for n, v := range enum {
		if _, text := v.(string); text != slices.Contains(types, any("string")) {
			i.fault(where, "has the enum value %v of another type", v)
		}
		if slices.Contains(enum[:n], v) {
			i.fault(where, "has the enum value %v twice", v)
		}
	}
	if fallback, there := s["default"]; there && len(enum) > 0 && !slices.Contains(enum, fallback) {
		i.fault(where, "has the default %v, which is not in its enum", fallback)
	}
	for _, bounds := range [][2]string{{"minimum", "maximum"}, {"minLength", "maxLength"}, {"minItems", "maxItems"}} {
		least, ok1 := s[bounds[0]].(float64)
		most, ok2 := s[bounds[1]].(float64)
		if ok1 && ok2 && least > most {
			i.fault(where, "has a %s above its %s", bounds[0], bounds[1])
		}
	}
	if pattern, there := s["pattern"].(string); there {
		if _, err := regexp.Compile(pattern); err != nil {
			i.fault(where, "has a pattern that is none: %v", err)
		}
	}
}
