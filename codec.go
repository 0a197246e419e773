package countersign

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"countersign/internal/web"
)

// Raw is one JSON value as text. The empty Raw is no value.
type Raw string

// Null is the JSON null.
const Null Raw = "null"

// Member is one unknown member of a message (PROTOCOL.md, M6).
type Member struct {
	Name  string
	Value Raw
}

// Members are unknown members, sorted by name when parsed. They are kept and
// written again but have no effect (PROTOCOL.md, M6).
type Members []Member

// Get returns the value of the member called name, the empty Raw if there is none.
func (m Members) Get(name string) Raw {
	for _, e := range m {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// presence says when a member may be absent or empty.
type presence int

const (
	required   presence = 0         // must be there; a text must not be empty
	mayBeEmpty presence = 1 << iota // must be there; a text may be empty
	lenient                         // may be absent or null in a lenient parse
	optional                        // may be absent or null in any parse
	nullable                        // like optional, and null is written for an empty text
	noEffect                        // a lenient parse takes any value, and keeps one that the interface does not allow in AsSent
	ascii                           // a text of VisibleASCII
	legible                         // a text that is Legible
	identifier                      // a text of at most MaxID bytes
)

// MaxID is the most bytes of an identifier: trackingId, tenantUserId, callBackId and requestUUID (PROTOCOL.md, M13).
// Database indexes handle longer keys badly or not at all.
const MaxID = 1024

// problem returns the rule of p that the text v breaks, in words.
func (p presence) problem(v string) string {
	switch {
	case p&identifier != 0 && len(v) > MaxID:
		return fmt.Sprintf("is longer than %d bytes", MaxID)
	case p&ascii != 0 && !VisibleASCII(v):
		return "has a character that is not visible ASCII"
	case p&legible != 0 && !Legible(v):
		return "has a space or an invisible character"
	}
	return ""
}

// codec carries one message in one direction. A message describes its members
// once, in their canonical order. The same description reads and writes them, so
// reading and writing cannot differ.
type codec struct {
	obj     *web.Object // what to read; nil while writing
	lenient bool
	answer  bool     // an answer: type and amount may be numbers or strings (PROTOCOL.md, R6)
	asSent  *Members // of the message: see Head.AsSent; may be nil
	out     []byte
	names   []string // described so far
	room    [20]string
	faults  []*MemberError // every member that breaks its rule, in the order of the descriptions
}

// describe notes that name is a member of the interface.
func (c *codec) describe(name string) {
	if c.names == nil {
		c.names = c.room[:0]
	}
	c.names = append(c.names, name)
}

func (c *codec) reading() bool { return c.obj != nil }

func (c *codec) fail(name, problem string) {
	c.faults = append(c.faults, &MemberError{name, problem})
}

// keep notes that a lenient parse converted the member called name from raw.
func (c *codec) keep(name, raw string) {
	*c.asSent = append(*c.asSent, Member{name, Raw(web.CompactJSON(raw))})
}

// sent returns the member called name as it was sent, or "" if that was its usual form.
func (c *codec) sent(name string) string {
	if c.asSent == nil {
		return ""
	}
	return string(c.asSent.Get(name))
}

// same writes a member as it was sent.
func (c *codec) same(name, raw string) {
	c.key(name)
	c.out = append(c.out, raw...)
}

// key opens the member called name in the output.
func (c *codec) key(name string) {
	if len(c.out) == 0 {
		c.out = append(c.out, '{')
	} else {
		c.out = append(c.out, ',')
	}
	c.out = appendString(c.out, name)
	c.out = append(c.out, ':')
}

// read finds the raw value of a described member. It returns "" if the value is
// absent or null and that is allowed.
func (c *codec) read(name string, p presence) string {
	c.describe(name)
	m, ok := c.obj.Find(name)
	mayLack := p&(optional|nullable) != 0 || p&lenient != 0 && c.lenient
	if !ok {
		if !mayLack {
			c.fail(name, "is missing")
		}
		return ""
	}
	raw := c.obj.Raw(m)
	if raw[0] == 'n' {
		if !mayLack {
			c.fail(name, "is null")
		}
		return ""
	}
	return raw
}

func (c *codec) text(name string, v *string, p presence) {
	if c.reading() {
		raw := c.read(name, p)
		if raw == "" {
			return
		}
		if raw[0] != '"' {
			c.fail(name, "is not a string")
			return
		}
		text := web.JSONText(raw)
		if problem := p.problem(text); problem != "" {
			c.fail(name, problem)
			return
		}
		*v = text
		if *v == "" && p&(mayBeEmpty|optional|nullable) == 0 && (p&lenient == 0 || !c.lenient) {
			c.fail(name, "is empty")
		}
		return
	}
	c.describe(name)
	if *v == "" {
		switch {
		case p&nullable != 0:
			c.key(name)
			c.out = append(c.out, Null...)
			return
		case p&optional != 0, p&lenient != 0 && p&mayBeEmpty == 0:
			return
		case p&mayBeEmpty == 0:
			c.fail(name, "is empty")
			return
		}
	}
	if !utf8.ValidString(*v) {
		c.fail(name, "is not valid UTF-8")
		return
	}
	if strings.IndexByte(*v, 0) >= 0 {
		c.fail(name, "holds U+0000")
		return
	}
	if problem := p.problem(*v); problem != "" {
		c.fail(name, problem)
		return
	}
	c.key(name)
	c.out = appendString(c.out, *v)
}

// id carries an identifier. A lenient parse takes a whole number for the text of
// its digits.
func (c *codec) id(name string, v *string, p presence) {
	p |= identifier
	if c.reading() {
		if m, ok := c.obj.Find(name); ok && c.lenient && isDigits(c.obj.Raw(m)) && len(c.obj.Raw(m)) <= MaxID {
			c.describe(name)
			*v = c.obj.Raw(m)
			c.keep(name, *v)
			return
		}
	} else if raw := c.sent(name); raw == *v && isDigits(raw) {
		c.describe(name)
		c.same(name, raw)
		return
	}
	c.text(name, v, p)
}

// isDigits reports whether raw is a number of digits alone, of any size.
func isDigits(raw string) bool {
	return raw != "" && strings.Trim(raw, "0123456789") == ""
}

// whole carries a whole number from lo to hi. A message that lacks the member
// sets v to unset. If omit is true, a v equal to unset is not written.
// A lenient parse takes a number that is written as a text.
func (c *codec) whole(name string, v *int64, lo, hi, unset int64, omit bool, p presence) {
	if c.reading() {
		raw := c.read(name, p)
		if raw == "" || raw == `""` && c.lenient && p&(lenient|noEffect) == lenient { // M3
			*v = unset
			return
		}
		n, problem := c.wholeOf(raw, lo, hi)
		switch {
		case problem != "" && c.lenient && p&noEffect != 0:
			*v = unset
			c.keep(name, raw)
			return
		case problem != "":
			c.fail(name, problem)
		case raw[0] == '"':
			c.keep(name, raw)
		}
		*v = n
		return
	}
	c.describe(name)
	if raw := c.sent(name); raw != "" {
		n, problem := (&codec{lenient: true}).wholeOf(raw, lo, hi)
		if problem != "" && p&noEffect != 0 {
			n, problem = unset, ""
		}
		if problem == "" && n == *v {
			c.same(name, raw)
			return
		}
	}
	if omit && *v == unset {
		return
	}
	if *v < lo || *v > hi {
		c.fail(name, fmt.Sprintf("is not between %d and %d", lo, hi))
		return
	}
	c.key(name)
	c.out = strconv.AppendInt(c.out, *v, 10)
}

// wholeOf reads a whole number from lo to hi.
func (c *codec) wholeOf(raw string, lo, hi int64) (n int64, problem string) {
	if raw[0] == '"' && c.lenient {
		raw = web.JSONText(raw)
	}
	n, ok := wholeNumber(raw)
	switch {
	case !ok || raw[0] == '+': // no number of JSON begins with it
		return 0, "is not a whole number"
	case n < lo || n > hi:
		return n, fmt.Sprintf("is not between %d and %d", lo, hi)
	}
	return n, ""
}

// amount carries an amount. A lenient parse takes a JSON number and an exponent.
func (c *codec) amount(name string, v *Amount, p presence) {
	if c.reading() {
		raw := c.read(name, p)
		if raw == "" {
			return
		}
		if raw[0] != '"' && !c.answer && !c.lenient {
			c.fail(name, "is not a string")
			return
		}
		text, problem := amountText(raw), ""
		if c.lenient {
			text, problem = plainAmount(text)
		} else {
			problem = amountProblem(text)
		}
		if problem != "" {
			c.fail(name, problem)
			return
		}
		*v = Amount{text}
		if c.lenient && (raw[0] != '"' || amountText(raw) != text) {
			c.keep(name, raw)
		}
		return
	}
	c.describe(name)
	if raw := c.sent(name); raw != "" {
		if text, problem := plainAmount(amountText(raw)); problem == "" && text == v.text {
			c.same(name, raw)
			return
		}
	}
	if !v.IsSet() {
		if p&(lenient|optional) == 0 {
			c.fail(name, "is empty")
		}
		return
	}
	c.key(name)
	c.out = appendString(c.out, v.text)
}

// amountText returns the text of an amount, which raw holds as a string or a number.
func amountText(raw string) string {
	if raw[0] == '"' {
		return web.JSONText(raw)
	}
	return raw
}

// kind carries the callback type, which must be want unless want is 0.
func (c *codec) kind(v *Type, want Type) {
	if c.reading() {
		raw := c.read("type", required)
		if raw == "" {
			return
		}
		n, ok := typeNumber(raw, c.answer || c.lenient)
		if !ok {
			c.fail("type", "is not a whole number")
			return
		}
		if raw[0] == '"' && c.lenient {
			c.keep("type", raw)
		}
		*v = Type(n)
	} else {
		c.describe("type")
		if raw := c.sent("type"); raw == `"`+strconv.Itoa(int(*v))+`"` {
			c.same("type", raw)
		} else {
			c.key("type")
			c.out = strconv.AppendInt(c.out, int64(*v), 10)
		}
	}
	if want != 0 && *v != want {
		c.fail("type", fmt.Sprintf("is not %d", int(want)))
	}
}

// raw carries a member without a known meaning. The empty Raw is an absent member.
func (c *codec) raw(name string, v *Raw) {
	if c.reading() {
		c.describe(name)
		if m, ok := c.obj.Find(name); ok {
			*v = Raw(web.CompactJSON(c.obj.Raw(m)))
		}
		return
	}
	c.describe(name)
	if *v == "" {
		return
	}
	if !web.ValidMember(string(*v)) {
		c.fail(name, "is not one JSON value")
		return
	}
	c.key(name)
	c.out = append(c.out, web.CompactJSON(string(*v))...)
}

// extra carries all members that are not described. later names the members that
// the message describes after this call. A name that differs from a described one
// by case alone is refused (PROTOCOL.md, M2), because other readers would take it
// for that member.
func (c *codec) extra(v *Members, later ...string) {
	known := append(c.names, later...) // the next describe overwrites what is appended
	if c.reading() {
		for _, m := range c.obj.Members {
			if slices.Contains(known, m.Name) {
				continue
			}
			if name, folded := web.Folded(slices.Values(known), m.Name); folded {
				c.fail(m.Name, "differs from "+name+" by case alone")
				return
			}
			*v = append(*v, Member{m.Name, Raw(web.CompactJSON(c.obj.Raw(m)))})
		}
		slices.SortFunc(*v, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
		return
	}
	sorted := slices.Clone(*v)
	slices.SortFunc(sorted, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	for i, m := range sorted {
		_, folded := web.Folded(slices.Values(known), m.Name)
		switch {
		case folded:
			c.fail(m.Name, "is a member of the interface, not an unknown one")
		case i > 0 && sorted[i-1].Name == m.Name:
			c.fail(m.Name, "occurs twice")
		case !utf8.ValidString(m.Name) || strings.IndexByte(m.Name, 0) >= 0 || !web.ValidMember(string(m.Value)):
			c.fail(m.Name, "is not a JSON member")
		default:
			c.key(m.Name)
			c.out = append(c.out, web.CompactJSON(string(m.Value))...)
		}
	}
}

// finish returns the first error and, when writing, closes the output.
func (c *codec) finish() error {
	if len(c.faults) > 0 {
		return c.faults[0]
	}
	if !c.reading() {
		c.out = append(c.out, '}')
		if len(c.out) > MaxMessage {
			return fmt.Errorf("%w: longer than %d bytes", ErrMalformed, MaxMessage)
		}
	}
	return nil
}

func encode(m interface{ members(c *codec) }) ([]byte, error) {
	c := codec{out: make([]byte, 0, 512)}
	m.members(&c)
	if err := c.finish(); err != nil {
		return nil, err
	}
	return c.out, nil
}

// appendString writes s as a JSON string with the fewest escapes: quote,
// backslash and the control characters below U+0020.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		ch := s[i]
		if ch >= 0x20 && ch != '"' && ch != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch ch {
		case '"', '\\':
			b = append(b, '\\', ch)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[ch>>4], hex[ch&15])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}
