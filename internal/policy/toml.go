package policy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"countersign"
)

// Bounds on a policy file. The counts of brackets and points bound the work of the TOML reader, which may grow with the
// square of a hostile file's size.
const (
	maxPolicyFile   = 1 << 20 // bytes
	maxRules        = 500
	maxLimits       = 200
	maxTables       = 1000  // "{"
	maxArrays       = 20000 // "["
	maxPointsOnLine = 64    // "."
	maxReason       = 200   // bytes of a reason or name
	maxWindow       = 366 * 24 * time.Hour
	maxApprovals    = 10 // persons
)

// ErrFile is wrapped by every error of Parse.
var ErrFile = errors.New("policy file")

// Error says where and why a policy file is wrong.
type Error struct {
	Where   string // such as `rule 3 "large"`, with the key; empty: the file itself
	Line    int    // of a text that is not TOML, from 1; 0: not known
	Problem string // what is wrong, and what to write
}

func (e *Error) Error() string {
	text := ErrFile.Error()
	if e.Line > 0 {
		text += fmt.Sprintf(": line %d", e.Line)
	}
	if e.Where != "" {
		text += ": " + e.Where
	}
	return text + ": " + e.Problem
}

// Unwrap makes errors.Is(err, ErrFile) true.
func (e *Error) Unwrap() error { return ErrFile }

// readTOML returns the tables of a file. Keys are case-sensitive: "Effect" is not "effect".
func readTOML(file []byte) map[string]any {
	switch {
	case len(file) > maxPolicyFile:
		panic(&Error{Problem: fmt.Sprintf("is larger than %d bytes", maxPolicyFile)})
	case bytes.Count(file, []byte("{")) > maxTables:
		panic(&Error{Problem: fmt.Sprintf("has more than %d braces", maxTables)})
	case bytes.Count(file, []byte("[")) > maxArrays:
		panic(&Error{Problem: fmt.Sprintf("has more than %d brackets", maxArrays)})
	}
	n := 0
	for line := range bytes.Lines(file) {
		if n++; bytes.Count(line, []byte(".")) > maxPointsOnLine {
			panic(&Error{Line: n, Problem: fmt.Sprintf("has more than %d points on one line", maxPointsOnLine)})
		}
	}
	root := map[string]any{}
	if err := toml.Unmarshal(file, &root); err != nil {
		out := &Error{Problem: "is not TOML"}
		var parse toml.ParseError
		if errors.As(err, &parse) {
			out.Line, out.Problem = parse.Position.Line, cmp.Or(cut(parse.Message, 200), out.Problem)
		}
		panic(out)
	}
	return root
}

// section is one table of the file, with the name for it in errors. Its methods return the zero value for an absent key
// and panic with an *Error for a wrong one.
type section struct {
	where string
	m     map[string]any
	head  string // of the table, as [[rule]]; empty: the top of the file
}

func (s section) has(key string) bool { _, ok := s.m[key]; return ok }

func (s section) keys() []string { return slices.Sorted(maps.Keys(s.m)) }

func (s section) fail(key, format string, args ...any) {
	where := s.where
	if where != "" {
		where += ": "
	}
	panic(&Error{Where: where + cut(key, 40), Problem: fmt.Sprintf(format, args...)})
}

func (s section) needs(keys ...string) {
	for _, k := range keys {
		if !s.has(k) {
			s.fail(k, "is missing")
		}
	}
}

// value returns the value of key, or the zero value if the key is absent. problem is the error for a value of another
// type.
func value[T any](s section, key, problem string, args ...any) T {
	v, ok := s.m[key].(T)
	if !ok && s.has(key) {
		s.fail(key, problem, args...)
	}
	return v
}

// text returns a text on one line.
func (s section) text(key string) string {
	text := value[string](s, key, "is not a text in quotes")
	switch {
	case text == "" && s.has(key):
		s.fail(key, "is empty")
	case len(text) > maxReason || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		s.fail(key, "is not one line of at most %d bytes", maxReason)
	}
	return text
}

func (s section) flag(key string) bool {
	return value[bool](s, key, "is neither true nor false, without quotes")
}

