package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"

	"countersign/internal/web"
)

// BodyForm is what a body was wrapped in (PROTOCOL.md, Body forms), in words.
type BodyForm string

const (
	FormBare   BodyForm = "bare Base64" // all that senders emit
	FormField  BodyForm = "form field"  // the field data of an URL-encoded form
	FormString BodyForm = "JSON string"
	FormObject BodyForm = "JSON object" // the member data of it
)

// member is the field or member that carries the body in FormField and
// FormObject, exactly so written, unless a caller names another.
const member = "data"

// Unwrap finds the Base64 in body and says in which of the forms of PROTOCOL.md, F2, it came. No text has two of them.
// White space around it is ignored; names are case-sensitive.
//
// A space inside the Base64 is refused with ErrBase64, in a bare body and in a form field (F3): a form parser has
// replaced a +, and putting it back would hide the fault from the peer.
//
// Unwrap also fails with ErrTooLarge above MaxBody, ErrEmpty, and ErrBodyForm.
// It does not check that inner is valid Base64; Open does.
func Unwrap(body []byte) (inner []byte, form BodyForm, err error) { return UnwrapField(body, member) }

// UnwrapField is Unwrap where the form field or the member of the JSON object has
// the name field in place of data.
func UnwrapField(body []byte, field string) (inner []byte, form BodyForm, err error) {
	if len(body) > MaxBody {
		return nil, FormBare, fmt.Errorf("body of %d bytes: %w: %d are allowed", len(body), ErrTooLarge, MaxBody)
	}
	text := trimSpace(body)
	if len(text) == 0 {
		return nil, FormBare, fmt.Errorf("body: %w", ErrEmpty)
	}
	if problem := outerProblem(text); problem != "" {
		return nil, FormBare, fmt.Errorf("body: %w: %s", ErrBodyForm, problem)
	}
	switch {
	case text[0] == '"':
		form = FormString
		inner, err = unwrapString(text)
	case text[0] == '{':
		form = FormObject
		inner, err = unwrapObject(text, field)
	case isForm(text, field):
		form = FormField
		inner, err = unwrapField(text, field)
	default:
		form, inner = FormBare, text
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

const byteOrderMark = "\uFEFF"

// outerProblem names what a library or a proxy seems to have put around a body, or returns "".
func outerProblem(text []byte) string {
	switch {
	case bytes.HasPrefix(text, []byte(byteOrderMark)):
		return "it begins with a byte order mark (EF BB BF): the sender must leave that out"
	case bytes.HasPrefix(text, []byte{0x1f, 0x8b}), bytes.HasPrefix(text, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "it is compressed: the sender must send it as it is"
	case bytes.HasPrefix(text, []byte("--")) && bytes.Contains(text, []byte("Content-Disposition:")):
		return "it is multipart/form-data: the sender must post the bare Base64"
	}
	return ""
}

// isForm reports whether text is an URL-encoded form. Base64 has no &, and has
// = only at its end. "data=" alone is no Base64 either: five characters never
// end in a single =.
func isForm(text []byte, field string) bool {
	if bytes.IndexByte(text, '&') >= 0 || bytes.HasPrefix(text, []byte(field+"=")) {
		return true
	}
	name, value, found := bytes.Cut(text, []byte("="))
	return found && len(name) < 64 && len(bytes.Trim(value, "="+whiteSpace)) > 0 &&
		!bytes.ContainsAny(name, "+/"+whiteSpace)
}

func unwrapField(text []byte, field string) ([]byte, error) {
	values, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, fmt.Errorf("%w: it is a form with faulty escapes: percent-encode the Base64", ErrBodyForm)
	}
	switch found := values[field]; len(found) {
	case 1:
		return []byte(found[0]), nil
	case 0:
		return nil, fmt.Errorf("%w: it is a form without a field %s", ErrBodyField, field)
	default:
		return nil, fmt.Errorf("%w: it is a form with %d fields %s", ErrBodyForm, len(found), field)
	}
}

func unwrapString(text []byte) ([]byte, error) {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return nil, fmt.Errorf("%w: it begins like a JSON string and is not one", ErrBodyForm)
	}
	return []byte(s), nil
}

func unwrapObject(text []byte, field string) ([]byte, error) {
	obj, err := web.ParseObject(text, MaxBody)
	if err != nil {
		return nil, fmt.Errorf("%w: it begins like a JSON object and is not one, or has a duplicate member", ErrBodyForm)
	}
	m, found := obj.Find(field)
	switch {
	case !found:
		return nil, fmt.Errorf("%w: it is a JSON object without a member %s", ErrBodyField, field)
	case text[m.Start] != '"':
		return nil, fmt.Errorf("%w: it is a JSON object whose member %s is not a string", ErrBodyForm, field)
	}
	return []byte(web.JSONText(obj.Raw(m))), nil
}

// firstStranger returns the offset of the first byte that Base64 does not allow, or -1.
func firstStranger(text []byte) int {
	for i, c := range text {
		if !inBase64[c] {
			return i
		}
	}
	return -1
}
