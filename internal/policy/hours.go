package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// hours is a named set of hours of the week.
type hours struct {
	zone  *time.Location
	spans []span
}

// span is a time of day on some days of the week. If to is not after from, it passes midnight and belongs to the day it
// begins on.
type span struct {
	days     [7]bool // by time.Weekday
	from, to int     // minutes since midnight; to may be 24:00
}

// at reports whether t is in h, by the local clock of the zone. On days when the clocks change, a span is shorter or
// longer.
func (h hours) at(t time.Time) bool {
	t = t.In(h.zone)
	minute, today := t.Hour()*60+t.Minute(), t.Weekday()
	yesterday := (today + 6) % 7
	for _, s := range h.spans {
		switch {
		case s.from < s.to:
			if s.days[today] && minute >= s.from && minute < s.to {
				return true
			}
		case s.days[today] && minute >= s.from, s.days[yesterday] && minute < s.to:
			return true
		}
	}
	return false
}

var errHours = errors.New(`is not written like "mon-fri 09:00-17:30"`)

// parseSpan reads days, a space, and a time of day from-to: "mon-fri 09:00-17:30", "sat,sun 10:00-24:00", "fri
// 22:00-06:00".
func parseSpan(s string) (span, error) {
	days, times, ok := strings.Cut(s, " ")
	if !ok {
		return span{}, errHours
	}
	var out span
	for part := range strings.SplitSeq(days, ",") {
		first, last, ranged := strings.Cut(part, "-")
		from := slices.Index(weekdays, first)
		to := from
		if ranged {
			to = slices.Index(weekdays, last)
		}
		if from < 0 || to < 0 {
			return span{}, fmt.Errorf("%w: the days are mon tue wed thu fri sat sun", errHours)
		}
		for d := from; ; d = (d + 1) % 7 {
			out.days[d] = true
			if d == to {
				break
			}
		}
	}
	from, to, _ := strings.Cut(times, "-")
	var ok1, ok2 bool
	out.from, ok1 = parseMinute(from)
	out.to, ok2 = parseMinute(to)
	switch {
	case !ok1 || !ok2 || out.from == 24*60:
		return span{}, fmt.Errorf("%w: the times are 00:00 to 24:00", errHours)
	case out.from == out.to:
		return span{}, fmt.Errorf("%w: it begins when it ends", errHours)
	}
	return out, nil
}

// weekdays are in the order of time.Weekday.
var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// parseMinute reads HH:MM. time.Parse would also take H:MM, and refuse 24:00.
func parseMinute(s string) (int, bool) {
	if s == "24:00" {
		return 24 * 60, true
	}
	t, err := time.Parse("15:04", s)
	return t.Hour()*60 + t.Minute(), err == nil && len(s) == len("15:04")
}
