package learn

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

// Setting is one setting of the gateway: a flag without its dashes, in TOML a key.
type Setting struct {
	Profile bool // it is one of what the provider does
	Name    string
	Value   any // a string, a bool or an int
}

// Provider is what the callbacks of one provider showed together. The zero Provider
// has shown nothing.
type Provider struct {
	Calls, Opened int
	types         map[countersign.Type]int

	holds, absent, broken int // bindings
	lenient               bool
	oaep, field, header   votes
	paths                 [2]votes       // by lane
	unchecked             map[string]int // headers of the provider's own where no API key was given to look for
	again                 [2]bool        // by lane: a callback came again after errCode 5000
	attempts              map[string]attempts
	nameless              map[seen]int // callbacks that attempts does not have
}

// votes counts what callbacks showed where one setting says it for all. What most of them showed
// wins, so that a stray one does not become the setting; of equals, the one that came last.
type votes struct {
	n  map[string]int
	is string
}

func (v *votes) add(s string) {
	if v.n == nil {
		v.n = map[string]int{}
	}
	if _, there := v.n[s]; !there && len(v.n) >= maxNameless {
		return
	}
	if v.n[s]++; v.n[s] >= v.n[v.is] {
		v.is = s
	}
}

// attempts are those of one callback.
type attempts struct {
	n    int
	last time.Time
	seen seen // the last one
}

// The bounds of Provider.attempts and Provider.nameless.
const (
	maxAttempts = 10_000
	maxNameless = 1000
)

// Add takes in what one callback showed: at path, with the header that carried the
// API key, empty if none did. It gives how many attempts of the callback came
// before, and how long ago the last one was.
func (p *Provider) Add(f Finding, path, header string, at time.Time) (before int, since time.Duration) {
	p.Calls++
	s := seenOf(f, path, header)
	if !f.Opened {
		p.addNameless(s)
		return 0, 0
	}
	p.Opened++
	if p.types == nil {
		p.types, p.attempts = map[countersign.Type]int{}, map[string]attempts{}
	}
	p.types[f.Type]++
	switch f.Binding {
	case countersign.BindingHolds:
		p.holds++
	case countersign.BindingBroken:
		p.broken++
	default:
		p.absent++
	}
	p.lenient = p.lenient || f.Lenient && !f.Strict
	p.oaep.add(strconv.FormatBool(f.OAEP))
	if f.Form != envelope.FormBare {
		p.field.add(f.Field)
	}
	if header != "" {
		p.header.add(header)
	}
	lane := f.Type.Lane()
	if f.Type.Known() {
		p.paths[lane].add(path)
	}
	id := strconv.Itoa(int(f.Type)) + " " + f.ID
	a := p.attempts[id]
	if f.ID == "" || a.n == 0 && len(p.attempts) >= maxAttempts {
		p.addNameless(s)
		return 0, 0
	}
	if a.n > 0 {
		p.again[lane] = true
		before, since = a.n, at.Sub(a.last)
	}
	p.attempts[id] = attempts{a.n + 1, at, s}
	return before, since
}

// leaveUnchecked counts headers that may carry an API key, as long as they are few.
func (p *Provider) leaveUnchecked(headers []string) {
	if p.unchecked == nil {
		p.unchecked = map[string]int{}
	}
	for _, name := range headers {
		if _, there := p.unchecked[name]; there || len(p.unchecked) < maxFaults {
			p.unchecked[name]++
		}
	}
}

// addNameless counts a callback that no identifier tells from others.
func (p *Provider) addNameless(s seen) {
	if p.nameless == nil {
		p.nameless = map[seen]int{}
	}
	if _, there := p.nameless[s]; !there && len(p.nameless) >= maxNameless {
		s = seen{why: "its reason is not kept, since so many differ"}
	}
	p.nameless[s]++
}

