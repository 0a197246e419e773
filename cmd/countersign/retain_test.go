package main

import (
	"strings"
	"testing"
	"time"
)

func TestDays(t *testing.T) {
	for text, want := range map[days]time.Duration{"": 0, "0": 0, "0d": 0, "1d": 24 * time.Hour, "090d": 90 * 24 * time.Hour, "36500d": 36500 * 24 * time.Hour} {
		if got, _, err := (retainFlags{Retain: text}).keep(); err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []days{"90", "-1d", "+1d", "1.5d", "1h", "d", " 1d", "1d ", "1_0d", "0x1d", "36501d", "99999999999999999999d", "1d1d", "ninety", "\x00"} {
		if got, _, err := (retainFlags{Retain: text}).keep(); err == nil || !strings.HasPrefix(err.Error(), "--retain: ") {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

func TestRetainAudit(t *testing.T) {
	for _, c := range []struct {
		settled, bodies days
		want            string // of the error; empty: none
	}{
		{"0", "365d", ""}, {"90d", "90d", ""}, {"90d", "0", ""}, {"90d", "365d", ""},
		{"90d", "89d", "--retain-audit: 89d is shorter than --retain 90d"},
		{"90d", "1y", `--retain-audit: "1y" is neither 0`},
	} {
		settled, bodies, err := retainFlags{c.settled, c.bodies}.keep()
		if c.want == "" && (err != nil || bodies != 0 && bodies < settled) || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s and %s: %v", c.settled, c.bodies, err)
		}
	}
}
