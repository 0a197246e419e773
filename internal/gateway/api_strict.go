package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"countersign"
)

// The requests of this API are flat objects, so reading them strictly takes one
// pass over their members. encoding/json alone would take members whose names
// differ by case and the last of two members with one name, where other
// software in the path may take the first.

// maxFaults bounds how many faults one answer names.
const maxFaults = 20

// readObject fills the struct that v points to from a JSON object. The tags of
// its fields are those of the schemas: json, minLength, maxLength, enum,
// minimum. A member without omitempty or omitzero must be there. Faults never
// repeat a value.
func readObject(body []byte, v any) []Fault {
	if text := syntaxProblem(body); text != "" {
		return []Fault{{"body", text}}
	}
	fields := fieldsOf(reflect.TypeOf(v).Elem())
	target := reflect.ValueOf(v).Elem()
	var faults []Fault
	fault := func(member, text string) {
		if len(faults) < maxFaults {
			faults = append(faults, Fault{"body." + printable(member), text})
		}
	}
	seen := map[string]bool{}
	eachMember(body, func(name string, value json.RawMessage) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		switch {
		case seen[name]:
			fault(name, "is there twice")
		case i < 0:
			fault(name, unknownMember(fields, name))
		default:
			if text := setMember(target.FieldByIndex(fields[i].index), fields[i], value); text != "" {
				fault(name, text)
			}
		}
		seen[name] = true
	})
	for _, f := range fields {
		if f.required && !seen[f.name] {
			fault(f.name, "is missing")
		}
	}
	return faults
}

// syntaxProblem says what keeps body from being one JSON object in UTF-8.
func syntaxProblem(body []byte) string {
	text := bytes.TrimSpace(body)
	switch {
	case len(text) == 0:
		return "is empty"
	case !utf8.Valid(body):
		return "is not valid UTF-8"
	case !json.Valid(body):
		return "is not JSON"
	case text[0] != '{':
		return "is not an object"
	}
	return ""
}

// eachMember calls fn for the members of an object that is valid JSON.
func eachMember(object []byte, fn func(name string, value json.RawMessage)) {
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // the brace
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return // cannot be: it is valid
		}
		fn(name.(string), value)
	}
}

// field is a member that a request may have.
type field struct {
	name                 string
	index                []int
	required             bool
	minLength, maxLength int // maxLength 0: none
	enum                 []string
}

func fieldsOf(t reflect.Type) []field {
	var list []field
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		known := field{name: name, index: f.Index, required: options == ""}
		known.minLength, _ = strconv.Atoi(f.Tag.Get("minLength"))
		known.maxLength, _ = strconv.Atoi(f.Tag.Get("maxLength"))
		if e := f.Tag.Get("enum"); e != "" {
			known.enum = strings.Split(e, ",")
		}
		list = append(list, known)
	}
	return list
}

// setMember sets one field and says what is wrong with the value.
func setMember(target reflect.Value, f field, value json.RawMessage) string {
	if string(value) == "null" {
		return "is null"
	}
	switch target.Interface().(type) {
	case string:
		text, problem := readText(value)
		if problem == "" {
			problem = f.check(text)
		}
		target.SetString(text)
		return problem
	case int64:
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 {
			return "is not a whole number from 0"
		}
		target.SetInt(n)
	case countersign.Amount:
		text, problem := readText(value)
		if problem != "" {
			return problem
		}
		a, err := countersign.ParseAmount(text)
		if err != nil {
			return strings.TrimPrefix(err.Error(), "amount ")
		}
		if !a.IsPositive() {
			return "is not above 0"
		}
		target.Set(reflect.ValueOf(a))
	case Time:
		text, problem := readText(value)
		if problem != "" {
			return problem
		}
		t, err := time.Parse(time.RFC3339, text)
		if err != nil || t.Year() < 1971 || t.Year() > 9999 {
			return "is not a time such as 2030-01-31T12:00:00Z"
		}
		target.SetInt(t.UnixMilli())
	case map[string]string:
		labels, problem := labelsMember(value)
		target.Set(reflect.ValueOf(labels))
		return problem
	default:
		panic("member of type " + target.Type().String())
	}
	return ""
}

func (f field) check(text string) string {
	switch n := utf8.RuneCountInString(text); {
	case text == "" && f.minLength > 0:
		return "is empty"
	case f.maxLength > 0 && n > f.maxLength:
		return fmt.Sprintf("is longer than %d characters", f.maxLength)
	case len(f.enum) > 0 && !slices.Contains(f.enum, text):
		return "is none of " + strings.Join(f.enum, ", ")
	}
	return ""
}

