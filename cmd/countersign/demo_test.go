package main

import (
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/lab/dbtest"
)

// TestDemo runs the demo from the command line; package demo tests what it does.
func TestDemo(t *testing.T) {
	dbtest.NotRaced(t, "package demo runs the demo under the detector")
	dbtest.Whole(t, "package demo tests what the demo does")
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	status, out, errOut := shell(t, "", "demo", "--bits", "1024", "--data", data)
	if status != exitDone || strings.Count(out, "  holds") != 6 || errOut != "" {
		t.Fatalf("status %d\n%s%s", status, out, errOut)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--data", data}, "is not empty\n  try: "},
	} {
		if status, _, errOut := shell(t, "", append([]string{"demo"}, tt.args...)...); status != exitFailed || !strings.Contains(errOut, tt.want) {
			t.Errorf("demo %v: status %d, %s", tt.args, status, errOut)
		}
	}
}
