package conformance

import (
	"fmt"
	"io"
	"time"
)

// Printer prints results for people, as they come.
type Printer struct {
	Out    io.Writer // required
	Colour bool      // by the escapes of a terminal
}

const (
	green  = "32"
	yellow = "33"
	red    = "1;31"
)

func (p Printer) paint(colour, text string) string {
	if !p.Colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Result prints how a case ended, with Result.Explain if it failed.
func (p Printer) Result(r Result) {
	line := func(colour, ending, more string) {
		fmt.Fprintf(p.Out, "%d  %-6s  %s  %s%s\n", r.Number, r.Severity, p.paint(colour, ending), r.Name, inBrackets(more))
	}
	switch {
	case r.Ending == Pass:
		line(green, "pass", r.Note)
		return
	case r.Ending == Skip:
		line(yellow, "skip", r.Problem)
		return
	case r.Advice():
		line(yellow, "advice", "")
	default:
		line(red, "FAIL", "")
	}
	fmt.Fprint(p.Out, r.Explain())
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return "  (" + s + ")"
}

// Summary prints the counts and how long the run took.
func (p Printer) Summary(sum Summary, took time.Duration) {
	colour := green
	if !sum.OK() {
		colour = red
	}
	fmt.Fprintf(p.Out, "%s in %.1f s\n", p.paint(colour, sum.String()), took.Seconds())
	for _, u := range sum.NotLookedAt {
		cases := "1 case"
		if u.Cases != 1 {
			cases = fmt.Sprintf("%d cases", u.Cases)
		}
		fmt.Fprintf(p.Out, "%s %s (%s): give %s\n", p.paint(yellow, "not looked at:"), u.What, cases, u.Give)
	}
}

// Case prints a case and what it needs.
func (p Printer) Case(k Case) {
	fmt.Fprintf(p.Out, "%d  %-6s  %-40s  %s\n     %s\n", k.Number, k.Severity, k.Name, k.Rule, k.About)
	for _, n := range k.Needs {
		fmt.Fprintf(p.Out, "     needs %s\n", n)
	}
}
