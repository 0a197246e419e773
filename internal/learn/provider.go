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

// The facts that are kept of a request.
const factPath, factHeader, factEncoding = "path", "header", "Content-Encoding"

// usualHeaders are headers that say nothing about the provider.
var usualHeaders = strings.Fields("Accept Accept-Charset Accept-Encoding Accept-Language Cache-Control Connection " +
	"Content-Encoding Content-Length Content-Type Cookie Date Expect Forwarded Keep-Alive Origin Pragma Referer Te " +
	"Traceparent Tracestate Transfer-Encoding Upgrade User-Agent Via")

// FactsOf returns what is kept of a request besides its body, without the values of headers, and whether a header
// carries one of keys.
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

// Seen reads one callback. facts were kept of it, and it came number times.
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

// shown are the settings for which most callbacks decide.
var shown = []struct {
	profile     bool // it is one of the profile
	name, usual string
	of          func(Seen) string // what a callback shows of it; empty: nothing
	differs     string            // of a callback that does not show what most do
}{
	{false, "oaep", envelope.PKCS1v15.String(), func(s Seen) string { return s.Padding.String() },
		"it is padded with %s, others with %s"},
	{false, notifyPath, merchant.DefaultNotifyPath, pathOf(countersign.LaneNotify), otherPath},
	{false, withdrawPath, merchant.DefaultWithdrawPath, pathOf(countersign.LaneWithdraw), otherPath},
	{true, "api-key-header", merchant.DefaultHeader, func(s Seen) string { return cmp.Or(s.APIKey, noHeader) },
		"its API key is in the header %s, that of others in %s"},
	{true, "body-field", merchant.DefaultBodyField, func(s Seen) string { return s.Field },
		"its body is in %s, that of others in %s"},
}

const (
	notifyPath, withdrawPath = "notify-path", "withdraw-path"
	otherPath                = "it comes to %s, others of its kind to %s"
	noHeader                 = "(none)"
)

func pathOf(lane countersign.Lane) func(Seen) string {
	return func(s Seen) string {
		if s.Type.Known() && s.Type.Lane() == lane {
			return s.Path
		}
		return ""
	}
}

// fit is what fits callbacks best when one setting must serve all.
type fit struct {
	most       map[string]string // what most show, by the name of the setting
	onePath    bool              // the provider posts all types to one path, which no setting takes
	lenient    bool              // one needs lenient rules
	again      bool              // a question came again after errCode 5000
	holds, not int               // callbacks that are bound to their requestUUID, and that are not
	broken     bool              // one has the requestUUID of other bytes
	types      map[countersign.Type]bool
	unchecked  map[string]int // callbacks by headers that may carry an API key which was not given
}

// fitOf counts what list shows. The value that most callbacks show wins, so that a stray one does not become the
// setting. Among equals the latest wins.
func fitOf(list []Seen) fit {
	f := fit{types: map[countersign.Type]bool{}, unchecked: map[string]int{}, most: map[string]string{}}
	counts := map[[2]string]int{}
	for _, s := range list {
		if s.APIKey == "" {
			for _, name := range s.Headers {
				f.unchecked[name]++
			}
		}
		if s.Err != nil {
			continue
		}
		for _, t := range shown {
			if value := t.of(s); value != "" {
				counts[[2]string{t.name, value}]++
				if counts[[2]string{t.name, value}] >= counts[[2]string{t.name, f.most[t.name]}] {
					f.most[t.name] = value
				}
			}
		}
		f.types[s.Type] = true
		if s.Binding == countersign.BindingHolds {
			f.holds++
		} else {
			f.not++
			f.broken = f.broken || s.Binding == countersign.BindingBroken
		}
		f.lenient = f.lenient || len(s.Refused) == 0 && len(s.Differs) > 0
		f.again = f.again || s.Repeated && s.Type == countersign.TypeRequestWithdraw
	}
	if f.onePath = f.most[notifyPath] != "" && f.most[notifyPath] == f.most[withdrawPath]; f.onePath {
		f.most[withdrawPath] = ""
		if f.most[notifyPath] == merchant.DefaultWithdrawPath {
			f.most[withdrawPath] = merchant.DefaultNotifyPath
		}
	}
	for _, t := range shown {
		f.most[t.name] = cmp.Or(f.most[t.name], t.usual)
	}
	return f
}

