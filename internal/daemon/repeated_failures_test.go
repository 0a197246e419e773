package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestSeldom: an outage writes a few lines and then one a minute that counts the others;
// other failures, and lines that tell of none, are written meanwhile.
func TestSeldom(t *testing.T) {
	var out bytes.Buffer
	h := Seldom(slog.NewTextHandler(&out, nil))
	began := time.Unix(1_700_000_000, 0)
	line := func(h slog.Handler, after time.Duration, text string, attrs ...slog.Attr) int {
		before := out.Len()
		r := slog.NewRecord(began.Add(after), slog.LevelInfo, text, 0)
		r.AddAttrs(attrs...)
		ok(t, h.Handle(context.Background(), r))
		return min(1, out.Len()-before)
	}
	retry := func(merchant string) []slog.Attr {
		return []slog.Attr{slog.String("merchant", merchant), slog.String("callback", merchant+".1"), slog.String("result", "retry"), slog.String("reason", "timeout")}
	}
	n := 0
	for i := range 3000 { // five minutes
		n += line(h, time.Duration(i)*100*time.Millisecond, "attempt", retry("a")...)
	}
	if n != seldomFirst+4 || strings.Count(out.String(), "notLogged=599") != 4 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	at := 300 * time.Second
	with := h.WithAttrs([]slog.Attr{slog.String("node", "n1")}).WithGroup("g")
	for i, want := range []int{
		line(h, at, "attempt", retry("b")...),
		line(h, at, "claiming failed", slog.String("error", "no")),
		line(with, at, "attempt", retry("c")...),
		line(h, at, "attempt", append(retry("a"), slog.String("part", "decisions"))...),
	} {
		if want != 1 {
			t.Errorf("another failure was not written: %d", i)
		}
	}
	n = 0
	for i := range 100 {
		n += line(h, at, "request", slog.Int("status", 200), slog.Int("n", i))
		n += line(h, at, "attempt", slog.String("result", "accepted"))
	}
	if n != 200 {
		t.Errorf("%d of 200 lines without a failure", n)
	}
	// After a silent minute it begins anew.
	for range 2 * seldomFirst {
		n += line(h, at+2*time.Minute, "attempt", retry("a")...)
	}
	if n != 200+seldomFirst {
		t.Errorf("%d lines after a pause", n-200)
	}
	for i := range 3 * seldomMost { // as many merchants as there may be
		line(h, at, "attempt", retry(fmt.Sprint(i))...)
	}
	if got := len(h.(*seldom).state.failures); got > seldomMost {
		t.Errorf("%d failures are remembered", got)
	}
}
