package learn

import (
	"cmp"
	"encoding/json"
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
var usualHeaders = []string{"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Connection", "Content-Encoding",
	"Content-Length", "Content-Type", "Cookie", "Date", "Expect", "Forwarded", "Keep-Alive", "Origin", "Pragma", "Referer", "Te", "Traceparent",
	"Tracestate", "Transfer-Encoding", "Upgrade", "User-Agent", "Via"}

// FactsOf returns what is kept of a request beside its body, without values of headers, and
// whether one of keys is in a header.
func FactsOf(r *http.Request, keys []countersign.APIKey) (facts []client.Fact, known bool) {
	facts = []client.Fact{{Member: factPath, Came: printable(r.URL.Path)}}
	if how := bodies.Encoding(r.Header); how != "" {
		facts = append(facts, client.Fact{Member: factEncoding, Came: how, Cause: bodies.NotCompressed})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if slices.Contains(usualHeaders, name) || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Real-") || len(facts) > 20 {
			continue
		}
		fact := client.Fact{Member: factHeader, Came: printable(name)}
		if values := r.Header[name]; len(values) == 1 && slices.ContainsFunc(keys, func(k countersign.APIKey) bool { return k.Equal(countersign.APIKey(values[0])) }) {
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
			s.Finding = Finding{Explanation: envelope.Explanation{Err: fmt.Errorf("%w: the header Content-Encoding says %s: %s", envelope.ErrBodyForm, f.Came, f.Cause)}}
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
	list                           []Seen
	notify, withdraw, header, body string
	padding                        string
	onePath                        bool // the provider posts all types to one path, which no setting takes
	holds, not                     int  // callbacks that are bound to their requestUUID, and that are not
}

// fitOf counts what list shows. What most of the callbacks show wins, so that a stray one does not
// become the setting; of equals, the one that came last.
func fitOf(list []Seen) fit {
	most := func(show func(Seen) string) (is string) {
		n := map[string]int{}
		for _, s := range list {
			if got := show(s); s.Err == nil && got != "" {
				if n[got]++; n[got] >= n[is] {
					is = got
				}
			}
		}
		return is
	}
	path := func(lane countersign.Lane) string {
		return most(func(s Seen) string {
			if s.Type.Known() && s.Type.Lane() == lane {
				return s.Path
			}
			return ""
		})
	}
	f := fit{list: list, notify: path(countersign.LaneNotify), withdraw: path(countersign.LaneWithdraw), body: most(func(s Seen) string { return s.Field }),
		header: most(func(s Seen) string { return s.APIKey }), padding: most(func(s Seen) string { return s.Padding.String() })}
	if f.onePath = f.notify != "" && f.notify == f.withdraw; f.onePath {
		f.withdraw = merchant.DefaultWithdrawPath
		if f.notify == f.withdraw {
			f.withdraw = merchant.DefaultNotifyPath
		}
	}
	f.notify, f.withdraw = cmp.Or(f.notify, merchant.DefaultNotifyPath), cmp.Or(f.withdraw, merchant.DefaultWithdrawPath)
	f.holds = f.count(func(s Seen) bool { return s.Binding == countersign.BindingHolds })
	f.not = f.count(func(s Seen) bool { return s.Binding != countersign.BindingHolds })
	return f
}

// count counts callbacks that opened.
func (f fit) count(is func(Seen) bool) (n int) {
	for _, s := range f.list {
		if s.Err == nil && is(s) {
			n++
		}
	}
	return n
}

// setting is one of the gateway: a flag without its dashes, in TOML a key.
type setting struct {
	profile bool // it is one of what the provider does
	name    string
	value   any // a string, a bool or an int
}

// settings are those that fit, where they differ from the defaults.
func (f fit) settings() (out []setting) {
	add := func(needed, profile bool, name string, value any) {
		if needed {
			out = append(out, setting{profile, name, value})
		}
	}
	unbound := f.not > 0 && f.holds == 0
	add(f.padding == envelope.OAEP.String(), false, "oaep", true)
	add(f.notify != merchant.DefaultNotifyPath, false, "notify-path", f.notify)
	add(f.withdraw != merchant.DefaultWithdrawPath, false, "withdraw-path", f.withdraw)
	add(unbound, true, "provider", "other")
	add(unbound && f.count(func(s Seen) bool { return s.Binding == countersign.BindingBroken }) > 0, true, "binding", merchant.BindingOff.String())
	add(!unbound && f.count(func(s Seen) bool { return s.Lenient && !s.Strict }) > 0, true, "lenient", true)
	add(f.header != "" && !strings.EqualFold(f.header, merchant.DefaultHeader), true, "api-key-header", f.header)
	add(f.body != "" && f.body != merchant.DefaultBodyField, true, "body-field", f.body)
	again := f.count(func(s Seen) bool { return s.Repeated && s.Type == countersign.TypeRequestWithdraw }) > 0
	add(unbound && again, true, "hold-code", int(countersign.CodeInternal)) // seen: it asks again after this one
	return out
}

// flags writes settings as flags; "the defaults" if there is none.
func flags(settings []setting) string {
	var words []string
	for _, s := range settings {
		if words = append(words, "--"+s.name); s.value != true {
			words = append(words, fmt.Sprint(s.value))
		}
	}
	return cmp.Or(strings.Join(words, " "), "the defaults")
}

// fault is one reason why callbacks would be refused, and what the interface says.
type fault struct {
	typ         countersign.Type // 0: it did not open
	text, right string           // right is empty where the provider may not be at fault
}

const (
	rightForm = "the body of a request is the sealed blocks in standard Base64, with + and / and padding, and nothing else: not compressed, not multipart, no byte order mark"
	rightWay  = "all callbacks are sent in one way: one URL for type 2 and one for the others, one form of the body, one header for the API key"
)

// faults says why the gateway would refuse s with the settings that fit; nil if it would take it.
func (f fit) faults(s Seen) (out []fault) {
	add := func(is bool, right, format string, args ...any) {
		if is {
			out = append(out, fault{s.Type, fmt.Sprintf(format, args...), right})
		}
	}
	if s.Err != nil {
		add(s.outer(), rightForm, "does not open: %v", s.Err)
		add(!s.outer(), "", "does not open: %v", s.Err) // the key may be wrong here
		return out
	}
	for _, refused := range s.Refused[:min(len(s.Refused), 8)] {
		right := fmt.Sprintf("a message is one JSON object, each member once, and type is a number from 1 to %d", len(countersign.TypeUnknown.Values()))
		if s.Type.Known() {
			right = fmt.Sprintf("before it is sealed, a callback of type %d is such as %s", int(s.Type), exampleOf(s.Type))
		}
		add(true, right, "%v", refused)
	}
	add(f.holds > 0 && s.Binding != countersign.BindingHolds && s.Lenient, "", "its requestUUID is not bound to it, as that of %d others is: it may be forged", f.holds)
	at := [2]string{f.notify, f.withdraw}[s.Type.Lane()]
	elsewhere := s.Type.Known() && s.Path != at
	add(elsewhere && f.onePath, "callbacks of type 2 go to a URL of their own, all other types to another one", "it comes to the URL of the other types, %s", s.Path)
	add(elsewhere && !f.onePath, rightWay, "it comes to %s, others of its kind to %s", s.Path, at)
	add(s.Field != "" && s.Field != f.body, rightWay, "its body is in %s, that of others in %s", s.Field, f.body)
	add(s.Padding.String() != f.padding, rightWay, "it is padded otherwise than others")
	add(s.APIKey != f.header, rightWay, "its API key is in the header %s, that of others in %s", s.APIKey, f.header)
	return out
}

// exampleOf returns a plaintext of a callback as the interface has it, with values of nobody's.
func exampleOf(t countersign.Type) string {
	var cb countersign.Callback = countersigntest.Deposit(1)
	switch {
	case t == countersign.TypeRequestWithdraw:
		cb = countersigntest.Withdrawal(1)
	case t != countersign.TypeDeposited:
		cb = countersigntest.Notice(t, 1)
	}
	cb.Common().RequestUUID = "7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"
	b, err := cb.Marshal()
	if err != nil {
		return ""
	}
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
			found[f] = append(found[f], printable(s.ID))
		}
		refused += min(1, len(why))
	}
	var file, note strings.Builder
	fmt.Fprintf(&file, "# What this provider does: %d callbacks, of which %d would be refused.\n", len(list), refused)
	for _, f := range slices.SortedFunc(maps.Keys(found), func(a, b fault) int {
		return cmp.Or(len(found[b])-len(found[a]), int(a.typ-b.typ), strings.Compare(a.text, b.text))
	}) {
		ids := slices.DeleteFunc(found[f], func(id string) bool { return id == "" })
		what := f.text
		if f.typ != countersign.TypeUnknown {
			what = fmt.Sprintf("type %d: %s", int(f.typ), f.text)
		}
		if len(ids) > 0 {
			what += " (such as " + strings.Join(ids[:min(len(ids), 3)], ", ") + ")"
		}
		fmt.Fprintf(&file, "#   %d  %s\n", len(found[f]), what)
		if f.right != "" {
			fmt.Fprintf(&note, "\nSeen in %d of %d callbacks: %s.\nThe interface: %s.\n", len(found[f]), len(list), what, f.right)
		}
	}
	for _, n := range fit.notes() {
		fmt.Fprintf(&file, "# Note: %s.\n", n)
	}
	for _, profile := range []bool{false, true} {
		fmt.Fprintf(&file, "\n[gateway%s]\n", map[bool]string{true: ".profile"}[profile])
		for _, s := range fit.settings() {
			if s.profile == profile {
				value, _ := json.Marshal(s.value) // a JSON string, bool or whole number is one in TOML too
				fmt.Fprintf(&file, "%s = %s\n", s.name, value)
			}
		}
	}
	out := client.Learned{Settings: file.String()}
	if note.Len() > 0 {
		out.Note = fmt.Sprintf("To the provider of our callbacks\n\nWe received %d different callbacks from you, and our end must refuse %d of them. What follows cannot be changed\n"+
			"by a setting at our end; please change it at yours, and send the callbacks again.\n%s", len(list), refused, &note)
	}
	return out
}

// notes say what a person must still do or know.
func (f fit) notes() (out []string) {
	add := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(f.onePath, "the provider posts type 2 to the path of the other types; give it a URL of its own there")
	for _, t := range []countersign.Type{countersign.TypeDeposited, countersign.TypeRequestWithdraw} {
		add(f.count(func(s Seen) bool { return s.Type == t }) == 0, "no callback of type %d has come yet", int(t))
	}
	add(f.not > 0 && f.holds == 0, "it does not bind its requests; compare each deposit with the chain before you credit it (SECURITY.md)")
	add(f.not > 0 && f.holds > 0, "%d callbacks were bound and %d were not, or to other bytes: ask the provider, these may be forged; the gateway refuses them", f.holds, f.not)
	unchecked := map[string]int{}
	for _, s := range f.list {
		for _, name := range s.Headers {
			if s.APIKey == "" {
				unchecked[name]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unchecked)) {
		add(true, "%d callbacks had the header %s, which the gateway will not check: if it carries the API key, give what it must be with --callback-api-key", unchecked[name], name)
	}
	return out
}
