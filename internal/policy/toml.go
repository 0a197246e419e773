package policy

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"github.com/BurntSushi/toml"

	"countersign"
)

// Bounds on a policy file. The counts of brackets and points bound the work of the
// TOML reader, which can grow with the square of a hostile file's size.
const (
	maxPolicyFile   = 1 << 20 // bytes
	maxRules        = 500
	maxLimits       = 200
	maxTables       = 1000  // "{"
	maxArrays       = 20000 // "["
	maxPointsOnLine = 64    // "."
	maxReason       = 200   // bytes of a reason or name
	maxWindow       = 366 * 24 * time.Hour
)

// readTOML gives the tables of a file. Keys keep their case: "Effect" is not
// "effect".
func readTOML(file []byte) (map[string]any, *Error) {
	switch {
	case len(file) > maxPolicyFile:
		return nil, &Error{Problem: fmt.Sprintf("is larger than %d bytes", maxPolicyFile)}
	case bytes.Count(file, []byte("{")) > maxTables:
		return nil, &Error{Problem: fmt.Sprintf("has more than %d braces", maxTables)}
	case bytes.Count(file, []byte("[")) > maxArrays:
		return nil, &Error{Problem: fmt.Sprintf("has more than %d brackets", maxArrays)}
	}
	n := 0
	for line := range bytes.Lines(file) {
		if n++; bytes.Count(line, []byte(".")) > maxPointsOnLine {
			return nil, &Error{Line: n, Column: 1, Problem: fmt.Sprintf("has more than %d points on one line", maxPointsOnLine)}
		}
	}
	root := map[string]any{}
	if err := toml.Unmarshal(file, &root); err != nil {
		out := &Error{Problem: brief(err.Error())}
		var parse toml.ParseError
		if errors.As(err, &parse) {
			out.Line, out.Column, out.Problem = parse.Position.Line, max(parse.Position.Col, 1), brief(parse.Message)
			if parse.Message == "" {
				out.Problem = "is not TOML"
			}
		}
		return nil, out
	}
	return root, nil
}

// section is one table of the file and what errors call it.
type section struct {
	where string
	m     map[string]any
}

func (s section) has(key string) bool { _, ok := s.m[key]; return ok }

func (s section) keys() []string { return slices.Sorted(maps.Keys(s.m)) }

func (s section) fail(key, format string, args ...any) *Error {
	where := s.where
	if where != "" {
		where += ": "
	}
	return &Error{Where: where + cut(key, 40), Problem: fmt.Sprintf(format, args...)}
}

// known refuses every key that is none of keys: a misspelt "above" must not
// leave a limit at its default.
func (s section) known(keys ...string) *Error {
	for _, k := range s.keys() {
		if !slices.Contains(keys, k) {
			slices.Sort(keys)
			return s.fail(k, "is no key here; there are %s", strings.Join(keys, ", "))
		}
	}
	return nil
}

// text gives a text of one line; empty where the key is absent.
func (s section) text(key string) (string, *Error) {
	v, ok := s.m[key]
	if !ok {
		return "", nil
	}
	text, ok := v.(string)
	switch {
	case !ok:
		return "", s.fail(key, "is not a text in quotes")
	case text == "":
		return "", s.fail(key, "is empty")
	case len(text) > maxReason || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", s.fail(key, "is not one line of at most %d bytes", maxReason)
	}
	return text, nil
}

// flag gives true or false; false where the key is absent.
func (s section) flag(key string) (bool, *Error) {
	v, ok := s.m[key]
	if !ok {
		return false, nil
	}
	set, ok := v.(bool)
	if !ok {
		return false, s.fail(key, "is neither true nor false, without quotes")
	}
	return set, nil
}

func (s section) texts(key string) ([]string, *Error) {
	list, ok := s.m[key].([]any)
	if !ok {
		return nil, s.fail(key, "is not a list of texts")
	}
	out := make([]string, len(list))
	for i, v := range list {
		if out[i], ok = v.(string); !ok {
			return nil, s.fail(key, "has an entry, number %d, that is not a text in quotes", i+1)
		}
	}
	return out, nil
}

// table gives the table under key; one without entries where it is absent.
func (s section) table(key string) (section, *Error) {
	v, ok := s.m[key]
	if !ok {
		return section{where: key}, nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return section{}, s.fail(key, "is not a table: write [%s] once", key)
	}
	return section{key, m}, nil
}

