package outbox

import (
	"strings"
	"testing"

	"countersign/internal/db"
)

func TestIDs(t *testing.T) {
	var m db.IDs
	last := ""
	for i := range 5000 {
		id := m.Next(db.Millis(1_700_000_000_000 + i/1000))
		if id <= last || !db.ValidID(id) {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
	if m.Next(1<<60) <= last {
		t.Error("a time out of range")
	}
	if first, second := m.Next(-5), m.Next(-5); first == second {
		t.Error("the same id twice before 1970")
	}
	var other db.IDs
	if other.Next(5) == m.Next(5) {
		t.Error("two makers made the same")
	}
	for _, bad := range []string{"", ".", "a", "a." + last[1:], "a.b." + last, "A." + last, "a." + strings.ToUpper(last), "a." + last + "0"} {
		if _, _, err := splitID(bad); err == nil {
			t.Errorf("took %q", bad)
		}
	}
	if merchant, rest, err := splitID(joinID("a-b_1", last)); err != nil || merchant != "a-b_1" || rest != last {
		t.Errorf("got %s, %s, %v", merchant, rest, err)
	}
}
