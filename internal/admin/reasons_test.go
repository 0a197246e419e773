package admin

import (
	"testing"

	"countersign/client"
)

// TestReasonTexts: a person is told what each reason means, and no text is of a reason
// that is gone.
func TestReasonTexts(t *testing.T) {
	reasons := client.Reason("").Values()
	for _, r := range reasons {
		if reasonTexts[r] == "" {
			t.Errorf("nothing says what %s means", r)
		}
	}
	if len(reasonTexts) != len(reasons) {
		t.Errorf("%d texts for %d reasons", len(reasonTexts), len(reasons))
	}
}
