package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func TestParseCredits(t *testing.T) {
	got, err := ParseCredits("tracking_id | amount\n------+----\n a-1 | 2.50\n\na-2\t7\r\n\"a-3\",\"1E-7\"\na-1|2.50\na-4\n(4 rows)\n")
	want := []Credit{{"tracking_id", "amount"}, {TrackingID: "------+----"}, {"a-1", "2.50"}, {"a-2", "7"}, {"a-3", "1E-7"}, {"a-1", "2.50"}, {TrackingID: "a-4"}, {"(4", "rows)"}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseCredits("a-1 1\na-2 1 2.50\n"); err == nil || err.Error() != "line 2 has 3 columns: print the trackingId and the amount, one line a credit" {
		t.Errorf("%v", err)
	}
}

func TestSameValue(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"2.5", "2.500", true}, {".5", "0.5", true}, {"1E-18", "0.000000000000000001", true}, {"7.", "7", true}, {"007", "7", true},
		{"2.5", "2.51", false}, {"1234567890.1234567890", "1234567890.1234567891", false}, {"-2.5", "2.5", false}, {"1e999999999", "1", false}, {"1,000", "1000", false}, {"", "0", false},
	} {
		if got := sameValue(tc.a, tc.b); got != tc.same {
			t.Errorf("%q, %q: %v", tc.a, tc.b, got)
		}
	}
}

// TestManyCredits: an Effects that gives all it knows, however few it is asked for, and
// more deposits than it is asked for at once.
func TestManyCredits(t *testing.T) {
	var all []Credit
	want := map[string]effect{}
	for i := range 2*asked + 1 {
		id := fmt.Sprint("d-", i)
		all = append(all, Credit{id, "2.50"})
		want[id] = effect{1, "2.5"}
	}
	s := &session{ctx: t.Context(), blind: map[*Need]bool{}, Checker: &Checker{cfg: Config{EffectsWait: time.Millisecond,
		Effects: func(_ context.Context, ids []string) ([]Credit, error) {
			if len(ids) > asked {
				t.Errorf("asked for %d at once", len(ids))
			}
			return all, nil
		}}}}
	if missing := s.look(want); missing != "" || len(s.blind) > 0 {
		t.Errorf("%s, %v", missing, s.blind)
	}
}
