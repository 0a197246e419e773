package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

const limit = 1 << 16

// tree reads src into the values that encoding/json gives with UseNumber.
func tree(src []byte) (v any, err error) {
	r, err := NewJSONReader(src, limit)
	if err != nil {
		return nil, err
	}
	if v, err = treeValue(&r); err != nil {
		return nil, err
	}
	return v, r.End()
}

func treeValue(r *JSONReader) (any, error) {
	switch kind := r.Kind(); kind {
	case KindObject:
		m := map[string]any{}
		err := r.Object(func(name string) (err error) {
			m[name], err = treeValue(r)
			return err
		})
		return m, err
	case KindArray:
		list := []any{}
		err := r.Array(func(i int) error {
			v, err := treeValue(r)
			if i != len(list) {
				return fmt.Errorf("index %d after %d elements", i, len(list))
			}
			list = append(list, v)
			return err
		})
		return list, err
	case KindString:
		return r.Text()
	default:
		raw, err := r.Value()
		switch {
		case kind == KindNumber:
			return json.Number(raw), err
		case kind == KindBoolean:
			return raw == "true", err
		}
		return nil, err
	}
}

// FuzzReader holds the reader to its promises for any bytes: what it takes,
// encoding/json takes with the same values; what it calls no JSON, encoding/json
// refuses too, but for what it replaces; and reading a value by parts, as one,
// or as an object's members makes no difference.
func FuzzReader(f *testing.F) {
	for _, c := range refused {
		f.Add([]byte(c.in))
	}
	for _, in := range taken {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := tree(in)
		if _, again := whole(in); fmt.Sprint(again) != fmt.Sprint(err) {
			t.Fatalf("%q: %v by parts, %v as one", in, err, again)
		}
		obj, objErr := ParseObject(in, limit)
		if err != nil {
			var at *JSONError
			if !errors.As(err, &at) || at.Error() == "" || objErr == nil {
				t.Fatalf("%q: error %v, of an object %v", in, err, objErr)
			}
			if at.Syntax && json.Valid(in) && utf8.Valid(in) && len(in) <= limit {
				t.Fatalf("%q is JSON: %v", in, err)
			}
			return
		}
		d := json.NewDecoder(bytes.NewReader(in))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil || !json.Valid(in) {
			t.Fatalf("encoding/json refuses %q: %v", in, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is %#v, to encoding/json %#v", in, got, want)
		}
		members, isObject := want.(map[string]any)
		if isObject != (objErr == nil) {
			t.Fatalf("%q as an object: %v", in, objErr)
		}
		if isObject {
			checkMembers(t, obj, members)
		}
	})
}

// whole reads src as one value.
func whole(src []byte) (raw string, err error) {
	r, err := NewJSONReader(src, limit)
	if err != nil {
		return "", err
	}
	if raw, err = r.Value(); err != nil {
		return "", err
	}
	return raw, r.End()
}

func checkMembers(t *testing.T, obj *Object, want map[string]any) {
	if len(obj.Members) != len(want) {
		t.Fatalf("%d members, want %d", len(obj.Members), len(want))
	}
	for _, m := range obj.Members {
		raw := obj.Raw(m)
		if name, _, ok := strings.Cut(obj.src[m.From:m.Start], ":"); !strings.Contains(m.Name, ":") &&
			(!ok || JSONText(strings.TrimRight(name, " \t\r\n")) != m.Name) {
			t.Fatalf("member %q begins at %q", m.Name, obj.src[m.From:])
		}
		v, err := tree([]byte(raw))
		if err != nil || !reflect.DeepEqual(v, want[m.Name]) {
			t.Fatalf("member %q is %q: %v", m.Name, raw, err)
		}
		if text, ok := v.(string); ok && JSONText(raw) != text {
			t.Fatalf("JSONText of %q is %q", raw, JSONText(raw))
		}
		if found, ok := obj.Find(m.Name); !ok || found != m {
			t.Fatalf("Find(%q) is %v", m.Name, found)
		}
		if !ValidMember(raw) {
			t.Fatalf("%q is a member's value and not valid", raw)
		}
		if short, err := tree([]byte(CompactJSON(raw))); err != nil || !reflect.DeepEqual(short, v) {
			t.Fatalf("%q without white space: %v", raw, err)
		}
	}
}