// settings returns the settings that fit and are not defaults, as lines of TOML: the gateway's and its profile's.
func (f fit) settings() (gateway, profile []string) {
	add := func(section *[]string, needed bool, name string, value any) {
		if text, _ := json.Marshal(value); needed { // a JSON string, bool or whole number is one in TOML too
			*section = append(*section, fmt.Sprintf("%s = %s\n", name, text))
		}
	}
	unbound := f.not > 0 && f.holds == 0
	add(&profile, unbound, "provider", "other")
	add(&profile, unbound && f.broken, "binding", merchant.BindingOff.String())
	add(&profile, !unbound && f.lenient, "lenient", true)
	for _, t := range shown {
		section, value := &gateway, any(f.most[t.name])
		if t.profile {
			section = &profile
		}
		if t.name == "oaep" {
			value = true
		}
		add(section, !strings.EqualFold(f.most[t.name], t.usual) && f.most[t.name] != noHeader, t.name, value)
	}
	add(&profile, unbound && f.again, "hold-code", int(countersign.CodeInternal))
	return gateway, profile
}

// fault is one reason why callbacks would be refused.
type fault struct {
	typ    countersign.Type // 0: it did not open
	text   string
	theirs bool // the provider must mend it; false: it may be forged, or a key here may be wrong
}

// rightForm ends a note to a provider: the rules of the interface for requests.
const rightForm = "The interface: the body of a request is the sealed blocks in standard Base64, with + and / and padding, and nothing " +
	"else: not\ncompressed, not multipart, no byte order mark. What is sealed is one JSON object, each member once. Callbacks " +
	"of type 2\ngo to a URL of their own, all others to another one, in one form of body, with one header for the API key.\n"

// faults returns why the gateway would refuse s with the settings that fit, or nil if it would accept it.
func (f fit) faults(s Seen) (out []fault) {
	add := func(format string, args ...any) { out = append(out, fault{s.Type, fmt.Sprintf(format, args...), true}) }
	if s.Err != nil {
		add("does not open: %v", s.Err)
		out[0].theirs = errors.Is(s.Err, envelope.ErrBodyForm) || errors.Is(s.Err, envelope.ErrBase64) || errors.Is(s.Err, envelope.ErrEmpty)
		return out
	}
	for _, refused := range s.Refused[:min(len(s.Refused), 8)] {
		add("%v", refused)
	}
	if f.holds > 0 && s.Binding != countersign.BindingHolds && len(s.Refused) == 0 {
		add("its requestUUID is not bound to it, as that of %d others is: it may be forged", f.holds)
		out[len(out)-1].theirs = false
	}
	for _, t := range shown {
		switch value, most := t.of(s), f.most[t.name]; {
		case value == "" || value == most || most == t.usual && value == noHeader:
		case t.differs == otherPath && f.onePath:
			add("it comes to the URL of the other types, %s", value)
		default:
			add(t.differs, value, most)
		}
	}
	return out
}

// Sum returns what callbacks, in the order of their arrival, show together: the settings that fit, as a file for
// gateway --config, and a note to the provider about what no setting mends, empty if there is nothing. Both contain
// identifiers of callbacks, but no other values and no secrets.
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
		what, ids := f.text, slices.DeleteFunc(slices.Clone(found[f]), func(id string) bool { return id == "" })
		if f.typ != countersign.TypeUnknown {
			what = fmt.Sprintf("type %d: %s", int(f.typ), f.text)
		}
		if len(ids) > 0 {
			what += " (such as " + strings.Join(ids[:min(len(ids), 3)], ", ") + ")"
		}
		fmt.Fprintf(&file, "#   %d  %s\n", len(found[f]), what)
		if f.theirs {
			fmt.Fprintf(&note, "- Seen in %d of %d callbacks: %s.\n", len(found[f]), len(list), what)
		}
	}
	fit.notes(&file)
	gateway, profile := fit.settings()
	file.WriteString("\n[gateway]\n" + strings.Join(gateway, "") + "\n[gateway.profile]\n" + strings.Join(profile, ""))
	out := client.Learned{Settings: file.String()}
	if note.Len() > 0 {
		out.Note = fmt.Sprintf("To the provider of our callbacks\n\nWe received %d different callbacks from you, and our end must refuse %d of them. "+
			"No setting at our end changes what\nfollows; please change it at yours, and send the callbacks again.\n\n%s\n%s", len(list), refused, &note, rightForm)
	}
	return out
}

// notes writes what a person still has to do or know.
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
	add(f.not > 0 && f.holds == 0,
		"it does not bind its requests; compare each deposit with the chain before you credit it (SECURITY.md)")
	add(f.not > 0 && f.holds > 0, "%d callbacks were bound and %d were not, or to other bytes: ask the provider, "+
		"these may be forged; the gateway refuses them", f.holds, f.not)
	for _, name := range slices.Sorted(maps.Keys(f.unchecked)) {
		add(true, "%d callbacks had the header %s, which the gateway will not check: if it carries the API key, give "+
			"what it must be with --callback-api-key", f.unchecked[name], name)
	}
}
