package conformance

import (
	"fmt"
	"testing"
)

func TestParseCredits(t *testing.T) {
	got := ParseCredits("tracking_id | amount\n------+----\n a-1 | 2.50\n\na-2\t7\r\n\"a-3\",\"1E-7\"\na-1|2.50\na-4\n(4 rows)\n")
	want := []Credit{{"tracking_id", "amount"}, {TrackingID: "------+----"}, {"a-1", "2.50"}, {"a-2", "7"}, {"a-3", "1E-7"}, {"a-1", "2.50"}, {TrackingID: "a-4"}, {"(4", "rows)"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
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
