// Package learn finds out what a provider, the service at the other end, does and which settings of the gateway fit it,
// from the callbacks that it sends.
package learn

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

// Reader reads a provider's callbacks.
type Reader struct {
	Key     *envelope.Key // opens requests
	Padding envelope.Padding
	Field   string // see merchant.Profile.BodyField
}

// Finding is what one body shows, in the form, the padding and the field in which it opens, if any.
type Finding struct {
	envelope.Explanation
	Padding envelope.Padding

	Type    countersign.Type
	ID      string // trackingId or callBackId, for attempts of one callback
	Binding countersign.Binding
	Differs []error // why the strict rules do not take it
	Refused []error // why the lenient rules do not take it either

	message string // what the plaintext is, for a terminal
}

// Read returns what body shows.
func (r Reader) Read(body []byte) Finding {
	field, found := cmp.Or(r.Field, merchant.DefaultBodyField), body
	inner, form, err := envelope.UnwrapField(body, field)
	if other := otherField(body); err != nil && other != "" {
		field = other
		inner, form, err = envelope.UnwrapField(body, field)
	}
	if err == nil {
		found = inner
	}
	f := Finding{Explanation: *envelope.Explain(r.Key, r.Padding, found), Padding: r.Padding}
	if f.Err != nil && r.Key.HasPrivate() { // the public part opens one padding only
		for _, padding := range []envelope.Padding{envelope.PKCS1v15, envelope.OAEP} {
			if again := envelope.Explain(r.Key, padding, found); again.Err == nil {
				f.Explanation, f.Padding = *again, padding
			}
		}
	}
	f.BodyBytes, f.Form, f.Err = len(body), form, cmp.Or(err, f.Err)
	if form == envelope.FormField || form == envelope.FormObject {
		f.Field = field
	}
	if f.Err == nil {
		f.readMessage(r.Key.HasPrivate())
	}
	return f
}

var settable = regexp.MustCompile(`^[A-Za-z0-9_-]+$`) // names that a setting takes

// otherField returns the only form field or JSON member that can be a sealed body.
func otherField(body []byte) (found string) {
	var names map[string]json.RawMessage
	if json.Unmarshal(body, &names) != nil {
		names = map[string]json.RawMessage{}
		values, _ := url.ParseQuery(string(bytes.TrimSpace(body)))
		for name := range values {
			names[name] = nil
		}
	}
	for name := range names {
		inner, form, err := envelope.UnwrapField(body, name)
		if !settable.MatchString(name) || err != nil || form == envelope.FormBare || len(inner) < envelope.MinBits/8 {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

// readMessage describes the opened plaintext. What a private part opened may be an answer, and a lenient parse takes
// most answers for requests.
func (f *Finding) readMessage(private bool) {
	plain := f.Plaintext
	id := countersign.Identify(plain)
	f.Type, f.ID, f.Binding = id.Type, id.EventID(), countersign.CheckBinding(plain)
	f.Differs = countersign.Faults(plain, countersign.ParseOptions{})
	f.Refused = countersign.Faults(plain, countersign.ParseOptions{Lenient: true})

	var s strings.Builder
	defer func() { f.message = s.String() }()
	add := func(word, format string, args ...any) {
		fmt.Fprintf(&s, "%-10s %s\n", word, fmt.Sprintf(format, args...))
	}
	if private && len(f.Differs) > 0 {
		for _, t := range []countersign.Type{2, 1, 3} {
			if _, err := countersign.ParseAnswer(t, plain); err == nil {
				add("message", "answer to a callback such as type %d", int(t))
				return
			}
		}
	}
	if len(f.Refused) == 0 {
		add("message", "callback type %d, %v", int(f.Type), f.Type)
	} else {
		add("message", "no valid request: %v", f.Refused[0])
	}
	add("binding", "%v", f.Binding)
	for _, fault := range f.Differs {
		add("differs", "%v", fault)
	}
	for _, fault := range f.Refused {
		add("refused", "%v; no setting changes that, the provider must", fault)
	}
	if json.Valid(plain) {
		gateway, profile := fitOf([]Seen{{Finding: *f}}).settings()
		fits := strings.ReplaceAll(strings.Join(append(gateway, profile...), ", "), "\n", "")
		add("fits", "%s", cmp.Or(fits, "the defaults"))
	}
}

// String returns, for a terminal, the contents of the body block by block, the message, and the settings of the gateway
// that fit. It contains the plaintext.
func (f Finding) String() string { return f.Explanation.String() + f.message }
