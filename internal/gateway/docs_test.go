package gateway

import (
	"os"
	"strings"
	"testing"

	"countersign/client"
)

// TestForwardingPage: docs/forwarding.md names every type of message.
func TestForwardingPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/forwarding.md")
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, v := range client.DepositMessage("").Values() {
		types = append(types, string(v))
	}
	for _, v := range client.EventKind("").Values() {
		types = append(types, string(v))
	}
	for _, v := range types {
		if !strings.Contains(string(page), "`"+v+"`") {
			t.Errorf("%s is not on the page", v)
		}
	}
}
