package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestOnTerminal: nothing that others wrote steers a terminal, turns its text round or is not seen.
func TestOnTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "Zürich 東京 120.5": "Zürich 東京 120.5", `a\b`: `a\b`,
		"a\tb\nc":                               `a\u0009b\u000ac`,
		"\x1b[2Jx\u009b1m\x7f":                  `\u001b[2Jx\u009b1m\u007f`,
		"\u202etxt.exe\u2066":                   `\u202etxt.exe\u2066`,
		"U\u200bS\u200d\u00ad\ufeff\u2060":      `U\u200bS\u200d\u00ad\ufeff\u2060`,
		"a\u00a0b\u2009c\u3164\ufe0f\U000e0041": `a\u00a0b\u2009c\u3164\ufe0f\udb40\udc41`,
		"\xff\u2028":                            `\xff\u2028`,
	} {
		got := onTerminal(text)
		if got != want || onTerminal(got) != got {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
	raw := "{\n\t\"a\": \"\u202e\u009b\x7f\U000e0041 ü\"\n}"
	got := jsonOnTerminal([]byte(raw))
	var before, after any
	if json.Unmarshal([]byte(raw), &before) != nil || json.Unmarshal(got, &after) != nil || !reflect.DeepEqual(before, after) || strings.ContainsAny(string(got), "\u202e\u009b\x7f") {
		t.Errorf("%q becomes %q", raw, got)
	}
}
