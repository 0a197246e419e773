package learn

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/bodies"
	"countersign/internal/strictjson"
	"countersign/merchant"
)

// Seen is one callback that came while the gateway learned.
type Seen struct {
	Finding
	Path     string
	APIKey   string   // header that carried one of the API keys; empty: none did
	Headers  []string // of the provider's own
	Repeated bool     // it came again after errCode 5000
}

// Members of the facts that are kept of a request.
const factPath, factHeader, factEncoding = "path", "header", "Content-Encoding"

// usualHeaders say nothing of the provider.
var usualHeaders = strings.Fields("Accept Accept-Charset Accept-Encoding Accept-Language Cache-Control Connection " +
	"Content-Encoding Content-Length Content-Type Cookie Date Expect Forwarded Keep-Alive Origin Pragma Referer Te " +
	"Traceparent Tracestate Transfer-Encoding Upgrade User-Agent Via")

// FactsOf returns what is kept of a request beside its body, without values of headers, and
// whether one of keys is in a header.
func FactsOf(r *http.Request, keys []countersign.APIKey) (facts []client.Fact, known bool) {
	facts = []client.Fact{{Member: factPath, Came: strictjson.Printable(r.URL.Path)}}
	if how := bodies.Encoding(r.Header); how != "" {
		facts = append(facts, client.Fact{Member: factEncoding, Came: how, Cause: bodies.NotCompressed})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if slices.Contains(usualHeaders, name) || strings.HasPrefix(name, "X-Forwarded-") ||
			strings.HasPrefix(name, "X-Real-") || len(facts) > 20 {
			continue
		}
		fact := client.Fact{Member: factHeader, Came: strictjson.Printable(name)}
		carried := func(k countersign.APIKey) bool { return k.Equal(countersign.APIKey(r.Header[name][0])) }
		if len(r.Header[name]) == 1 && slices.ContainsFunc(keys, carried) {
			fact.Cause, known = "it carries the API key", true
		}
		facts = append(facts, fact)
	}
	return facts, known
}

// Seen reads one callback, of which facts were kept and which came a number of times.
func (r Reader) Seen(body []byte, facts []client.Fact, number int64) Seen {
	s := Seen{Finding: r.Read(body), Repeated: number > 1}
	for _, f := range facts {
		switch {
		case f.Member == factPath:
			s.Path = f.Came
		case f.Member == factEncoding:
			err := fmt.Errorf("%w: the header Content-Encoding says %s: %s", envelope.ErrBodyForm, f.Came, f.Cause)
			s.Finding = Finding{Explanation: envelope.Explanation{Err: err}}
		case f.Cause != "":
			s.APIKey = f.Came
		default:
			s.Headers = append(s.Headers, f.Came)
		}
	}
	return s
}

// fit is what fits callbacks best where one setting says it for all.
type fit struct {
	notify, withdraw, header, body, padding string
	onePath                                 bool // the provider posts all types to one path, which no setting takes
	lenient, again                          bool // one needs lenient rules; a question came again after errCode 5000

	types     map[countersign.Type]bool   // that came
	bound     map[countersign.Binding]int // callbacks by what their requestUUID says
	unchecked map[string]int              // callbacks by headers that may carry an API key which was not given
}

// fitOf counts what list shows. What most of the callbacks show wins, so that a stray one does not
// become the setting; of equals, the one that came last.
func fitOf(list []Seen) fit {
	f := fit{types: map[countersign.Type]bool{}, bound: map[countersign.Binding]int{}, unchecked: map[string]int{}}
	counts := map[*string]map[string]int{}
	most := func(setting *string, shown string) {
		if shown == "" {
			return
		}
		if counts[setting] == nil {
			counts[setting] = map[string]int{}
		}
		n := counts[setting]
		if n[shown]++; n[shown] >= n[*setting] {
			*setting = shown
		}
	}
	for _, s := range list {
		if s.APIKey == "" {
			for _, name := range s.Headers {
				f.unchecked[name]++
			}
		}
		if s.Err != nil {
			continue
		}
		if path := [...]*string{&f.notify, &f.withdraw}[s.Type.Lane()]; s.Type.Known() {
			most(path, s.Path)
		}
		most(&f.header, s.APIKey)
		most(&f.body, s.Field)
		most(&f.padding, s.Padding.String())
		f.types[s.Type] = true
		f.bound[s.Binding]++
		f.lenient = f.lenient || len(s.Refused) == 0 && len(s.Differs) > 0
		f.again = f.again || s.Repeated && s.Type == countersign.TypeRequestWithdraw
	}
	if f.onePath = f.notify != "" && f.notify == f.withdraw; f.onePath {
		f.withdraw = merchant.DefaultWithdrawPath
		if f.notify == f.withdraw {
			f.withdraw = merchant.DefaultNotifyPath
		}
	}
	f.notify, f.withdraw = cmp.Or(f.notify, merchant.DefaultNotifyPath), cmp.Or(f.withdraw, merchant.DefaultWithdrawPath)
	f.body = cmp.Or(f.body, merchant.DefaultBodyField)
	return f
}

