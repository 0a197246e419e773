package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
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

// explain returns what was sent and what came back.
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

// WriteJSON writes a summary and results as one JSON object.
func WriteJSON(w io.Writer, sum Summary, results []Result) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Summary Summary  `json:"summary"`
		Results []Result `json:"results"`
	}{sum, results})
}
