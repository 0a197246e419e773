package learn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

// seen is what of one callback decides whether the gateway takes it.
type seen struct {
	opened       bool
	why          string // it did not open
	outer        bool   // for its form
	typ          countersign.Type
	bare, oaep   bool
	field        string // see Finding.Field
	path, header string
	binding      countersign.Binding
	faults       string // of the lenient rules, one a line
}

// maxFaults bounds the faults of one callback that are kept.
const maxFaults = 8

func seenOf(f Finding, path, header string) seen {
	s := seen{opened: f.Opened, typ: f.Type, bare: f.Form == envelope.FormBare, oaep: f.OAEP, field: f.Field, path: path, header: header, binding: f.Binding}
	if !f.Opened {
		return seen{why: f.Seal, outer: f.outer}
	}
	var faults []string
	for _, fault := range f.Refused[:min(len(f.Refused), maxFaults)] {
		faults = append(faults, fault.Error())
	}
	s.faults = strings.Join(faults, "\n")
	return s
}

// fault is one reason why callbacks of a type would be refused.
type fault struct {
	typ  countersign.Type // 0: it did not open
	text string
	kind faultKind
}

// faultKind says what helps against a fault.
type faultKind int

const (
	faultMessage faultKind = iota // only the provider can change it
	faultURL                      // the provider has one URL where two are needed
	faultMixed                    // callbacks differ in what one setting says for all
	faultBinding                  // it may be forged
	faultSeal                     // it does not open
	faultForm                     // it does not come as far as a key
)

// faults says why the gateway would refuse s with the settings of p; nil if it would take it.
func (p *Provider) faults(s seen) (list []fault) {
	add := func(kind faultKind, format string, args ...any) {
		list = append(list, fault{s.typ, fmt.Sprintf(format, args...), kind})
	}
	switch {
	case s.outer:
		add(faultForm, "does not open: %s", s.why)
		return list
	case !s.opened:
		add(faultSeal, "does not open: %s", s.why)
		return list
	}
	for _, text := range strings.Split(s.faults, "\n") {
		if text != "" {
			add(faultMessage, "%s", text)
		}
	}
	if p.holds > 0 && s.binding != countersign.BindingHolds && s.faults == "" {
		add(faultBinding, "its requestUUID is not bound to it, as that of %d others is: it may be forged", p.holds)
	}
	lane := s.typ.Lane()
	switch at := p.pathOf(lane); {
	case !s.typ.Known() || s.path == at:
	case p.onePath():
		add(faultURL, "it comes to the URL of the other types, %s", printable(s.path))
	default:
		add(faultMixed, "it comes to %s, others of its kind to %s", printable(s.path), printable(at))
	}
	if !s.bare && s.field != p.field.is {
		add(faultMixed, "its body is in %s, that of others in %s", cmp.Or(s.field, merchant.DefaultBodyField), cmp.Or(p.field.is, merchant.DefaultBodyField))
	}
	if strconv.FormatBool(s.oaep) != p.oaep.is {
		add(faultMixed, "it is padded otherwise than others")
	}
	if s.header != p.header.is {
		add(faultMixed, "its API key is in the header %s, that of others in %s", s.header, p.header.is)
	}
	return list
}

// pathOf is the path that the settings give a lane.
func (p *Provider) pathOf(lane countersign.Lane) string {
	usual := [2]string{merchant.DefaultNotifyPath, merchant.DefaultWithdrawPath}[lane]
	if p.onePath() && lane == countersign.LaneWithdraw { // what comes to it is for the other lane
		if p.paths[lane].is == usual {
			return merchant.DefaultNotifyPath
		}
		return usual
	}
	return cmp.Or(p.paths[lane].is, usual)
}

// tally is one fault with the callbacks that have it.
type tally struct {
	fault
	n   int
	ids []string // some of them
}

// maxIDs bounds the identifiers that a tally names.
const maxIDs = 3

// verdict counts the callbacks that came, those that would be refused with the settings of
// p, and why, the most frequent reason first. A callback that came again counts once, as it
// came last.
func (p *Provider) verdict() (all, refused int, why []tally) {
	found := map[fault]*tally{}
	take := func(s seen, id string, n int) {
		all += n
		faults := p.faults(s)
		if len(faults) > 0 {
			refused += n
		}
		for _, f := range faults {
			t := found[f]
			if t == nil {
				t = &tally{fault: f}
				found[f] = t
			}
			t.n += n
			if id != "" {
				t.ids = append(t.ids, printable(id))
			}
		}
	}
	for id, a := range p.attempts {
		_, name, _ := strings.Cut(id, " ")
		take(a.seen, name, 1)
	}
	for s, n := range p.nameless {
		take(s, "", n)
	}
	for _, t := range found {
		slices.Sort(t.ids)
		t.ids = t.ids[:min(len(t.ids), maxIDs)]
		why = append(why, *t)
	}
	slices.SortFunc(why, func(a, b tally) int {
		return cmp.Or(b.n-a.n, int(a.typ)-int(b.typ), strings.Compare(a.text, b.text))
	})
	return all, refused, why
}

// Summary says how many callbacks would be refused and why, in lines.
func (p *Provider) Summary() string {
	all, refused, why := p.verdict()
	var s strings.Builder
	switch {
	case refused == 0:
		fmt.Fprintf(&s, "0 of %d callbacks would be refused\n", all)
	default:
		fmt.Fprintf(&s, "%d of %d callbacks would be refused:\n", refused, all)
	}
	for _, t := range why {
		fmt.Fprintf(&s, "  %d  %s%s%s\n", t.n, about(t.typ), t.text, t.names())
	}
	for _, name := range slices.Sorted(maps.Keys(p.unchecked)) {
		fmt.Fprintf(&s, "  %d had the header %s, which the gateway will not check: if it carries the API key, give what it must be with --callback-api-key\n", p.unchecked[name], name)
	}
	return s.String()
}

// about names a type in front of what is said of it.
func about(t countersign.Type) string {
	if t == countersign.TypeUnknown {
		return ""
	}
	return fmt.Sprintf("type %d: ", int(t))
}

// names gives the identifiers of t in brackets.
func (t tally) names() string {
	if len(t.ids) == 0 {
		return ""
	}
	more := ""
	if t.n > len(t.ids) {
		more = ", …"
	}
	return " (" + strings.Join(t.ids, ", ") + more + ")"
}