// holds and not count the callbacks that are bound to their requestUUID, and that are not.
func (f fit) holds() int { return f.bound[countersign.BindingHolds] }
func (f fit) not() int {
	return f.bound[countersign.BindingAbsent] + f.bound[countersign.BindingBroken]
}

// settings are those that fit, where they differ from the defaults: lines of TOML, of the gateway and of its profile.
func (f fit) settings() (gateway, profile []string) {
	add := func(section *[]string, needed bool, name string, value any) {
		if text, _ := json.Marshal(value); needed { // a JSON string, bool or whole number is one in TOML too
			*section = append(*section, fmt.Sprintf("%s = %s\n", name, text))
		}
	}
	unbound := f.not() > 0 && f.holds() == 0
	add(&gateway, f.padding == envelope.OAEP.String(), "oaep", true)
	add(&gateway, f.notify != merchant.DefaultNotifyPath, "notify-path", f.notify)
	add(&gateway, f.withdraw != merchant.DefaultWithdrawPath, "withdraw-path", f.withdraw)
	add(&profile, unbound, "provider", "other")
	add(&profile, unbound && f.bound[countersign.BindingBroken] > 0, "binding", merchant.BindingOff.String())
	add(&profile, !unbound && f.lenient, "lenient", true)
	add(&profile, f.header != "" && !strings.EqualFold(f.header, merchant.DefaultHeader), "api-key-header", f.header)
	add(&profile, f.body != merchant.DefaultBodyField, "body-field", f.body)
	add(&profile, unbound && f.again, "hold-code", int(countersign.CodeInternal))
	return gateway, profile
}

// fault is one reason why callbacks would be refused, and what the interface says.
type fault struct {
	typ         countersign.Type // 0: it did not open
	text, right string           // right is empty where the provider may not be at fault
}

const (
	rightForm = "the body of a request is the sealed blocks in standard Base64, with + and / and padding, and nothing " +
		"else: not compressed, not multipart, no byte order mark"
	rightWay = "all callbacks are sent in one way: one URL for type 2 and one for the others, one form of the body, " +
		"one header for the API key"
)

// faults says why the gateway would refuse s with the settings that fit; nil if it would take it.
func (f fit) faults(s Seen) (out []fault) {
	add := func(is bool, right, format string, args ...any) {
		if is {
			out = append(out, fault{s.Type, fmt.Sprintf(format, args...), right})
		}
	}
	if s.Err != nil {
		right := "" // the key may be wrong here
		for _, outer := range []error{envelope.ErrBodyForm, envelope.ErrBase64, envelope.ErrEmpty} {
			if errors.Is(s.Err, outer) { // it does not come as far as a key, so that no setting helps
				right = rightForm
			}
		}
		add(true, right, "does not open: %v", s.Err)
		return out
	}
	for _, refused := range s.Refused[:min(len(s.Refused), 8)] {
		right := fmt.Sprintf("a message is one JSON object, each member once, and type is a number from 1 to %d",
			len(countersign.TypeUnknown.Values()))
		if s.Type.Known() {
			right = fmt.Sprintf("before it is sealed, a callback of type %d is such as %s", int(s.Type), exampleOf(s.Type))
		}
		add(true, right, "%v", refused)
	}
	add(f.holds() > 0 && s.Binding != countersign.BindingHolds && len(s.Refused) == 0, "",
		"its requestUUID is not bound to it, as that of %d others is: it may be forged", f.holds())
	at := [2]string{f.notify, f.withdraw}[s.Type.Lane()]
	elsewhere := s.Type.Known() && s.Path != at
	add(elsewhere && f.onePath, "callbacks of type 2 go to a URL of their own, all other types to another one",
		"it comes to the URL of the other types, %s", s.Path)
	add(elsewhere && !f.onePath, rightWay, "it comes to %s, others of its kind to %s", s.Path, at)
	add(s.Field != "" && s.Field != f.body, rightWay, "its body is in %s, that of others in %s", s.Field, f.body)
	add(s.Padding.String() != f.padding, rightWay, "it is padded otherwise than others")
	add(s.APIKey != f.header, rightWay, "its API key is in the header %s, that of others in %s", s.APIKey, f.header)
	return out
}

