package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const allowAll = "default = \"allow\"\n"

// refused are files that must not be read, and a part of what is said of them.
var refused = []struct{ file, want string }{
	{"", "neither a rule nor a default"},
	{"# nothing\n", "neither a rule nor a default"},
	{names, "neither a rule nor a default"},
	{`default = "permit"`, `policy file: default: "permit" is not one of deny, ask, allow`},
	{`Default = "deny"`, `policy file: Default: is not a key here; the keys are approvals, decimals, default, hours, limit, lists, rule, self-approval, time-zone`},
	{`default = true`, `default: is not a text in quotes`},
	{`default = ""`, `default: is empty`},
	{`default = `, `policy file: line 1`},
	{"default = \"deny\"\n\ndefault = \"allow\"", `policy file: line 3`},
	{"default = \"deny\"\n[[rules]]\nname = \"a\"", `rules: is not a key here`},
	{"[rule]\nname = \"a\"", `rule: is not a list of tables`},
	{"rule = 5", `rule: is not a list of tables`},
	{"[[rule]]\namount-above = \"0\"\neffect = \"deny\"", `rule 1: name: is missing`},
	{"[[rule]]\nname = 5", `rule 1: name: is not a text`},
	{"[[rule]]\nname = \"a\"\neffect = \"deny\"", `policy file: rule 1 "a": name: the rule has no condition`},
	{"[[rule]]\nname = \"a\"\namount-above = true\neffect = \"deny\"", `rule 1 "a": amount-above: is not a text in quotes`},
	{"[[rule]]\nname = \"a\"\namount-above = \" \"\neffect = \"deny\"", `amount-above: amount is not a decimal number`},
	{"[[rule]]\nname = \"a\"\namount-above = \"0\"", `rule 1 "a": effect: is missing`},
	{"[[rule]]\nname = \"a\"\namount-above = \"0\"\neffect = \"Deny\"", `rule 1 "a": effect: "Deny" is not one of deny, ask, allow`},
	{"[[rule]]\nname = \"a\"\namount-above = \"0\"\neffect = \"deny\"\nwen = \"x\"", `policy file: rule 1 "a": wen: is not a key here; the keys are address-in, address-not-in`},
	{"[[rule]]\nname = \"a\"\namount-above = \"0\"\neffect = \"deny\"\nreason = \"a\\nb\"", `rule 1 "a": reason: is not one line`},
	{"[[rule]]\nname = \"a\"\namount-above = \"0\"\neffect = \"deny\"\n[[rule]]\nname = \"a\"\namount-above = \"0\"\neffect = \"deny\"", `rule 2 "a": name: is in use`},
	{"[[limit]]\nname = \"l\"", `limit 1 "l": symbol: is missing`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"", `limit 1 "l": max: is missing`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = 1000.5", `limit 1 "l": max: is a number without quotes`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = 1000", `max: is a number without quotes`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1e3\"", `limit 1 "l": max: amount has an exponent`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1\"\nwindow = \"day\"", `limit 1 "l": window: "day" is not a length of time`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1\"\nwindow = \"-24h\"", `window:`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1\"\nwindow = \"9999h\"", `window:`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1\"\nper = \"tenant\"", `per: needs window`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1\"\nwindow = \"1h\"\nper = \"user\"", `per: "user" is neither tenant nor all`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1\"\nabove = \"allow\"", `above: "allow" is not one of deny, ask`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1\"\nwhen = \"amount\"", `policy file: limit 1 "l": when: is not a key here: write each condition as a key`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1\"\nsymbol-not = [\"X\"]", `limit 1 "l": symbol-not: is not a key here`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USD T\"\nmax = \"1\"", `symbol: "USD T" is empty, or has a character that is not visible ASCII`},
	{allowAll + "[decimals]\n\"US T\" = 6", `decimals: US T: "US T" is empty, or has a character`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1\"", `neither a rule nor a default`},
	{allowAll + `time-zone = "Berlin"`, `time-zone: "Berlin" is not a time zone`},
	{allowAll + `time-zone = "Local"`, `time-zone: "Local" is not a zone of its own`},
	{allowAll + `time-zone = "../../etc/passwd"`, `is not a time zone`},
	{allowAll + `self-approval = "true"`, `self-approval: is neither true nor false`},
	{allowAll + `self-approval = 1`, `self-approval: is neither true nor false`},
	{allowAll + `approvals = 0`, `policy file: approvals: is not a whole number from 1 to 10, without quotes`},
	{allowAll + `approvals = 11`, `approvals: is not a whole number from 1 to 10`},
	{allowAll + `approvals = "2"`, `approvals: is not a whole number from 1 to 10`},
	{allowAll + "approvals = -9223372036854775808", `approvals: is not a whole number from 1 to 10`},
	{"[[rule]]\nname = \"a\"\namount-above = \"0\"\neffect = \"deny\"\napprovals = 2", `rule 1 "a": approvals: applies only to ask`},
	{"[[limit]]\nname = \"l\"\nsymbol = \"USDT\"\nmax = \"1\"\napprovals = 2", `limit 1 "l": approvals: applies only to ask`},
	{allowAll + `lists = 5`, `lists: is not a table`},
	{allowAll + "[lists]\na = \"x\"", `lists: a: is not a list of texts`},
	{allowAll + "[lists]\na = [\"x\", 5]", `lists: a: has entry 2, which is not a text`},
	{allowAll + "[lists]\na = [\"\"]", `lists: a: has an empty entry`},
	{allowAll + "[hours]\na = [\"mon-fri\"]", `hours: a: "mon-fri" is not written like`},
	{allowAll + strings.Repeat("#", maxPolicyFile), `is larger than`},
	{allowAll + "a = " + strings.Repeat("[", maxArrays+1), `brackets`},
	{allowAll + "a = " + strings.Repeat("{a=", maxTables+1), `braces`},
	{allowAll + "[" + strings.Repeat("a.", maxPointsOnLine+1) + "a]", `line 2: has more than`},
	{allowAll + "\xff\xfe", `policy file: line 2`},
	{allowAll + "\x00", `policy file: line 2`},
}

