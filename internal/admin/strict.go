package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// Words of the schemas that this reader gives a meaning of its own.
const (
	typeNull       = "null"
	formatDecimal  = "decimal"     // countersign.ParseAmount decides
	formatDuration = "go-duration" // time.ParseDuration decides
)

// maxFaults bounds how many faults one answer names.
const maxFaults = 20

// maxNesting is deeper than any request. Values of unknown members are skipped,
// not descended into.
const maxNesting = 16

// Detail names one fault of a request.
type Detail struct {
	Location string `json:"location" doc:"where: body, query, path or header, then the member, such as body[3].amount"`
	Message  string `json:"message" doc:"what is wrong with it"`
}

// checkJSON holds src against schema s. It is stricter than encoding/json,
// which takes members whose names differ by case and the last of two members
// with one name: other software in the path may take the first. What passes is
// safe to give to json.Unmarshal. Faults never repeat a value.
func checkJSON(reg huma.Registry, s *huma.Schema, src []byte, root string) []Detail {
	if problem := syntax(src); problem != "" {
		return []Detail{{root, problem}}
	}
	c := checker{reg: reg, src: src, path: []step{{name: root}}}
	c.value(s)
	return c.faults
}

// syntax says what keeps src from being one JSON value in UTF-8.
func syntax(src []byte) string {
	switch {
	case len(bytes.TrimSpace(src)) == 0:
		return "is empty"
	case !utf8.Valid(src):
		return "is not valid UTF-8"
	case json.Valid(src):
		return ""
	}
	var v json.RawMessage
	err := json.Unmarshal(src, &v)
	if at, ok := err.(*json.SyntaxError); ok {
		return fmt.Sprintf("is not JSON: fault near byte %d", at.Offset)
	}
	return "is not JSON"
}

type step struct {
	name  string
	index int // where name is empty
}

// checker walks over bytes that are known to be valid JSON.
type checker struct {
	reg    huma.Registry
	src    []byte
	pos    int
	path   []step
	faults []Detail
}

func (c *checker) fault(message string) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, Detail{c.location(), message})
	}
}

func (c *checker) faultAt(name, message string) {
	c.path = append(c.path, step{name: name})
	c.fault(message)
	c.path = c.path[:len(c.path)-1]
}

func (c *checker) location() string {
	var b strings.Builder
	for i, s := range c.path {
		switch {
		case s.name == "":
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case i == 0:
			b.WriteString(s.name)
		default:
			b.WriteString("." + printable(s.name))
		}
	}
	return b.String()
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

func (c *checker) space() {
	for c.pos < len(c.src) && strings.IndexByte(" \t\r\n", c.src[c.pos]) >= 0 {
		c.pos++
	}
}

// skip passes over one value and gives its bytes.
func (c *checker) skip() []byte {
	c.space()
	start, depth := c.pos, 0
	for c.pos < len(c.src) {
		switch ch := c.src[c.pos]; ch {
		case '"':
			c.str()
		case '{', '[':
			depth++
			c.pos++
		case '}', ']':
			if depth == 0 {
				return c.src[start:c.pos]
			}
			depth--
			c.pos++
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return c.src[start:c.pos]
			}
			c.pos++
		default:
			c.pos++
		}
		if depth == 0 && (c.src[c.pos-1] == '"' || c.src[c.pos-1] == '}' || c.src[c.pos-1] == ']') {
			break
		}
	}
	return c.src[start:c.pos]
}

// str passes over one string and gives its bytes, quotes included.
func (c *checker) str() []byte {
	start := c.pos
	for c.pos++; c.src[c.pos] != '"'; c.pos++ {
		if c.src[c.pos] == '\\' {
			c.pos++
		}
	}
	c.pos++
	return c.src[start:c.pos]
}

func kindOf(first byte) string {
	switch first {
	case '{':
		return huma.TypeObject
	case '[':
		return huma.TypeArray
	case '"':
		return huma.TypeString
	case 't', 'f':
		return huma.TypeBoolean
	case 'n':
		return typeNull
	}
	return huma.TypeNumber
}

func withArticle(kind string) string {
	switch kind {
	case huma.TypeInteger:
		return "a whole number"
	case huma.TypeArray, huma.TypeObject:
		return "an " + kind
	case typeNull:
		return "null"
	}
	return "a " + kind
}

func (c *checker) resolve(s *huma.Schema) *huma.Schema {
	for s.Ref != "" {
		s = c.reg.SchemaFromRef(s.Ref)
	}
	return s
}