// exampleOf returns a plaintext of a callback as the interface has it, with values of nobody's.
func exampleOf(t countersign.Type) string {
	cb := countersigntest.Sample(t, 1)
	cb.Common().RequestUUID = "7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"
	b, _ := cb.Marshal() // a sample marshals
	return string(b)
}

// Sum says what callbacks, in the order in which they came, showed together: the settings that fit,
// as a file for gateway --config, and a note to send to the provider about what no setting mends,
// empty if there is nothing. Both hold identifiers of callbacks, and no other value and no secret.
func Sum(list []Seen) client.Learned {
	fit, found, refused := fitOf(list), map[fault][]string{}, 0
	for _, s := range list {
		why := fit.faults(s)
		for _, f := range why {
			found[f] = append(found[f], strictjson.Printable(s.ID))
		}
		refused += min(1, len(why))
	}
	var file, note strings.Builder
	fmt.Fprintf(&file, "# What this provider does: %d callbacks, of which %d would be refused.\n", len(list), refused)
	for _, f := range slices.SortedFunc(maps.Keys(found), func(a, b fault) int {
		return cmp.Or(len(found[b])-len(found[a]), int(a.typ-b.typ), strings.Compare(a.text, b.text))
	}) {
		what := f.text
		if f.typ != countersign.TypeUnknown {
			what = fmt.Sprintf("type %d: %s", int(f.typ), f.text)
		}
		ids := slices.DeleteFunc(slices.Clone(found[f]), func(id string) bool { return id == "" })
		if len(ids) > 0 {
			what += " (such as " + strings.Join(ids[:min(len(ids), 3)], ", ") + ")"
		}
		fmt.Fprintf(&file, "#   %d  %s\n", len(found[f]), what)
		if f.right != "" {
			fmt.Fprintf(&note, "\nSeen in %d of %d callbacks: %s.\n", len(found[f]), len(list), what)
			fmt.Fprintf(&note, "The interface: %s.\n", f.right)
		}
	}
	fit.notes(&file)
	gateway, profile := fit.settings()
	file.WriteString("\n[gateway]\n" + strings.Join(gateway, "") + "\n[gateway.profile]\n" + strings.Join(profile, ""))
	out := client.Learned{Settings: file.String()}
	if note.Len() > 0 {
		out.Note = fmt.Sprintf("To the provider of our callbacks\n\nWe received %d different callbacks from you, and our "+
			"end must refuse %d of them. What follows cannot be changed\nby a setting at our end; please change it at "+
			"yours, and send the callbacks again.\n%s", len(list), refused, &note)
	}
	return out
}

// notes writes what a person must still do or know.
func (f fit) notes(file *strings.Builder) {
	add := func(is bool, format string, args ...any) {
		if is {
			fmt.Fprintf(file, "# Note: "+format+".\n", args...)
		}
	}
	add(f.onePath, "the provider posts type 2 to the path of the other types; give it a URL of its own there")
	for _, t := range []countersign.Type{countersign.TypeDeposited, countersign.TypeRequestWithdraw} {
		add(!f.types[t], "no callback of type %d has come yet", int(t))
	}
	add(f.not() > 0 && f.holds() == 0,
		"it does not bind its requests; compare each deposit with the chain before you credit it (SECURITY.md)")
	add(f.not() > 0 && f.holds() > 0, "%d callbacks were bound and %d were not, or to other bytes: ask the provider, "+
		"these may be forged; the gateway refuses them", f.holds(), f.not())
	for _, name := range slices.Sorted(maps.Keys(f.unchecked)) {
		add(true, "%d callbacks had the header %s, which the gateway will not check: if it carries the API key, give "+
			"what it must be with --callback-api-key", f.unchecked[name], name)
	}
}
