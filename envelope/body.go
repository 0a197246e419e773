package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
)

// BodyForm is what a body was wrapped in (PROTOCOL.md, Body forms).
type BodyForm int

const (
	FormBare   BodyForm = iota // the Base64 itself, which is all that senders emit
	FormField                  // the field data of an URL-encoded form
	FormString                 // a JSON string
	FormObject                 // the member data of a JSON object
)

// String names f for logs and explanations.
func (f BodyForm) String() string {
	switch f {
	case FormBare:
		return "bare Base64"
	case FormField:
		return "form field"
	case FormString:
		return "JSON string"
	case FormObject:
		return "JSON object"
	}
	return fmt.Sprintf("BodyForm(%d)", int(f))
}

// member is the field or member that carries the body in FormField and
// FormObject, exactly so written.
const member = "data"

// Unwrap finds the Base64 in body and says in which form it came. The forms, in
// order: bare Base64; an URL-encoded form with one field data, other fields
// beside it being ignored; a JSON string; a JSON object with one string member
// data and no duplicate member, other members being ignored. No text has two
// of these forms. White space around is forgiven, case is not.
//
// A space in the Base64 is refused with ErrBase64, in a bare body as in a form
// field: it was a + that a form parser replaced, and putting it back would hide
// the fault from the peer until the day something else is lost. So a sender of
// a form field writes + as %2B.
//
// It also fails with ErrTooLarge above MaxBody, ErrEmpty, and ErrBodyForm.
// Whether inner is sound Base64 is for Open to say.
func Unwrap(body []byte) (inner []byte, form BodyForm, err error) {
	if len(body) > MaxBody {
		return nil, FormBare, fmt.Errorf("body of %d bytes: %w: %d are allowed", len(body), ErrTooLarge, MaxBody)
	}
	text := trimSpace(body)
	if len(text) == 0 {
		return nil, FormBare, fmt.Errorf("body: %w", ErrEmpty)
	}
	switch {
	case text[0] == '"':
		form = FormString
		inner, err = unwrapString(text)
	case text[0] == '{':
		form = FormObject
		inner, err = unwrapObject(text)
	case isForm(text):
		form = FormField
		inner, err = unwrapField(text)
	default:
		inner = text
	}
	if err != nil {
		return nil, form, fmt.Errorf("body: %w", err)
	}
	if inner = trimSpace(inner); len(inner) == 0 {
		return nil, form, fmt.Errorf("body: %w in its %s", ErrEmpty, form)
	}
	if firstStranger(inner) >= 0 {
		return nil, form, fmt.Errorf("body: %w: %s", ErrBase64, base64Problem(inner))
	}
	return inner, form, nil
}

// isForm says whether text is to be read as an URL-encoded form. Base64 has no &,
// and = only where nothing but more of it and line ends follow. "data=" alone is
// no Base64 either, since a lone = never ends five characters.
func isForm(text []byte) bool {
	if bytes.IndexByte(text, '&') >= 0 || bytes.HasPrefix(text, []byte(member+"=")) {
		return true
	}
	name, value, found := bytes.Cut(text, []byte("="))
	return found && len(name) < 64 && len(bytes.Trim(value, "="+whiteSpace)) > 0 && !bytes.ContainsAny(name, "+/"+whiteSpace)
}

func unwrapField(text []byte) ([]byte, error) {
	values, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, fmt.Errorf("%w: it is a form, and not a sound one: percent-encode the Base64", ErrBodyForm)
	}
	switch found := values[member]; len(found) {
	case 1:
		return []byte(found[0]), nil
	case 0:
		return nil, fmt.Errorf("%w: it is a form without a field %s", ErrBodyForm, member)
	default:
		return nil, fmt.Errorf("%w: it is a form with %d fields %s", ErrBodyForm, len(found), member)
	}
}

func unwrapString(text []byte) ([]byte, error) {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return nil, fmt.Errorf("%w: it begins as a JSON string and is none", ErrBodyForm)
	}
	return []byte(s), nil
}

// unwrapObject walks through the members itself, because encoding/json takes
// Data for data and the last of duplicates.
func unwrapObject(text []byte) ([]byte, error) {
	broken := fmt.Errorf("%w: it begins as a JSON object and is none", ErrBodyForm)
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, broken
	}
	seen := map[string]bool{}
	var inner []byte
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, broken
		}
		if seen[name] {
			return nil, fmt.Errorf("%w: it is a JSON object with a duplicate member", ErrBodyForm)
		}
		seen[name] = true
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil, broken
		}
		if name != member {
			continue
		}
		if value[0] != '"' {
			return nil, fmt.Errorf("%w: it is a JSON object whose member %s is no string", ErrBodyForm, member)
		}
		if inner, err = unwrapString(value); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, broken
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: more follows its JSON object", ErrBodyForm)
	}
	if !seen[member] {
		return nil, fmt.Errorf("%w: it is a JSON object without a member %s", ErrBodyForm, member)
	}
	return inner, nil
}

// firstStranger is the offset of the first byte that no Base64 body has, or -1.
func firstStranger(text []byte) int {
	for i, c := range text {
		if !inBase64[c] {
			return i
		}
	}
	return -1
}