// Settings are those that fit the provider, where they differ from the defaults.
func (p *Provider) Settings() []Setting {
	var list []Setting
	add := func(profile bool, name string, value any) { list = append(list, Setting{profile, name, value}) }
	if p.oaep.is == "true" {
		add(false, "oaep", true)
	}
	for lane, setting := range [2]struct{ name, usual string }{
		{"notify-path", merchant.DefaultNotifyPath}, {"withdraw-path", merchant.DefaultWithdrawPath},
	} {
		if path := p.pathOf(countersign.Lane(lane)); path != setting.usual {
			add(false, setting.name, path)
		}
	}
	profile := merchant.Profile{}
	if p.absent+p.broken > 0 && p.holds == 0 {
		add(true, "provider", "other")
		profile = merchant.OtherProvider()
	}
	if p.broken > 0 && p.holds == 0 {
		add(true, "binding", merchant.BindingOff.String())
	}
	if p.lenient && !profile.Lenient {
		add(true, "lenient", true)
	}
	if p.header.is != "" && !strings.EqualFold(p.header.is, merchant.DefaultHeader) {
		add(true, "api-key-header", p.header.is)
	}
	if p.field.is != "" {
		add(true, "body-field", p.field.is)
	}
	if profile.Hold == merchant.HoldWait && p.again[countersign.LaneWithdraw] {
		add(true, "hold-code", int(countersign.CodeInternal)) // seen: it asks again after this one
	}
	return list
}

// onePath reports whether the provider posts all types to one path, which no
// setting of the gateway takes.
func (p *Provider) onePath() bool {
	return p.paths[countersign.LaneNotify].is != "" && p.paths[countersign.LaneNotify].is == p.paths[countersign.LaneWithdraw].is
}

// Flags writes the settings as flags; "the defaults" if there is none.
func Flags(settings []Setting) string {
	var words []string
	for _, s := range settings {
		switch v := s.Value.(type) {
		case bool:
			words = append(words, "--"+s.Name)
		default:
			words = append(words, fmt.Sprintf("--%s %v", s.Name, v))
		}
	}
	if words == nil {
		return "the defaults"
	}
	return strings.Join(words, " ")
}

// Notes say what a person must still do or know.
func (p *Provider) Notes() []string {
	var notes []string
	if p.onePath() {
		notes = append(notes, "the provider posts type 2 to the path of the other types; give it an URL of its own there")
	}
	if p.types[countersign.TypeDeposited] == 0 {
		notes = append(notes, "no deposit (type 1) has come yet")
	}
	if p.types[countersign.TypeRequestWithdraw] == 0 {
		notes = append(notes, "no withdrawal (type 2) has come yet")
	}
	if p.absent+p.broken > 0 && p.holds == 0 {
		notes = append(notes, "it does not bind its requests; compare each deposit with the chain before you credit it (SECURITY.md)")
	}
	if p.broken > 0 && p.holds == 0 {
		notes = append(notes, "its requestUUIDs are of version 8, so nothing tells a callback that was not bound from one that was changed")
	}
	if p.absent+p.broken > 0 && p.holds > 0 {
		notes = append(notes, fmt.Sprintf("%d callbacks were bound and %d were not, or to other bytes: ask the provider, these may be forged; the gateway refuses them", p.holds, p.absent+p.broken))
	}
	return notes
}

// file is a settings file for gateway --config.
func (p *Provider) file(own []Setting, note string, at time.Time) string {
	var s strings.Builder
	types := make([]string, 0, len(p.types))
	for t := range p.types {
		types = append(types, strconv.Itoa(int(t)))
	}
	slices.Sort(types)
	fmt.Fprintf(&s, "%s %s: %d callbacks, %d of them opened, of types %s.\n", FileMark, at.UTC().Format(time.DateOnly), p.Calls, p.Opened,
		strings.Join(types, ", "))
	notes := p.Notes()
	if note != "" {
		notes = append(notes, note)
	}
	for line := range strings.Lines(p.Summary()) {
		fmt.Fprintf(&s, "# %s", line)
	}
	for _, n := range notes {
		fmt.Fprintf(&s, "# Note: %s.\n", n)
	}
	settings := p.Settings()
	for _, o := range own {
		if !slices.ContainsFunc(settings, func(s Setting) bool { return s.Name == o.Name }) {
			settings = append(settings, o)
		}
	}
	for _, table := range []struct {
		name    string
		profile bool
	}{{"gateway", false}, {"gateway.profile", true}} {
		fmt.Fprintf(&s, "\n[%s]\n", table.name)
		for _, set := range settings {
			if set.Profile != table.profile {
				continue
			}
			value, _ := json.Marshal(set.Value) // a JSON string, bool or whole number is one in TOML too
			fmt.Fprintf(&s, "%s = %s\n", set.Name, value)
		}
	}
	return s.String()
}

// FileMark begins every such file.
const FileMark = "# What countersign gateway --learn saw of this provider by"
