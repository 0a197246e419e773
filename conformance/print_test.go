package conformance

import (
	"bytes"
	"testing"
	"time"
)

func TestPrinterPaints(t *testing.T) {
	var out bytes.Buffer
	p := Printer{Out: &out, Colour: true}
	p.Result(Result{Case: Case{Number: 7, Severity: Must, Name: "a/b"}, Ending: Pass, Note: "well"})
	p.Summary(Summary{Passed: 1}, 1500*time.Millisecond)
	if got, want := out.String(), "7  must    \x1b[32mpass\x1b[0m  a/b  (well)\n\x1b[32m1 passed, 0 failed, 0 skipped\x1b[0m in 1.5 s\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
