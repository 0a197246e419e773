package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"

	"countersign/client"
	"countersign/internal/daemon"
)

// place is where a member of a request stands; it is the tag that names it.
type place string

const (
	inQuery place = "query"
	inBody  place = "json"
)

// member is a member of a request.
type member struct {
	in       place
	path     []string     // its name; in a body below those of the objects around it
	kind     reflect.Type // without pointer
	text     string
	flag     string   // the name of its flag
	enum     []string // the values that it may have; none: any
	required bool
	pointer  bool   // absent and zero differ
	absent   string // what applies without it; empty: its text says so
	clears   bool   // it can be null, for its default
	file     bool   // the flag names a file that holds it
	past     bool   // a length of time as its value counts back from now, else forward
}

// membersOf lists the members of a query or a body. An object is replaced by its members. The
// tag flag names the flag, and - leaves it out. The tag help, or else doc, has its text; help
// "means" is doc with what each value means.
func membersOf(t reflect.Type, in place, around ...string) (all []member) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get(string(in)), ",")
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		m := member{in: in, path: append(append([]string{}, around...), name), kind: f.Type, text: f.Tag.Get("help"), flag: f.Tag.Get("flag")}
		m.required = in == inBody && !strings.HasPrefix(options, "omit") || f.Tag.Get("required") == "true"
		if m.kind.Kind() == reflect.Pointer {
			m.kind, m.pointer = m.kind.Elem(), true
		}
		m.absent = cmp.Or(f.Tag.Get("none"), f.Tag.Get("initial"))
		m.clears = !m.required && f.Tag.Get("clear") != "no"
		m.past = f.Tag.Get(string(inQuery)) != ""
		if m.text == "" {
			m.text = f.Tag.Get("doc")
		}
		if f.Tag.Get("help") == "means" {
			m.text = f.Tag.Get("doc") + meanings(m.kind)
		}
		if m.flag == "" {
			m.flag = client.FlagName(strings.Join(m.path, "-"))
		}
		if members := membersOf(m.kind, in, m.path...); len(members) > 0 {
			for i := range members {
				members[i].required = members[i].required && m.required
			}
			all = append(all, members...)
			continue
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			m.enum = strings.Split(enum, ",")
		} else {
			m.enum = client.ValuesOf(m.kind)
		}
		all = append(all, m)
	}
	return all
}

// meanings says what each value of a type means, by its method Means.
func meanings(t reflect.Type) (text string) {
	for _, v := range client.ValuesOf(t) {
		of := reflect.ValueOf(v).Convert(t).Interface().(interface{ Means() string })
		text += ". " + v + ": " + strings.TrimSuffix(of.Means(), ".")
	}
	return text
}

// sentence begins text with a capital and ends it with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first, _, _ := strings.Cut(text, " ")
	if !strings.ContainsFunc(first, unicode.IsUpper) && !strings.HasSuffix(first, ":") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return strings.TrimSuffix(text, ".") + "."
}

// help is the text of the flag: what the member is, and what can be written for it.
func (m member) help() string {
	text := strings.TrimSuffix(sentence(m.text), ".")
	switch {
	case m.file:
	case m.kind == reflect.TypeFor[client.Secret]():
		text += "; or @FILE to read it from there"
	case m.kind == reflect.TypeFor[client.Time]():
		text = strings.TrimSuffix(text, ", in RFC 3339") + ": a time such as 2027-01-31T00:00:00Z, or how long " +
			map[bool]string{true: "ago", false: "from now"}[m.past] + ", such as 12h or 7d"
	case len(m.enum) > 1 && !strings.Contains(text, m.enum[0]):
		text += ": " + strings.Join(m.enum[:len(m.enum)-1], ", ") + " or " + m.enum[len(m.enum)-1]
	}
	return text + "."
}

// isSwitch says whether the flag has no value: it sets true, or the only value allowed.
func (m member) isSwitch() bool {
	return m.kind.Kind() == reflect.Bool || len(m.enum) == 1
}

// field is the type of the field for the flag's text, which is nil if the flag is not given.
func (m member) field() reflect.Type {
	switch {
	case m.isSwitch():
		return reflect.TypeFor[*bool]()
	case m.kind.Kind() == reflect.Slice && m.kind.Elem().Kind() == reflect.String:
		return reflect.TypeFor[[]string]()
	}
	return reflect.TypeFor[*string]()
}

// tags are those of the field for kong.
func (m member) tags() []string {
	switch {
	case m.pointer && m.isSwitch():
		return []string{"negatable", ""}
	case m.isSwitch():
		return nil
	case len(m.enum) > 0:
		return []string{"enum", strings.Join(m.enum, ","), "placeholder", placeholder(m)}
	}
	return []string{"placeholder", placeholder(m)}
}

func placeholder(m member) string {
	switch m.kind.Kind() {
	case reflect.Map, reflect.Struct, reflect.Slice:
		if m.field() == reflect.TypeFor[*string]() && !readsText(m.kind) {
			return "JSON"
		}
	}
	switch {
	case m.kind == reflect.TypeFor[client.Time](), m.kind == reflect.TypeFor[client.Duration](), m.kind == reflect.TypeFor[time.Duration]():
		return "TIME"
	case m.kind.Kind() != reflect.String && m.kind.Kind() != reflect.Struct && m.kind.Kind() != reflect.Slice:
		return "N"
	}
	return strings.ToUpper(m.flag[strings.LastIndexByte(m.flag, '-')+1:])
}

// readsText says whether a text of JSON can be a value of the type.
func readsText(t reflect.Type) bool {
	return t.Kind() == reflect.String || json.Unmarshal([]byte(`"1"`), reflect.New(t).Interface()) == nil
}

// read returns the value of the flag: the content of the file that text names, or text.
func (m member) read(flag, text string, std Streams) (string, error) {
	switch secret := m.kind == reflect.TypeFor[client.Secret](); {
	case m.file && secret:
		b, err := daemon.ReadSecret(text, maxSecret)
		return string(b), err
	case m.file:
		b, exposed, err := daemon.ReadOwned(text, maxSecret)
		if err == nil && exposed != nil {
			fmt.Fprintf(std.Err, "countersign: warning: %v\n", exposed)
		}
		return string(b), err
	case secret:
		return Secret(text).Reveal(flag)
	}
	return text, nil
}

// value turns the text of a flag into JSON for a body, or into text for a query.
func (m member) value(text string, now time.Time) (any, error) {
	if m.kind == reflect.TypeFor[client.Time]() {
		at, err := time.Parse(time.RFC3339, text)
		if span, ok := client.Span(text); ok {
			if m.past {
				span = -span
			}
			at, err = now.Add(span), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither a time such as 2027-01-31T00:00:00Z nor a length of time, such as 12h or 7d", text)
		}
		return client.TimeOf(at).String(), nil
	}
	quoted, err := json.Marshal(text)
	if err != nil || m.in == inQuery || m.kind.Kind() == reflect.String {
		return text, err
	}
	into := reflect.New(m.kind).Interface()
	for _, raw := range [][]byte{quoted, []byte(text)} {
		if json.Unmarshal(raw, into) == nil {
			return json.RawMessage(raw), nil
		}
	}
	return nil, fmt.Errorf("%q is no %s", text, placeholder(m))
}
