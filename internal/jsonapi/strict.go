package jsonapi

import (
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
	formatTime     = "date-time"   // time.Parse decides, from 1971 to 9999
	FormatDecimal  = "decimal"     // countersign.ParseAmount decides
	FormatDuration = "go-duration" // time.ParseDuration decides
)

// MaxFaults bounds how many faults one answer names.
const MaxFaults = 20

// maxNesting is deeper than any request. Values of unknown members are skipped,
// not descended into.
const maxNesting = 16

// checkJSON holds src, in which syntax finds no fault, against schema s. It is
// stricter than encoding/json, which takes members whose names differ by case
// and the last of two members with one name: other software in the path may take
// the first. What passes is safe to give to json.Unmarshal. Faults never repeat a
// value.
func checkJSON(reg huma.Registry, s *huma.Schema, src []byte, root string, refuseReplacement bool) []Detail {
	c := checker{reg: reg, src: string(src), path: []step{{name: root}}, refuseReplacement: refuseReplacement}
	c.value(s)
	return c.faults
}

type step struct {
	name  string
	index int // where name is empty
}

// checker walks over bytes that are known to be valid JSON.
type checker struct {
	reg    huma.Registry
	src    string // values and names are parts of it
	pos    int
	path   []step
	faults []Detail

	refuseReplacement bool // of Config
}

// text gives the text of a JSON string and what is wrong with it.
func (c *checker) text(raw string) (text, problem string) {
	text, problem = unquote(raw)
	if problem == "" && c.refuseReplacement && strings.ContainsRune(text, utf8.RuneError) {
		problem = "holds U+FFFD or half of a surrogate pair"
	}
	return text, problem
}

func (c *checker) fault(message string) {
	if len(c.faults) < MaxFaults {
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
		text, problem := c.text(c.str())
		if problem == "" {
			problem = checkText(s, text)
		}
		if problem != "" {
			c.fault(problem)
		}
	case kind == huma.TypeNumber && s.Type != "":
		if problem := checkNumber(s, c.skip()); problem != "" {
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
	var others map[string]bool // members that the schema does not name and allows
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
		name, problem := c.text(c.str())
		c.space()
		c.pos++ // :
		prop := s.Properties[name]
		more, anyMember := s.AdditionalProperties.(*huma.Schema)
		switch {
		case problem != "":
			c.faultAt(name, problem)
			c.skip()
		case slices.Contains(seen[:n], name), others[name]:
			c.faultAt(name, "is there twice")
			c.skip()
		case prop == nil && anyMember:
			if others == nil {
				others = map[string]bool{}
			}
			others[name] = true
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
