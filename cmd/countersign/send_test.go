package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"countersign"
	"countersign/conformance"
	"countersign/countersigntest"
)

// TestSendPage: the page lists every fault with its text, and no other.
func TestSendPage(t *testing.T) {
	b, err := os.ReadFile("../../docs/send.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{} // some are in both lists
	for _, f := range conformance.CallerFaults() {
		want[fmt.Sprintf("| `%s` | %s |", f, f.About())]++
	}
	for _, f := range countersigntest.MerchantFaults {
		want[fmt.Sprintf("| `%s` | %s |", f, f.About())]++
	}
	_, faults, _ := strings.Cut(string(b), "## Faults")
	for line := range strings.Lines(faults) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| `") && !strings.HasSuffix(line, "--fault` | is |") {
			want[line]--
		}
	}
	for line, lacks := range want {
		if lacks != 0 {
			t.Errorf("the page lacks %d of %s", lacks, line)
		}
	}
}

// TestSentTypes: every type of callback can be sent by a word.
func TestSentTypes(t *testing.T) {
	words := map[countersign.Type]string{countersign.TypeNotEnoughHotMoney: "waiting --for fees"}
	for word, typ := range sentTypes {
		words[typ] = word
	}
	for _, typ := range countersign.TypeUnknown.Values() {
		if words[typ] == "" {
			t.Errorf("no word sends type %d", typ)
		}
	}
}
