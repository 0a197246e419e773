// Package learn says what a provider, the service at the other end, does, and which
// settings of the gateway fit it, from the callbacks that it sends.
package learn

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"countersign"
	"countersign/envelope"
	"countersign/internal/strictjson"
	"countersign/merchant"
)

// Reader reads what a provider sends.
type Reader struct {
	Key     *envelope.Key // opens requests
	Padding envelope.Padding
	Field   string // see merchant.Profile.BodyField
}

// Finding is what one body shows, in the form, the padding and the field in which it opens if any does.
type Finding struct {
	envelope.Explanation
	Padding envelope.Padding

	Type    countersign.Type
	ID      string // trackingId or callBackId, for attempts of one callback
	Binding countersign.Binding
	Strict  bool    // the strict rules take it
	Lenient bool    // the lenient rules take it
	Refused []error // why they do not

	message string // what the plaintext is, for a terminal
}

// Read says what body shows.
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
	if f.BodyBytes, f.Form, f.Err = len(body), form, cmp.Or(err, f.Err); form == envelope.FormField || form == envelope.FormObject {
		f.Field = field
	}
	if f.Err == nil {
		f.readMessage(r.Key.HasPrivate())
	}
	return f
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
		if !settable.MatchString(name) {
			continue
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

var (
	settable = regexp.MustCompile(`^[A-Za-z0-9_-]+$`) // names that a setting takes
	anyUUID  = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// outer reports whether the body does not come as far as a key, so that no setting helps.
func (f Finding) outer() bool {
	return errors.Is(f.Err, envelope.ErrBodyForm) || errors.Is(f.Err, envelope.ErrBase64) || errors.Is(f.Err, envelope.ErrEmpty)
}

// readMessage says what the opened plaintext is. What a private part opened may be an answer,
// and most answers pass for a lenient request.
func (f *Finding) readMessage(private bool) {
	plain := f.Plaintext
	id, strict := countersign.Identify(plain), countersign.Faults(plain, countersign.ParseOptions{})
	f.Type, f.ID, f.Binding = id.Type, id.EventID(), countersign.CheckBinding(plain)
	f.Refused = countersign.Faults(plain, countersign.ParseOptions{Lenient: true})
	f.Strict, f.Lenient = len(strict) == 0, len(f.Refused) == 0
	if answer := answerOf(plain); private && !f.Strict && answer != "" {
		f.message = "message    answer to a " + answer + "\n"
		return
	}

	var s strings.Builder
	add := func(word string, texts ...string) {
		if len(texts) > 0 {
			fmt.Fprintf(&s, "%-10s %s\n", word, strings.Join(texts, ", "))
		}
	}
	if f.Lenient {
		add("message", fmt.Sprintf("callback type %d, %v", int(f.Type), f.Type))
	} else {
		add("message", fmt.Sprintf("no valid request: %v", f.Refused[0]))
	}
	obj, err := strictjson.ParseObject(plain, countersign.MaxMessage)
	if err == nil {
		f.members(obj, strict, add)
		add("binding", fmt.Sprintf("%v; the requestUUID is %s", f.Binding, uuidOf(plain)))
	}
	switch {
	case f.Strict:
		add("rules", "it has the form of the interface")
	case f.Lenient:
		add("rules", "it differs from the interface without loss: lenient")
	}
	for _, fault := range f.Refused {
		add("refused", fmt.Sprintf("%v; no setting changes that, the provider must", fault))
	}
	if err == nil {
		add("fits", flags(fitOf([]Seen{{Finding: *f}}).settings()))
	}
	f.message = s.String()
}

// answerOf says what plain answers; empty: it is no answer.
func answerOf(plain []byte) string {
	_, withdrawal := countersign.ParseWithdrawalAnswer(plain)
	_, deposit := countersign.ParseDepositAnswer(plain)
	_, notice := countersign.ParseNoticeAnswer(plain)
	switch {
	case withdrawal == nil:
		return "withdrawal confirmation"
	case deposit == nil:
		return "deposit"
	case notice == nil:
		return "notice"
	}
	return ""
}

// members adds names of members, in their order, and no values.
func (f *Finding) members(obj *strictjson.Object, strict []error, add func(word string, texts ...string)) {
	var names, missing, different, unknown []string
	kinds := map[string]string{}
	for _, m := range obj.Members {
		names = append(names, printable(m.Name))
		kinds[m.Name] = kindOf(obj.Raw(m))
	}
	for _, fault := range strict {
		var at *countersign.MemberError
		if !errors.As(fault, &at) {
			continue
		}
		if kind, there := kinds[at.Member]; there && kind != "null" {
			different = append(different, fmt.Sprintf("%s is %s", printable(at.Member), kind))
		} else {
			missing = append(missing, at.Member)
		}
	}
	if cb, err := countersign.ParseCallback(f.Plaintext, countersign.ParseOptions{Lenient: true}); err == nil {
		for _, m := range cb.Unknown() {
			unknown = append(unknown, printable(m.Name))
		}
	}
	add("members", names...)
	add("missing", missing...)
	add("different", different...)
	add("unknown", unknown...)
}

// printable makes a text that a stranger chose safe for a terminal, and short.
func printable(text string) string { return strictjson.Printable(text) }

// kindOf says what a JSON value is, as far as it matters here.
func kindOf(raw string) string {
	kind := cmp.Or(map[byte]string{'"': "a text", '{': "an object", '[': "an array", 't': "true or false", 'f': "true or false", 'n': "null"}[raw[0]], "a number")
	number := strings.Trim(raw, `"`)
	if strings.ContainsAny(number, "eE") && strings.Trim(number, "0123456789.eE+-") == "" {
		return kind + " with an exponent"
	}
	return kind
}

func uuidOf(plain []byte) string {
	start, end, ok := countersign.UUIDSpan(plain)
	switch {
	case !ok:
		return "not 36 characters"
	case !anyUUID.Match(plain[start:end]):
		return "no UUID"
	}
	return "a UUID of version " + string(plain[start+14])
}

// String says for a terminal what the body holds, block by block, what message it is, and which
// settings of the gateway fit. It holds the plaintext.
func (f Finding) String() string { return f.Explanation.String() + f.message }