// number returns a whole number from least to most, or absent if the key is.
func (s section) number(key string, least, most, absent int) int {
	if !s.has(key) {
		return absent
	}
	n, ok := s.m[key].(int64)
	if !ok || n < int64(least) || n > int64(most) {
		s.fail(key, "is not a whole number from %d to %d, without quotes", least, most)
	}
	return int(n)
}

// approvals returns how many persons an effect asks, or 0 for any effect but Ask. At the top of the file it is the
// default for rules and limits.
func (s section) approvals(key string, e Effect, absent int) int {
	n := s.number(key, 1, maxApprovals, absent)
	if e == Ask {
		return n
	}
	if s.has(key) && s.where != "" {
		s.fail(key, "applies only to ask: nobody approves what is allowed or denied")
	}
	return 0
}

func (s section) texts(key string) []string {
	list := value[[]any](s, key, "is not a list of texts")
	out := make([]string, len(list))
	for i, v := range list {
		var ok bool
		if out[i], ok = v.(string); !ok {
			s.fail(key, "has entry %d, which is not a text in quotes", i+1)
		}
	}
	return out
}

func (s section) table(key string) section {
	return section{key, value[map[string]any](s, key, "is not a table: write [%s] once", key), "[" + key + "]"}
}

// tables returns the tables of a list [[key]], each named by its number and its name. No two share a name.
func (s section) tables(key string, most int) []section {
	list := value[[]map[string]any](s, key, "is not a list of tables: write [[%s]] above each", key)
	if len(list) > most {
		s.fail(key, "has more than %d entries", most)
	}
	out, seen := make([]section, len(list)), map[string]bool{}
	for i, m := range list {
		t := section{fmt.Sprintf("%s %d", key, i+1), m, "[[" + key + "]]"}
		t.needs("name")
		name := t.text("name")
		t.where += fmt.Sprintf(" %q", cut(name, 40))
		if seen[name] {
			t.fail("name", "is in use")
		}
		out[i], seen[name] = t, true
	}
	return out
}

// effect reads an effect, one of allowed. If the key is absent, it returns the first of them.
func (s section) effect(key string, allowed ...Effect) Effect {
	text := s.text(key)
	if text == "" {
		return allowed[0]
	}
	var words []string
	for _, e := range allowed {
		if e.String() == text {
			return e
		}
		words = append(words, e.String())
	}
	s.fail(key, "%q is not one of %s", cut(text, 40), strings.Join(words, ", "))
	return Deny
}

func (s section) amount(key string) countersign.Amount {
	switch s.m[key].(type) {
	case int64, float64:
		s.fail(key, `is a number without quotes, which may not be exact: write "1000.5"`)
	}
	a, err := countersign.ParseAmount(s.text(key))
	if err != nil {
		s.fail(key, "%v", err)
	}
	return a
}

// visible refuses a symbol or a chain that no order can have, because another may look the same.
func (s section) visible(key string, texts ...string) {
	for _, text := range texts {
		if text == "" || !countersign.VisibleASCII(text) {
			s.fail(key, "%q is empty, or has a character that is not visible ASCII", cut(text, 40))
		}
	}
}

// span reads a length of time of at least one second.
func (s section) span(key string) time.Duration {
	text := s.text(key)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > maxWindow {
		s.fail(key, `%q is not a length of time from "1s" to "%.0fh", such as "24h"`, cut(text, 40), maxWindow.Hours())
	}
	return d
}

// zone reads the name of a time zone; the default is UTC.
func (s section) zone(key string) *time.Location {
	text := s.text(key)
	if text == "Local" {
		s.fail(key, `"Local" is not a zone of its own: name one, such as Europe/Berlin`)
	}
	zone, err := time.LoadLocation(text)
	if err != nil {
		s.fail(key, "%q is not a time zone such as Europe/Berlin", cut(text, 40))
	}
	return zone
}

// decimals reads [decimals]: how many decimals the amounts of a symbol may have.
func (s section) decimals() map[string]int {
	t, out := s.table("decimals"), map[string]int{}
	for _, symbol := range t.keys() {
		t.visible(symbol, symbol)
		n := t.number(symbol, 0, countersign.MaxAmountDigits-1, 0)
		folded := countersign.FoldSymbol(symbol)
		if _, ok := out[folded]; ok {
			t.fail(symbol, "occurs twice, in other letters")
		}
		out[folded] = n
	}
	return out
}

// cut returns the start of a text from the file, for an error.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