func TestParseRefuses(t *testing.T) {
	for _, c := range refused {
		p, err := Parse([]byte(c.file))
		var pe *Error
		switch {
		case err == nil || p != nil:
			t.Errorf("%.100q is read", c.file)
		case !errors.Is(err, ErrFile) || !errors.As(err, &pe):
			t.Errorf("%.100q: %v is no Error", c.file, err)
		case !strings.Contains(err.Error(), c.want) || len(err.Error()) > 700:
			t.Errorf("%.100q: %v, want %q", c.file, err, c.want)
		}
	}
	many := new(strings.Builder)
	for i := range maxRules + 1 {
		fmt.Fprintf(many, "[[rule]]\nname = \"%d\"\namount-above = \"0\"\neffect = \"deny\"\n", i)
	}
	if _, err := Parse([]byte(many.String())); err == nil || !strings.Contains(err.Error(), "more than 500") {
		t.Errorf("%d rules: %v", maxRules+1, err)
	}
}

// TestHours goes by the wall clock of Berlin, over both changes of the clock.
func TestHours(t *testing.T) {
	zone := must(time.LoadLocation("Europe/Berlin"))(t)
	for _, c := range []struct {
		spans string
		at    string // in Berlin
		want  bool
	}{
		{"mon-fri 09:00-17:30", "Wed 2026-07-15 09:00:00", true},
		{"mon-fri 09:00-17:30", "Wed 2026-07-15 08:59:59", false},
		{"mon-fri 09:00-17:30", "Wed 2026-07-15 17:29:59", true},
		{"mon-fri 09:00-17:30", "Wed 2026-07-15 17:30:00", false},
		{"mon-fri 09:00-17:30", "Sat 2026-07-18 12:00:00", false},
		{"sat,sun 10:00-24:00", "Sun 2026-07-19 23:59:59", true},
		{"sat,sun 10:00-24:00", "Mon 2026-07-20 00:00:00", false},
		{"fri-mon 00:00-24:00", "Sun 2026-07-19 00:00:00", true},
		{"fri-mon 00:00-24:00", "Tue 2026-07-21 00:00:00", false},
		{"fri 22:00-06:00", "Fri 2026-07-17 23:00:00", true},
		{"fri 22:00-06:00", "Sat 2026-07-18 05:59:59", true},
		{"fri 22:00-06:00", "Sat 2026-07-18 06:00:00", false},
		{"fri 22:00-06:00", "Fri 2026-07-17 05:00:00", false},
		{"fri 22:00-06:00", "Sat 2026-07-18 22:30:00", false},
		{"sun 22:00-00:00", "Sun 2026-07-19 23:59:59", true},
		{"sun 22:00-00:00", "Mon 2026-07-20 00:00:00", false},
		{"sun 02:00-03:00", "Sun 2026-03-29 03:00:00", false}, // the hour that is skipped
		{"sun 03:00-04:00", "Sun 2026-03-29 03:00:00", true},
		{"sun 02:00-03:00", "Sun 2026-10-25 02:59:59", true}, // the hour that comes twice
		{"mon 01:00-02:00;wed 09:00-10:00", "Wed 2026-07-15 09:30:00", true},
	} {
		h := hours{zone: zone}
		for s := range strings.SplitSeq(c.spans, ";") {
			one := must(parseSpan(s))(t)
			h.spans = append(h.spans, one)
		}
		at := must(time.ParseInLocation("Mon 2006-01-02 15:04:05", c.at, zone))(t)
		if got := h.at(at.UTC()); got != c.want {
			t.Errorf("%s at %s: %v", c.spans, c.at, got)
		}
	}
	for _, s := range []string{
		"", "mon", "mon ", "mon-fri", "09:00-17:00", "Mon 09:00-17:00", "monday 09:00-17:00", "mon-fri-sat 09:00-17:00", "mon, 09:00-17:00",
		"mon 9:00-17:00", "mon 09:00", "mon 09:00-", "mon 09:00-17:60", "mon 09:00-24:01", "mon 24:00-06:00", "mon 09:00-09:00", "mon 09:00-17:00 ",
		"mon  09:00-17:00", "mon 09.00-17.00", "mon +9:00-17:00", "mon 09:00-17:00-18:00",
	} {
		if _, err := parseSpan(s); err == nil {
			t.Errorf("%q is read", s)
		}
	}
}

