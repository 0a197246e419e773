package main

import (
	"testing"

	"countersign"
)

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
