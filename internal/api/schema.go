package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"countersign/client"
	"countersign/internal/web"
)

// MaxFaults is the most faults that one answer lists.
const MaxFaults = 20

// checkJSON checks src against schema s. It runs before json.Unmarshal, which accepts member names in another case
// and takes the last of two members with one name. The faults never repeat a value. err is set only if src is not
// JSON. huma's own validation is not used: below a oneOf it names no member and repeats the whole value, and it
// accepts 1.0 and 1e2 as whole numbers.
func checkJSON(reg huma.Registry, s *huma.Schema, src []byte, limit int64) (faults []client.Fault, err error) {
	c := checker{reg: reg}
	if c.r, err = web.NewJSONReader(src, int(limit)); err == nil {
		err = c.value(s)
	}
	if err == nil {
		err = c.r.End()
	}
	if at, ok := err.(*web.JSONError); ok && !at.Syntax {
		c.faults = append(c.faults, At(at.Where(inBody), at.Problem))
		err = nil
	}
	return c.faults[:min(len(c.faults), MaxFaults)], err
}

// inBody is the name of the outermost value in faults.
const inBody = "body"

// checker reads JSON and checks it against a schema.
type checker struct {
	reg    huma.Registry
	r      web.JSONReader
	faults []client.Fault
}

// fault adds a fault of the value that is being read.
func (c *checker) fault(message string) {
	if len(c.faults) < MaxFaults {
		c.faults = append(c.faults, At(c.r.Where(inBody), message))
	}
}

// skip reads a value without checking it.
func (c *checker) skip() error {
	_, err := c.r.Value()
	return err
}

func withArticle(kind web.Kind) string {
	switch kind {
	case huma.TypeInteger:
		return "a whole number"
	case web.KindArray, web.KindObject:
		return "an " + string(kind)
	case web.KindNull:
		return "null"
	}
	return "a " + string(kind)
}

func (c *checker) resolve(s *huma.Schema) *huma.Schema {
	for s.Ref != "" {
		s = c.reg.SchemaFromRef(s.Ref)
	}
	return s
}

// pick returns the schema for a value of this kind: s or one of its alternatives.
func (c *checker) pick(s *huma.Schema, kind web.Kind) (*huma.Schema, bool) {
	s = c.resolve(s)
	if len(s.OneOf) == 0 {
		fits := s.Type == "" || s.Type == string(kind) || s.Type == huma.TypeInteger && kind == web.KindNumber
		return s, fits || s.Nullable && kind == web.KindNull
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
		return withArticle(web.Kind(s.Type))
	}
	var kinds []string
	for _, alt := range s.OneOf {
		kinds = append(kinds, c.expected(alt))
	}
	return strings.Join(kinds, " or ")
}

func (c *checker) value(s *huma.Schema) error {
	kind := c.r.Kind()
	if kind == web.KindNone {
		return c.skip()
	}
	s, ok := c.pick(s, kind)
	switch {
	case !ok && kind == web.KindNull:
		c.fault("is null")
	case !ok && s.Format == formatDecimal && kind == web.KindNumber:
		c.fault("is a number; amounts are texts, such as \"1.50\", since programs round numbers")
	case !ok && s.Format == FormatDuration:
		c.fault("is " + withArticle(kind) + "; durations are texts, such as \"30s\", \"10m\" or \"1h30m\"")
	case !ok:
		c.fault("is " + withArticle(kind) + ", not " + c.expected(s))
	case s.Type == "": // any value
	case kind == web.KindObject:
		return c.object(s)
	case kind == web.KindArray:
		return c.array(s)
	case kind == web.KindString:
		text, err := c.r.Text()
		if err != nil {
			return err
		}
		if problem := checkText(s, text); problem != "" {
			c.fault(problem)
		}
		return nil
	case kind == web.KindNumber:
		raw, err := c.r.Value()
		if err != nil {
			return err
		}
		if problem := checkNumber(s, raw); problem != "" {
			c.fault(problem)
		}
		return nil
	}
	return c.skip()
}

func (c *checker) object(s *huma.Schema) error {
	var few [32]string // on the stack
	seen := few[:0]
	more, open := s.AdditionalProperties.(*huma.Schema)
	err := c.r.Object(func(name string) error {
		if prop := s.Properties[name]; prop != nil {
			seen = append(seen, name)
			return c.value(prop)
		}
		if open {
			return c.value(more)
		}
		c.fault(unknownMember(s, name))
		return c.skip()
	})
	if err != nil {
		return err
	}
	for _, name := range s.Required {
		if !slices.Contains(seen, name) && len(c.faults) < MaxFaults {
			c.faults = append(c.faults, At(c.r.Where(inBody)+"."+name, "is missing"))
		}
	}
	return nil
}

// unknownMember returns the fault of an unknown member. It suggests the known member whose name differs only in case,
// which is the usual mistake.
func unknownMember(s *huma.Schema, name string) string {
	if known, ok := web.Folded(maps.Keys(s.Properties), name); ok {
		return "is not known; it is written " + known
	}
	return "is not known here"
}

func (c *checker) array(s *huma.Schema) error {
	n := 0
	err := c.r.Array(func(index int) error {
		n++
		if s.MaxItems != nil && index >= *s.MaxItems {
			return c.skip()
		}
		return c.value(s.Items)
	})
	if err != nil {
		return err
	}
	switch {
	case s.MinItems != nil && n < *s.MinItems:
		c.fault(fmt.Sprintf("has %d items: give at least %d", n, *s.MinItems))
	case s.MaxItems != nil && n > *s.MaxItems:
		c.fault(fmt.Sprintf("has %d items: give at most %d", n, *s.MaxItems))
	}
	return nil
}
