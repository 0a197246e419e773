package main

import (
	"strings"
	"testing"
	"time"
)

func TestDays(t *testing.T) {
	for text, want := range map[days]time.Duration{"": 0, "0": 0, "0d": 0, "1d": 24 * time.Hour, "090d": 90 * 24 * time.Hour, "36500d": 36500 * 24 * time.Hour} {
		if got, err := (retainFlags{Retain: text}).keep(); err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []days{"90", "-1d", "+1d", "1.5d", "1h", "d", " 1d", "1d ", "1_0d", "0x1d", "36501d", "99999999999999999999d", "1d1d", "ninety", "\x00"} {
		if got, err := (retainFlags{Retain: text}).keep(); err == nil || !strings.HasPrefix(err.Error(), "--retain: ") {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}
