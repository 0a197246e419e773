package countersign_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"countersign"
)

// documented is a row of the table in PROTOCOL.md, M3: a type with its members in order.
type documented struct {
	number  countersign.Type
	name    string
	members []documentedMember
}

type documentedMember struct {
	name           string
	number         bool // n
	strict, absent bool // may be absent in a strict and in a lenient parse
}

func documentedTypes(t *testing.T) (list []documented) {
	page := must(os.ReadFile("PROTOCOL.md"))(t)
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9, ]+) \| (NOTIFY_[A-Z_, ]+) \| (.*) \|$`).FindAllStringSubmatch(string(page), -1) {
		numbers, names := strings.Split(row[1], ", "), strings.Split(row[2], ", ")
		if len(numbers) != len(names) {
			t.Fatalf("PROTOCOL.md: %d types and %d names in %q", len(numbers), len(names), row[0])
		}
		var members []documentedMember
		for _, m := range strings.Split(row[3], ", ") {
			name, marks, _ := strings.Cut(m, " ")
			optional := strings.HasPrefix(marks, "(") // or null
			members = append(members, documentedMember{name, strings.HasPrefix(marks, "n"), optional, optional || strings.HasSuffix(marks, "L")})
		}
		for i := range numbers {
			n, _ := strconv.Atoi(numbers[i])
			list = append(list, documented{countersign.Type(n), names[i], members})
		}
	}
	return list
}

// text returns a message with all members of d but the one called without.
func (d documented) text(without string) string {
	var members []string
	for _, m := range d.members {
		value := `"1"`
		switch {
		case m.name == "type":
			value = strconv.Itoa(int(d.number))
		case m.number:
			value = "1"
		}
		if m.name != without {
			members = append(members, fmt.Sprintf("%q:%s", m.name, value))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// TestTypesAsDocumented: PROTOCOL.md has the types of the table, with the members
// that the parsers read, in the order in which they are written.
func TestTypesAsDocumented(t *testing.T) {
	var numbers []countersign.Type
	for _, d := range documentedTypes(t) {
		numbers = append(numbers, d.number)
		if d.number.String() != d.name {
			t.Errorf("type %d is %s, and %s in PROTOCOL.md", int(d.number), d.number, d.name)
		}
		cb, err := countersign.ParseCallback([]byte(d.text("")), countersign.ParseOptions{})
		if err != nil {
			t.Errorf("%s with the members of PROTOCOL.md: %v", d.name, err)
			continue
		}
		if len(cb.Unknown()) > 0 {
			t.Errorf("%s has no %v", d.name, cb.Unknown())
		}
		if got, err := cb.Marshal(); err != nil || string(got) != d.text("") {
			t.Errorf("%s is written as %s, %v; in PROTOCOL.md it is %s", d.name, got, err, d.text(""))
		}
		for _, m := range d.members {
			_, strict := countersign.ParseCallback([]byte(d.text(m.name)), countersign.ParseOptions{})
			_, lenient := countersign.ParseCallback([]byte(d.text(m.name)), countersign.ParseOptions{Lenient: true})
			if (strict == nil) != m.strict || (lenient == nil) != m.absent {
				t.Errorf("%s without %s: strict %v, lenient %v; PROTOCOL.md allows it: %v, %v", d.name, m.name, strict, lenient, m.strict, m.absent)
			}
		}
	}
	if want := countersign.TypeUnknown.Values(); !slices.Equal(numbers, want) {
		t.Errorf("PROTOCOL.md has the types %d, the code has %d", numbers, want)
	}
}

// TestTypesAreWhole: every known type has a name, words and an effect of its own kind,
// and a question is alone in its lane.
func TestTypesAreWhole(t *testing.T) {
	seen := map[string]countersign.Type{}
	for _, typ := range countersign.TypeUnknown.Values() {
		for _, text := range []string{typ.String(), typ.Words()} {
			if was, twice := seen[text]; twice || text == "" {
				t.Errorf("types %d and %d are both %q", int(was), int(typ), text)
			}
			seen[text] = typ
		}
		if typ.Effect() == countersign.EffectNone || (typ.Effect() == countersign.EffectWaiting) && typ.Report() == "" {
			t.Errorf("type %d has effect %d", int(typ), typ.Effect())
		}
		if (typ.Lane() == countersign.LaneWithdraw) != (typ.Effect() == countersign.EffectQuestion) {
			t.Errorf("type %d with effect %d goes to the lane %s", int(typ), typ.Effect(), typ.Lane())
		}
	}
	for _, typ := range []countersign.Type{countersign.TypeUnknown, -1, countersign.Type(len(countersign.TypeUnknown.Values()) + 1)} {
		if typ.Known() || typ.Words() != "" || typ.Effect() != countersign.EffectNone || typ.Lane() != countersign.LaneNotify {
			t.Errorf("type %d is known: %q, effect %d, %s", int(typ), typ.Words(), typ.Effect(), typ.Lane())
		}
	}
}
