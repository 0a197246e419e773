package conformance

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
)

// Explain describes a failed case in indented lines: the rule, what is wrong, the last
// exchange, and what to fix.
func (r Result) Explain() string {
	var b strings.Builder
	line := lines(&b, "       ")
	line("rule", "PROTOCOL.md, "+r.Rule+": "+r.About)
	line("wrong", r.Problem)
	if n := len(r.Exchanges); n > 0 {
		r.Exchanges[n-1].explain(line)
	}
	line("to fix", r.Fix)
	return b.String()
}

// lines returns a function that writes a line of an explanation, if there is a text.
func lines(b *strings.Builder, indent string) func(what, text string) {
	return func(what, text string) {
		if text != "" {
			fmt.Fprintf(b, "%s%-9s  %s\n", indent, what, strings.ReplaceAll(text, "\n", "\n"+indent+"           "))
		}
	}
}

// explain writes what was sent and what came back.
func (e Exchange) explain(line func(what, text string)) {
	size := fmt.Sprintf("%d bytes", e.Bytes)
	if e.Bytes < 0 {
		size = "a body without end"
	}
	line("sent", fmt.Sprintf("%s %s to the %s: %s", e.Method, size, e.To, e.What))
	line("plaintext", e.Plaintext)
	if e.Error != "" {
		line("came back", "nothing: "+e.Error)
	} else {
		line("came back", strings.TrimSpace(fmt.Sprintf("status %d %s", e.Status, e.Response)))
	}
	line("answer", e.Answer)
}

// Printer prints results for people, as they come, to Out.
type Printer struct{ Out io.Writer }

// Result prints how a case ended, with Result.Explain if it failed.
func (p Printer) Result(r Result) {
	ending, more := "FAIL", ""
	switch {
	case r.Ending == Pass:
		ending, more = "pass", strings.Join(r.Notes, "; ")
	case r.Ending == Skip:
		ending, more = "skip", r.Problem
	case r.Advice():
		ending = "advice"
	}
	if more != "" {
		more = "  (" + more + ")"
	}
	fmt.Fprintf(p.Out, "%d  %-6s  %s  %s%s\n", r.Number, r.Severity, ending, r.Name, more)
	if r.Ending == Fail {
		fmt.Fprint(p.Out, r.Explain())
	}
}

// Summary prints the counts, how long the run took, and what became of the cases that only the protocol demands and on
// which money depends.
func (p Printer) Summary(sum Summary, took time.Duration) {
	fmt.Fprintf(p.Out, "%s in %.1f s\n", sum, took.Seconds())
	if passed, failed, skipped := sum.Money[Pass], sum.Money[Fail], sum.Money[Skip]; len(sum.Money) > 0 {
		fmt.Fprintf(p.Out, "advice on which money depends: %d of %d followed; not: %s; skipped: %s\n", len(passed),
			len(passed)+len(failed)+len(skipped), cmp.Or(strings.Join(failed, ", "), "none"),
			cmp.Or(strings.Join(skipped, ", "), "none"))
	}
}

// Case prints a case and what it needs.
func (p Printer) Case(k Case) {
	fmt.Fprintf(p.Out, "%d  %-6s  %-9s  %-30s  %s\n     %s\n", k.Number, k.Severity, k.Basis, k.Name, k.Rule, k.About)
	for _, n := range k.Needs {
		fmt.Fprintf(p.Out, "     needs %s\n", n)
	}
}