// TestSelfApproval: only the word true lets a token approve its own order.
func TestSelfApproval(t *testing.T) {
	for file, want := range map[string]bool{
		allowAll: false, allowAll + "self-approval = false": false, allowAll + "self-approval = true": true,
	} {
		p, err := Parse([]byte(file))
		if err != nil || p.SelfApproval() != want {
			t.Errorf("%q: %v, %v", file, p.SelfApproval(), err)
		}
	}
	if ExactOrders().SelfApproval() {
		t.Error("without a file a token may approve its own order")
	}
}

// FuzzParse: whatever the file, reading it ends with a policy or a
// Error, and the policy gives an Effect.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.toml")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range files {
		b := must(os.ReadFile(name))(f)
		f.Add(b)
	}
	for _, c := range refused {
		if len(c.file) < 1000 {
			f.Add([]byte(c.file))
		}
	}
	f.Add([]byte(withRule("address-in = \"known\"\nhours = \"day\"\namount-above = \"5\"\nlabel.x = [\"y\"]")))
	f.Fuzz(func(t *testing.T, file []byte) { checkPolicy(t, file) })
}

func checkPolicy(t *testing.T, file []byte) {
	p, err := Parse(file)
	var pe *Error
	if err != nil {
		if p != nil || !errors.As(err, &pe) || pe.Problem == "" || len(err.Error()) > 1000 {
			t.Fatalf("%v is no Error", err)
		}
		return
	}
	r := someRequest(t)
	ruling := decide(t, p, r)
	if ruling.Effect < Deny || ruling.Effect > Allow || ruling.Rule == "" && ruling.Reason == "" {
		t.Fatalf("%+v", ruling)
	}
	if again := decide(t, p, r); !reflect.DeepEqual(again, ruling) {
		t.Fatalf("%+v, then %+v", ruling, again)
	}
}