// tables gives the tables of a list [[key]], called by number and name.
func (s section) tables(key string, most int) ([]section, *Error) {
	v, ok := s.m[key]
	if !ok {
		return nil, nil
	}
	list, ok := v.([]map[string]any)
	switch {
	case !ok:
		return nil, s.fail(key, "is not a list of tables: write [[%s]] above each", key)
	case len(list) > most:
		return nil, s.fail(key, "are more than %d", most)
	}
	out := make([]section, len(list))
	for i, m := range list {
		out[i] = section{fmt.Sprintf("%s %d", key, i+1), m}
		if name, ok := m["name"].(string); ok {
			out[i].where += fmt.Sprintf(" %q", cut(name, 40))
		}
	}
	return out, nil
}

// titles gives the name of a rule or limit and the reason, which may be absent.
func (s section) titles() (name, reason string, err *Error) {
	if name, err = s.text("name"); err != nil {
		return "", "", err
	}
	if name == "" {
		return "", "", s.fail("name", "is missing")
	}
	reason, err = s.text("reason")
	return name, reason, err
}

func uniqueNames(sections []section) *Error {
	seen := map[any]bool{}
	for _, s := range sections {
		if seen[s.m["name"]] {
			return s.fail("name", "is in use")
		}
		seen[s.m["name"]] = true
	}
	return nil
}

// effect reads one of allowed; absent where the key is absent.
func (s section) effect(key string, absent Effect, allowed ...Effect) (Effect, *Error) {
	text, err := s.text(key)
	if err != nil || text == "" {
		return absent, err
	}
	if e, err := ParseEffect(text); err == nil && slices.Contains(allowed, e) {
		return e, nil
	}
	words := make([]string, len(allowed))
	for i, e := range allowed {
		words[i] = e.String()
	}
	return Deny, s.fail(key, "%q is none of %s", cut(text, 40), strings.Join(words, ", "))
}

func (s section) amount(key string) (countersign.Amount, *Error) {
	switch s.m[key].(type) {
	case nil:
		return countersign.Amount{}, s.fail(key, "is missing")
	case int64, float64:
		return countersign.Amount{}, s.fail(key, `is a number without quotes, which may not be exact: write "1000.5"`)
	}
	text, perr := s.text(key)
	if perr != nil {
		return countersign.Amount{}, perr
	}
	a, err := countersign.ParseAmount(text)
	if err != nil {
		return countersign.Amount{}, s.fail(key, "%v", err)
	}
	return a, nil
}

// window reads a length of time from one second; 0 where the key is absent.
func (s section) window(key string) (time.Duration, *Error) {
	text, perr := s.text(key)
	if perr != nil || text == "" {
		return 0, perr
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > maxWindow {
		return 0, s.fail(key, `%q is no length of time from "1s" to "%.0fh", such as "24h"`, cut(text, 40), maxWindow.Hours())
	}
	return d, nil
}

func (s section) zone(key string) (*time.Location, *Error) {
	text, perr := s.text(key)
	if perr != nil || text == "" {
		return time.UTC, perr
	}
	if text == "Local" {
		return nil, s.fail(key, "is of the machine: name the zone, such as Europe/Berlin")
	}
	zone, err := time.LoadLocation(text)
	if err != nil {
		return nil, s.fail(key, "%q is no time zone, such as Europe/Berlin", cut(text, 40))
	}
	return zone, nil
}

// decimals reads [decimals]: how many digits after the point the amounts of a symbol may have.
func (s section) decimals() (map[string]int, *Error) {
	t, err := s.table("decimals")
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, symbol := range t.keys() {
		n, ok := t.m[symbol].(int64)
		if !ok || n < 0 || n > countersign.MaxAmountDigits-1 {
			return nil, t.fail(symbol, "is no whole number from 0 to %d", countersign.MaxAmountDigits-1)
		}
		folded := countersign.FoldSpelling(symbol)
		if _, ok := out[folded]; ok {
			return nil, t.fail(symbol, "is there twice, in other letters")
		}
		out[folded] = int(n)
	}
	return out, nil
}

// condition compiles the key when; nil where it is absent.
func (s section) condition(env *cel.Env) (*expression, *Error) {
	v, ok := s.m["when"]
	if !ok {
		return nil, nil
	}
	text, ok := v.(string)
	if !ok || strings.TrimSpace(text) == "" {
		return nil, s.fail("when", "is not a condition in quotes")
	}
	x, err := compile(env, text)
	if err != nil {
		err.Where = s.where + ": when"
		return nil, err
	}
	return &x, nil
}

// cut keeps the start of a text from the file for an error.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
