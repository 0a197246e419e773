package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/web"
	"countersign/merchant"
)

// learnMessage is the message to the provider.
const learnMessage = "learning: nothing was booked; send it again later"

// learn answers every POST at any path with errCode 5000, so that the provider sends it again, and keeps it as refused.
// Where API keys are given, a request without one gets 401 and is not kept: anybody may have sent it. The blocks of
// what opens are remembered, so that nobody can join them once the settings are right (PROTOCOL.md, B7).
func (g *Gateway) learn(w http.ResponseWriter, r *http.Request) {
	c := &g.c.Callbacks
	facts, known := requestFacts(r, c.CallbackAPIKeys)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(merchant.DefaultBodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, envelope.MaxBody))
	status, refused := http.StatusOK, ""
	switch {
	case r.Method != http.MethodPost:
		status, refused = http.StatusMethodNotAllowed, "only POST is a callback"
	case err != nil:
		status, refused = http.StatusBadRequest, "the body did not arrive"
	case len(c.CallbackAPIKeys) > 0 && !known:
		status, refused = http.StatusUnauthorized, "none of its headers carries the callback API key"
	}
	if refused != "" {
		g.c.Log.Warn("a request was ignored while learning", "reason", refused, "facts", facts)
		http.Error(w, refused, status)
		return
	}
	seen := g.c.reader().Seen(body, facts)
	kept := book.Refused{Content: contentOf(merchant.Refused{Body: body, Opened: seen.Plaintext}),
		RefusedCallback: client.RefusedCallback{
			Body: string(body), Opened: seen.Err == nil, Type: seen.Type, CallbackID: seen.ID, Facts: facts,
			Reason: client.RefusalLearning, ErrCode: int64(countersign.CodeInternal), Message: learnMessage}}
	if blocks := merchant.ReadBlocks(c.Key, seen.Padding, seen.Field, body); blocks != nil {
		err = g.book.Remember(r.Context(), merchant.Entry{Blocks: blocks, At: g.c.Now()})
	}
	if err == nil {
		err = g.book.KeepRefused(r.Context(), kept, nil, db.MillisOf(g.c.Now()))
	}
	response, err2 := countersign.Response{APIKey: c.APIKey, ErrCode: countersign.CodeInternal,
		Message: learnMessage}.Marshal()
	if err != nil || err2 != nil {
		g.c.Log.Error("a callback was not kept for learning", "error", err)
		http.Error(w, "not kept", http.StatusServiceUnavailable)
		return
	}
	g.c.Log.Info("a callback was kept for learning", "type", int(seen.Type), "id", seen.ID, "opened", seen.Err == nil)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(response)
}

// learned sums up the callbacks that came while the gateway learned.
func (g *Gateway) learned(c *api.Call, _ api.None, _ api.None) (client.Learned, error) {
	var list []Finding
	err := db.EachPage(func(before int64) ([]client.RefusedCallback, int64, error) {
		return g.lists.RefusedList(c.R.Context(), client.RefusedFilter{State: client.RefusedOpen,
			Reason: client.RefusalLearning}, 100, before)
	}, func(r client.RefusedCallback) error {
		whole, err := g.lists.Refused(c.R.Context(), r.ID)
		list = append(list, g.c.reader().Seen([]byte(whole.Body), whole.Facts))
		return err
	})
	if err != nil {
		return client.Learned{}, err
	}
	slices.Reverse(list) // the first that came first
	return sumUp(list), nil
}

// shown are the settings for which most callbacks decide.
var shown = []struct {
	name, usual, what string
	of                func(Finding) string // what a callback shows of it; empty: nothing
}{
	{"oaep", envelope.PKCS1v15.String(), "padding", func(f Finding) string { return f.Padding.String() }},
	{notifyPath, merchant.DefaultNotifyPath, "path", pathOf(countersign.LaneNotify)},
	{withdrawPath, merchant.DefaultWithdrawPath, "path", pathOf(countersign.LaneWithdraw)},
	{"api-key-header", merchant.DefaultHeader, "header of the API key", func(f Finding) string { return f.APIKey }},
	{"body-field", merchant.DefaultBodyField, "field of the body", func(f Finding) string { return f.Field }},
}

const notifyPath, withdrawPath = "notify-path", "withdraw-path"

func pathOf(lane countersign.Lane) func(Finding) string {
	return func(f Finding) string {
		if f.Type.Known() && f.Type.Lane() == lane {
			return f.Path
		}
		return ""
	}
}

// fit is what fits callbacks best when one setting must serve all.
type fit struct {
	most       map[string]string // what most show, by the name of the setting
	lenient    bool              // one needs lenient rules
	holds, not int               // callbacks that are bound to their requestUUID, and that are not
	broken     bool              // one has the requestUUID of other bytes
}

// fitOf counts what list shows. The value that most callbacks show wins, so that a stray one does not become the
// setting. Among equals the latest wins.
func fitOf(list []Finding) fit {
	f := fit{most: map[string]string{}}
	counts := map[[2]string]int{}
	for _, s := range list {
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
		if s.Binding == countersign.BindingHolds {
			f.holds++
		} else {
			f.not++
			f.broken = f.broken || s.Binding == countersign.BindingBroken
		}
		f.lenient = f.lenient || len(s.Refused) == 0 && len(s.Differs) > 0
	}
	return f
}