// TestSameValues: whatever tree is written, with whatever white space and
// escapes, it is read as encoding/json reads it.
func TestSameValues(t *testing.T) {
	text := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r != 0 }), 0, 12, -1)
	var value func(t *rapid.T, depth int) any
	value = func(t *rapid.T, depth int) any {
		switch kind := rapid.IntRange(0, 6).Draw(t, "kind"); {
		case kind == 0:
			return nil
		case kind == 1:
			return rapid.Bool().Draw(t, "bool")
		case kind == 2:
			return json.Number(rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?`).Draw(t, "number"))
		case kind <= 4 || depth == MaxDepth:
			return text.Draw(t, "text")
		case kind == 5:
			list := make([]any, rapid.IntRange(0, 4).Draw(t, "length"))
			for i := range list {
				list[i] = value(t, depth+1)
			}
			return list
		default:
			m := map[string]any{}
			for range rapid.IntRange(0, 40).Draw(t, "members") {
				m[text.Draw(t, "name")] = rapid.Int64().Draw(t, "n")
			}
			m["deeper"] = value(t, depth+1)
			return m
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in, err := json.Marshal(value(t, 0))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "space") {
			var b bytes.Buffer
			if err := json.Indent(&b, in, " ", "\t"); err != nil {
				t.Fatal(err)
			}
			in = b.Bytes()
		}
		d := json.NewDecoder(bytes.NewReader(in))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if got, err := tree(in); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s is %#v, want %#v: %v", in, got, want, err)
		}
	})
}

var taken = []string{
	`{}`, " [ ] \r\n\t", `0`, `-0.5e-3`, `1E+9`, `"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 é"`, "\"\uFFFD\\ufffd\"", `null`, `[true,false]`,
	`{"a":{"b":[1,{"c":null}]},"A":"","":2}`, strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
}

var refused = []struct{ in, want, where string }{
	{``, "no value at byte 0", ""},
	{` `, "no value at byte 1", ""},
	{"\ufeff{}", "a byte order mark (EF BB BF), which must be left out at byte 0", ""},
	{`{"a":1}x`, "more follows the value at byte 7", ""},
	{"{}\x00", "more follows the value at byte 2", ""},
	{`{"a" 1}`, "no colon at byte 5", ""},
	{`{"a":1 "b":2}`, "a comma or closing brace is missing at byte 7", ""},
	{`{"a":1,}`, "a member name is missing at byte 7", ""},
	{`{a:1}`, "a member name is missing at byte 1", ""},
	{`[1 2]`, "a comma or closing bracket is missing at byte 3", ""},
	{`[1,]`, "no value at byte 3", ""},
	{`[nul]`, "no value at byte 1", ""},
	{`[nulll]`, "a comma or closing bracket is missing at byte 5", ""},
	{`01`, "more follows the value at byte 1", ""},
	{`-`, "no digit at byte 1", ""},
	{`.5`, "no value at byte 0", ""},
	{`1.`, "no digit at byte 2", ""},
	{`1e+`, "no digit at byte 3", ""},
	{`"a`, "a string does not end at byte 2", ""},
	{`"\`, "unknown escape at byte 2", ""},
	{`"\x41"`, "unknown escape at byte 2", ""},
	{`"\u00`, `short \u escape at byte 3`, ""},
	{`"\u00g0"`, `\u escape without four hexadecimal digits at byte 3`, ""},
	{`"\ud83d\u00"`, `short \u escape at byte 9`, ""},
	{"\"a\nb\"", "a control character is in a string at byte 2", ""},
	{"\"é\uFFFD\xff\"", "not valid UTF-8 at byte 6", ""},
	{`"` + strings.Repeat("x", limit) + `"`, "longer than 65536 bytes", ""},

	{`{"a":1,"a":1}`, "body.a occurs twice", "a"},
	{`{"a":1,"\u0061":1}`, "body.a occurs twice", "a"},
	{`{"x":[0,{"z":1,"z":2}]}`, "body.x[1].z occurs twice", "z"},
	{`{"a":["b","\u0000"]}`, "body.a[1] holds U+0000", "a"},
	{`["\ud83d"]`, "body[0] holds half of a surrogate pair", ""},
	{`["\ude00\ud83d"]`, "body[0] holds half of a surrogate pair", ""},
	{`["\ud83dA"]`, "body[0] holds half of a surrogate pair", ""},
	{`{"a":{"b":1,"\u0000":2}}`, "body.a has a member name that holds U+0000", "a"},
	{`{"\ud800":2}`, "body has a member name that holds half of a surrogate pair", ""},
	{`{"a":` + strings.Repeat("[", MaxDepth), "body.a" + strings.Repeat("[0]", MaxDepth-1) + " is nested too deeply", "a"},
	{"{\"" + strings.Repeat("long", 20) + "\":[{\"a\\nb\":1,\"a\\nb\":2}]}", "body." + strings.Repeat("long", 16) + "…[0].a?b occurs twice", "a\nb"},
}

func TestRefused(t *testing.T) {
	for _, c := range refused {
		_, err := whole([]byte(c.in))
		var at *JSONError
		if !errors.As(err, &at) {
			t.Errorf("%.60q is taken", c.in)
			continue
		}
		text := err.Error()
		if !at.Syntax {
			text = at.Where("body") + " " + at.Problem
		}
		if text != c.want || at.Member() != c.where {
			t.Errorf("%.60q: %q in member %q, want %q in %q", c.in, text, at.Member(), c.want, c.where)
		}
	}
	for _, in := range taken {
		if raw, err := whole([]byte(in)); err != nil || raw != strings.Trim(in, " \r\n\t") {
			t.Errorf("%q is %q: %v", in, raw, err)
		}
	}
}

// A large object is as strict as a small one.
func TestDuplicateInLargeObject(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `"m%d":%d,`, i, i)
	}
	if _, err := ParseObject([]byte(`{`+b.String()+`"last":1}`), limit); err != nil {
		t.Error(err)
	}
	for _, twice := range []string{"m0", "m31", "m32", "m999"} {
		_, err := ParseObject([]byte(`{`+b.String()+`"`+twice+`":1}`), limit)
		if err == nil || !strings.Contains(err.Error(), twice+" occurs twice") {
			t.Errorf("%s: %v", twice, err)
		}
	}
}

func TestValues(t *testing.T) {
	for raw, want := range map[string]int64{"0": 0, "-17": -17, "9223372036854775807": 1<<63 - 1} {
		if n, ok := JSONInt(raw); !ok || n != want {
			t.Errorf("JSONInt(%s) is %d, %v", raw, n, ok)
		}
	}
	for _, raw := range []string{"-0", "1.0", "1e2", `"1"`, "9223372036854775808"} {
		if n, ok := JSONInt(raw); ok {
			t.Errorf("JSONInt(%s) is %d", raw, n)
		}
	}
	for raw, want := range map[string]bool{"1": true, ` "a" `: true, "": false, "1 2": false, "\"\xff\"": false, `{"a":1,"a":1}`: false,
		strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1): true,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth):     false} {
		if ValidMember(raw) != want {
			t.Errorf("ValidMember(%s) is not %v", raw, want)
		}
	}
	if got := CompactJSON(" {\"a b\" :\n[ 1 , \" \" ] } "); got != `{"a b":[1," "]}` {
		t.Errorf("Compact gives %s", got)
	}
	known := slices.Values([]string{"amount", "trackingId"})
	for name, want := range map[string]string{"Amount": "amount", "trac\u212aingId": "trackingId", "amounts": ""} {
		if got, ok := Folded(known, name); got != want || ok != (want != "") {
			t.Errorf("Folded(%q) is %q, %v", name, got, ok)
		}
	}
}