// readText reads a JSON string. It refuses what readers disagree on: half of a
// surrogate pair, which reads as U+FFFD, and U+0000.
func readText(value json.RawMessage) (text, problem string) {
	if value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return "", "is not a string"
	}
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return "", "holds U+0000"
	case strings.ContainsRune(text, utf8.RuneError):
		return "", "holds U+FFFD or half of a surrogate pair"
	}
	return text, ""
}

// The bounds of labels.
const (
	maxLabels     = 32
	maxLabelName  = 64
	maxLabelValue = 200
)

func labelsMember(value json.RawMessage) (labels map[string]string, problem string) {
	if value[0] != '{' {
		return nil, "is not an object"
	}
	labels = map[string]string{}
	eachMember(value, func(name string, value json.RawMessage) {
		text, wrong := readText(value)
		_, twice := labels[name]
		switch {
		case problem != "":
		case twice:
			problem = "has a member twice"
		case wrong != "":
			problem = "has a member that " + wrong
		case name == "" || len(name) > maxLabelName || strings.ContainsAny(name, "\x00\uFFFD"):
			problem = fmt.Sprintf("has a member without a name of 1 to %d bytes", maxLabelName)
		case len(text) > maxLabelValue:
			problem = fmt.Sprintf("has a member longer than %d bytes", maxLabelValue)
		case len(labels) == maxLabels:
			problem = fmt.Sprintf("has more than %d members", maxLabels)
		default:
			labels[name] = text
		}
	})
	return labels, problem
}

// unknownMember hints at the right case, which is the usual mistake.
func unknownMember(fields []field, name string) string {
	for _, f := range fields {
		if strings.EqualFold(f.name, name) {
			return "is not known; it is written " + f.name
		}
	}
	return "is not known here"
}

// printable keeps a name that a client made up from spoiling an answer.
func printable(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, name)
}

// param is one query parameter that a route takes.
type param struct {
	name, doc string
	kind      paramKind
	fallback  string
	enum      []string
}

type paramKind int

const (
	textParam paramKind = iota // at most 300 characters, or one of enum
	numberParam
	limitParam // 1 to 1,000
	waitParam  // a duration of at most maxWait
)

// maxWait bounds how long a reader of a feed waits.
const maxWait = time.Minute

// The parameters of lists and feeds.
var (
	afterParam  = param{name: "after", kind: numberParam, fallback: "0", doc: "the last sequence number that the reader has"}
	limitedTo   = param{name: "limit", kind: limitParam, fallback: "100", doc: "most entries to answer"}
	waitFor     = param{name: "wait", kind: waitParam, fallback: "0s", doc: "how long to wait for an entry where there is none, at most 60s"}
	cursorParam = param{name: "cursor", kind: numberParam, fallback: "0", doc: "the member next of the page before"}
	readerParam = param{name: "reader", doc: "in place of after: start where this cursor stands"}
)

// readQuery gives the values of params, defaults included. Parameters that are
// unknown, twice there, or against their rule are faults.
func readQuery(params []param, query url.Values) (map[string]string, []Fault) {
	values := map[string]string{}
	var faults []Fault
	for name, given := range query {
		i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		switch {
		case i < 0:
			faults = append(faults, Fault{"query." + printable(name), "is not known here"})
		case len(given) > 1:
			faults = append(faults, Fault{"query." + name, "is there twice"})
		default:
			values[name] = given[0]
			if text := params[i].check(given[0]); text != "" {
				faults = append(faults, Fault{"query." + name, text})
			}
		}
	}
	for _, p := range params {
		if _, ok := values[p.name]; !ok {
			values[p.name] = p.fallback
		}
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Location, b.Location) })
	return values, faults[:min(len(faults), maxFaults)]
}

func (p param) check(text string) string {
	switch p.kind {
	case numberParam, limitParam:
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil || n < 0:
			return "is not a whole number from 0"
		case p.kind == limitParam && (n < 1 || n > 1000):
			return "is not between 1 and 1000"
		}
	case waitParam:
		if d, err := time.ParseDuration(text); err != nil || d < 0 || d > maxWait {
			return "is not a duration between 0s and 60s"
		}
	default:
		switch {
		case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
			return "is not valid text"
		case len(text) > 300:
			return "is longer than 300 bytes"
		case len(p.enum) > 0 && !slices.Contains(p.enum, text):
			return "is none of " + strings.Join(p.enum, ", ")
		}
	}
	return ""
}
