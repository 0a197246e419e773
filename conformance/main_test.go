package conformance_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets eight tests run at once unless -parallel says otherwise: most of them
// wait for an endpoint that waits for the rest of a request.
func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