// settings returns the settings that fit and are not defaults, as the table gateway of a settings file.
func (f fit) settings() map[string]any {
	gateway := map[string]any{}
	switch {
	case f.not > 0 && f.holds == 0:
		gateway["provider"] = "other"
		if f.broken {
			gateway["binding"] = merchant.BindingOff.String()
		}
	case f.lenient:
		gateway["lenient"] = true
	}
	for _, t := range shown {
		most := f.most[t.name]
		switch {
		case most == "" || strings.EqualFold(most, t.usual):
		case t.name == withdrawPath && most == f.most[notifyPath]: // no setting takes one path for all
		case t.name == "oaep":
			gateway[t.name] = true
		default:
			gateway[t.name] = most
		}
	}
	return gateway
}

// fault is one reason why callbacks would be refused.
type fault struct {
	text   string
	theirs bool // the provider must mend it; false: it may be forged, or a key here may be wrong
}

// faults returns why the gateway would refuse s with the settings that fit, or nil if it would accept it.
func (f fit) faults(s Finding) (out []fault) {
	if s.Err != nil {
		theirs := errors.Is(s.Err, envelope.ErrBodyForm) || errors.Is(s.Err, envelope.ErrBase64) ||
			errors.Is(s.Err, envelope.ErrEmpty)
		return []fault{{fmt.Sprintf("does not open: %v", s.Err), theirs}}
	}
	add := func(theirs bool, format string, args ...any) {
		out = append(out, fault{fmt.Sprintf("type %d: ", int(s.Type)) + fmt.Sprintf(format, args...), theirs})
	}
	for _, refused := range s.Refused[:min(len(s.Refused), 8)] {
		add(true, "%v", refused)
	}
	if f.holds > 0 && s.Binding != countersign.BindingHolds && len(s.Refused) == 0 {
		add(false, "its requestUUID is not bound to it, as that of %d others is: it may be forged", f.holds)
	}
	for _, t := range shown {
		switch value := t.of(s); {
		case t.name == withdrawPath && value != "" && value == f.most[notifyPath]:
			add(true, "its path is that of the other types, %s", value)
		case value != "" && value != f.most[t.name]:
			add(true, "its %s is %s, that of others %s", t.what, value, f.most[t.name])
		}
	}
	return out
}

// sumUp returns what callbacks, in the order of their arrival, show together: the settings that fit, as a file for
// gateway --config, and a note to the provider about what no setting mends, empty if there is nothing. Both contain
// identifiers of callbacks, but no other values and no secrets.
func sumUp(list []Finding) client.Learned {
	fit, found, refused := fitOf(list), map[fault][]string{}, 0
	for _, s := range list {
		why := fit.faults(s)
		for _, f := range why {
			found[f] = append(found[f], web.Printable(s.ID))
		}
		refused += min(1, len(why))
	}
	var file, note strings.Builder
	fmt.Fprintf(&file, "# What this provider does: %d callbacks, of which %d would be refused.\n", len(list), refused)
	for _, f := range slices.SortedFunc(maps.Keys(found), func(a, b fault) int {
		return cmp.Or(len(found[b])-len(found[a]), strings.Compare(a.text, b.text))
	}) {
		what, ids := f.text, slices.DeleteFunc(slices.Clone(found[f]), func(id string) bool { return id == "" })
		if len(ids) > 0 {
			what += " (such as " + strings.Join(ids[:min(len(ids), 3)], ", ") + ")"
		}
		fmt.Fprintf(&file, "#   %d  %s\n", len(found[f]), what)
		if f.theirs {
			fmt.Fprintf(&note, "- Seen in %d of %d callbacks: %s.\n", len(found[f]), len(list), what)
		}
	}
	if fit.most[notifyPath] == "" || fit.most[withdrawPath] == "" {
		file.WriteString("# Note: no callback of type 2 has come yet, or no other one.\n")
	}
	if fit.not > 0 && fit.holds == 0 {
		file.WriteString("# Note: it does not bind its requests; " +
			"compare each deposit with the chain before you credit it (SECURITY.md).\n")
	}
	e := toml.NewEncoder(&file)
	e.Indent = ""
	_ = e.Encode(map[string]any{"gateway": fit.settings()}) // texts, numbers and bools
	out := client.Learned{Settings: file.String()}
	if note.Len() > 0 {
		out.Note = fmt.Sprintf(noteText, len(list), refused, &note)
	}
	return out
}

// noteText is the note to a provider, with the rules of the interface for requests.
const noteText = `To the provider of our callbacks

We received %d different callbacks from you, and our end must refuse %d of them. No setting at our end changes what
follows; please change it at yours, and send the callbacks again.

%s
The interface: the body of a request is the sealed blocks in standard Base64, with + and / and padding, and nothing else: not
compressed, not multipart, no byte order mark. What is sealed is one JSON object, each member once. Callbacks of type 2
go to a URL of their own, all others to another one, in one form of body, with one header for the API key.
`