// pick finds the schema that a value of this kind must keep to.
func (c *checker) pick(s *huma.Schema, kind string) (*huma.Schema, bool) {
	s = c.resolve(s)
	if len(s.OneOf) == 0 {
		fits := s.Type == "" || s.Type == kind || s.Type == huma.TypeInteger && kind == huma.TypeNumber
		return s, fits || s.Nullable && kind == typeNull
	}
	for _, alt := range s.OneOf {
		if a, ok := c.pick(alt, kind); ok {
			return a, true
		}
	}
	return s, false
}

func (c *checker) expected(s *huma.Schema) string {
	s = c.resolve(s)
	if len(s.OneOf) == 0 {
		return withArticle(s.Type)
	}
	var kinds []string
	for _, alt := range s.OneOf {
		kinds = append(kinds, c.expected(alt))
	}
	return strings.Join(kinds, " or ")
}

func (c *checker) value(s *huma.Schema) {
	c.space()
	kind := kindOf(c.src[c.pos])
	s, ok := c.pick(s, kind)
	switch {
	case !ok && kind == typeNull:
		c.fault("is null")
		c.skip()
	case !ok:
		c.fault("is " + withArticle(kind) + ", not " + c.expected(s))
		c.skip()
	case len(c.path) > maxNesting:
		c.fault("is nested too deeply")
		c.skip()
	case kind == huma.TypeObject && s.Type == huma.TypeObject:
		c.object(s)
	case kind == huma.TypeArray && s.Type == huma.TypeArray:
		c.array(s)
	case kind == huma.TypeString && s.Type == huma.TypeString:
		text, problem := unquote(c.str())
		if problem == "" {
			problem = checkText(s, text)
		}
		if problem != "" {
			c.fault(problem)
		}
	case kind == huma.TypeNumber && s.Type != "":
		if problem := checkNumber(s, string(c.skip())); problem != "" {
			c.fault(problem)
		}
	default: // true, false, null, and anything where the schema is empty
		c.skip()
	}
}

func (c *checker) object(s *huma.Schema) {
	c.pos++ // {
	var seen [32]string
	n := 0
	for {
		c.space()
		switch c.src[c.pos] {
		case '}':
			c.pos++
			for _, name := range s.Required {
				if !slices.Contains(seen[:n], name) {
					c.faultAt(name, "is missing")
				}
			}
			return
		case ',':
			c.pos++
			c.space()
		}
		name, problem := unquote(c.str())
		c.space()
		c.pos++ // :
		prop := s.Properties[name]
		more, anyMember := s.AdditionalProperties.(*huma.Schema)
		switch {
		case problem != "":
			c.faultAt(name, problem)
			c.skip()
		case slices.Contains(seen[:n], name):
			c.faultAt(name, "is there twice")
			c.skip()
		case prop == nil && anyMember:
			c.path = append(c.path, step{name: name})
			c.value(more)
			c.path = c.path[:len(c.path)-1]
		case prop == nil:
			c.faultAt(name, unknownMember(s, name))
			c.skip()
		default:
			if n < len(seen) {
				seen[n] = name
				n++
			}
			c.path = append(c.path, step{name: name})
			c.value(prop)
			c.path = c.path[:len(c.path)-1]
		}
	}
}

// unknownMember hints at the right case, which is the usual mistake.
func unknownMember(s *huma.Schema, name string) string {
	for known := range s.Properties {
		if strings.EqualFold(known, name) {
			return "is not known; it is written " + known
		}
	}
	return "is not known here"
}

func (c *checker) array(s *huma.Schema) {
	c.pos++ // [
	n := 0
	for {
		c.space()
		if c.src[c.pos] == ']' {
			c.pos++
			break
		}
		if c.src[c.pos] == ',' {
			c.pos++
		}
		if s.MaxItems != nil && n >= *s.MaxItems {
			n++
			c.skip()
			continue
		}
		c.path = append(c.path, step{index: n})
		c.value(s.Items)
		c.path = c.path[:len(c.path)-1]
		n++
	}
	switch {
	case s.MinItems != nil && n < *s.MinItems:
		c.fault(fmt.Sprintf("has %d items; the least is %d", n, *s.MinItems))
	case s.MaxItems != nil && n > *s.MaxItems:
		c.fault(fmt.Sprintf("has %d items; the most is %d", n, *s.MaxItems))
	}
}
