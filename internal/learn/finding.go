// Package learn says what a provider, the service at the other end, does, and which
// settings of the gateway fit it, from the callbacks that it sends.
package learn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"countersign"
	"countersign/envelope"
	"countersign/internal/strictjson"
)

// Reader reads what a provider sends.
type Reader struct {
	Key     *envelope.Key // opens requests
	Padding envelope.Padding
	Field   string // see merchant.Profile.BodyField
}

// Finding is what one body shows. Its texts hold names of members and no values.
type Finding struct {
	Form  envelope.BodyForm
	Field string // that carries the body, where it is not the Reader's
	OAEP  bool   // requests are padded so, where the Reader expected otherwise

	Seal  string   // how the body is sealed, or why it does not open
	Try   []string // what to do about it
	outer bool     // it does not come as far as a key: no setting helps

	Opened    bool
	Plain     []byte // what it opened to
	Type      countersign.Type
	ID        string              // trackingId or callBackId, for attempts of one callback
	Names     []string            // of the members, in their order
	Missing   []string            // members of the interface that are not there
	Different []string            // members that have another form, each with its kind
	Unknown   []string            // members that the interface does not have
	Binding   countersign.Binding // of the requestUUID
	UUID      string              // what the requestUUID is
	Strict    bool                // the strict rules take it
	Lenient   bool                // the lenient rules take it
	Refused   []error             // why they do not
}

// Read says what body shows.
func (r Reader) Read(body []byte) Finding {
	var f Finding
	inner, form, err := envelope.UnwrapField(body, r.Field)
	if err != nil {
		if field := otherField(body); field != "" {
			f.Field = field
			inner, form, err = envelope.UnwrapField(body, field)
		}
	}
	f.Form, f.outer = form, outer(err)
	if err != nil {
		f.Seal, f.Try = "no sealed body: "+err.Error(), envelope.Diagnose(r.Key, r.Padding, body, err)
		return f
	}
	r.open(&f, inner)
	return f
}

func outer(err error) bool {
	return errors.Is(err, envelope.ErrBodyForm) || errors.Is(err, envelope.ErrBase64) || errors.Is(err, envelope.ErrEmpty)
}

// otherField finds the one form field or JSON member that can be a sealed body.
func otherField(body []byte) (found string) {
	var names []string
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) == nil {
		for name := range members {
			names = append(names, name)
		}
	} else if values, err := url.ParseQuery(string(bytes.TrimSpace(body))); err == nil {
		for name := range values {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			continue // no name that a setting takes
		}
		inner, form, err := envelope.UnwrapField(body, name)
		if err != nil || form == envelope.FormBare || len(inner) < envelope.MinBits/8 {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

// open opens the body with the Reader's key, in the padding that does it.
func (r Reader) open(f *Finding, inner []byte) {
	e := envelope.Explain(r.Key, r.Padding, inner)
	if e.Err != nil && r.Key.HasPrivate() {
		other := envelope.OAEP
		if r.Padding == envelope.OAEP {
			other = envelope.PKCS1v15
		}
		if again := envelope.Explain(r.Key, other, inner); again.Err == nil {
			e, f.OAEP = again, other == envelope.OAEP
		}
	}
	if e.Err != nil {
		f.Seal, f.Try, f.outer = e.Err.Error(), e.Hints, outer(e.Err)
		return
	}
	f.Opened, f.Plain = true, e.Plaintext
	f.Seal = fmt.Sprintf("%d × %d bits; %s", len(e.Blocks), r.Key.Bits(), e.Direction)
	f.message(e.Plaintext)
}

// message says what the opened plaintext is.
func (f *Finding) message(plain []byte) {
	obj, err := strictjson.ParseObject(plain, countersign.MaxMessage)
	if err != nil {
		f.Refused = countersign.Faults(plain, countersign.ParseOptions{Lenient: true})
		return
	}
	kinds := map[string]string{}
	for _, m := range obj.Members {
		f.Names = append(f.Names, printable(m.Name))
		kinds[m.Name] = kindOf(obj.Raw(m))
	}
	id := countersign.Identify(plain)
	f.Type, f.ID = id.Type, id.EventID()
	strict := countersign.Faults(plain, countersign.ParseOptions{})
	f.Refused = countersign.Faults(plain, countersign.ParseOptions{Lenient: true})
	f.Strict, f.Lenient = len(strict) == 0, len(f.Refused) == 0
	for _, fault := range strict {
		var at *countersign.MemberError
		if !errors.As(fault, &at) {
			continue
		}
		if kind, there := kinds[at.Member]; there && kind != "null" {
			f.Different = append(f.Different, fmt.Sprintf("%s is %s", printable(at.Member), kind))
		} else {
			f.Missing = append(f.Missing, at.Member)
		}
	}
	if cb, err := countersign.ParseCallback(plain, countersign.ParseOptions{Lenient: true}); err == nil {
		for _, m := range cb.Unknown() {
			f.Unknown = append(f.Unknown, printable(m.Name))
		}
	}
	f.Binding = countersign.CheckBinding(plain)
	f.UUID = uuidOf(plain)
}

// printable makes a text that a stranger chose safe for a terminal, and short.
func printable(text string) string { return strictjson.Printable(text) }

// kindOf says what a JSON value is, as far as it matters here.
func kindOf(raw string) string {
	switch raw[0] {
	case '"':
		if strings.ContainsAny(strictjson.Text(raw), "eE") && strings.Trim(strictjson.Text(raw), "0123456789.eE+-") == "" {
			return "a text with an exponent"
		}
		return "a text"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	if strings.ContainsAny(raw, "eE") {
		return "a number with an exponent"
	}
	return "a number"
}

// uuidOf says what the requestUUID is.
func uuidOf(plain []byte) string {
	start, end, ok := countersign.UUIDSpan(plain)
	if !ok {
		return "not 36 characters"
	}
	id := string(plain[start:end])
	for i, c := range []byte(id) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return "no UUID"
		}
	}
	return "a UUID of version " + id[14:15]
}
