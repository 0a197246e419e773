package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"countersign/conformance"
)

// listCases prints the chosen cases and what each needs.
func listCases(std streams, chosen func(conformance.Case) bool, asJSON bool) error {
	list := []conformance.Case{}
	for _, k := range conformance.Cases() {
		if chosen(k) {
			list = append(list, k)
		}
	}
	if asJSON {
		return writeJSON(std.out, list)
	}
	for _, k := range list {
		fmt.Fprintf(std.out, "%d  %-40s  %s\n     %s\n", k.Number, k.Name, k.Rule, k.About)
		for _, n := range k.Needs {
			fmt.Fprintf(std.out, "     needs %s\n", n)
		}
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// paints says whether w is a terminal that wants colour (no-color.org).
func paints(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// checkReport prints results as they come.
type checkReport struct {
	std     streams
	painted bool
	quiet   bool // prints one JSON object at the end and nothing before
	results []conformance.Result
}

const (
	green  = "32"
	yellow = "33"
	red    = "1;31"
)

func (r *checkReport) paint(colour, text string) string {
	if !r.painted {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (r *checkReport) add(res conformance.Result) {
	r.results = append(r.results, res)
	if r.quiet {
		return
	}
	out := r.std.out
	switch res.Ending {
	case conformance.Pass:
		fmt.Fprintf(out, "%d  %s  %s%s\n", res.Number, r.paint(green, "pass"), res.Name, inBrackets(res.Note))
	case conformance.Skip:
		fmt.Fprintf(out, "%d  %s  %s%s\n", res.Number, r.paint(yellow, "skip"), res.Name, inBrackets(res.Problem))
	default:
		fmt.Fprintf(out, "%d  %s  %s\n", res.Number, r.paint(red, "FAIL"), res.Name)
		fmt.Fprint(out, explainFailure(res))
	}
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return "  (" + s + ")"
}

// explainFailure is the lines under a failed case: the rule, what is wrong, the
// last exchange, what to fix.
func explainFailure(res conformance.Result) string {
	var b strings.Builder
	line := func(what, text string) {
		if text != "" {
			fmt.Fprintf(&b, "       %-9s  %s\n", what, strings.ReplaceAll(text, "\n", "\n                  "))
		}
	}
	line("rule", "PROTOCOL.md, "+res.Rule+": "+res.About)
	line("wrong", res.Problem)
	if n := len(res.Exchanges); n > 0 {
		e := res.Exchanges[n-1]
		size := fmt.Sprintf("%d bytes", e.Bytes)
		if e.Bytes < 0 {
			size = "a body without end"
		}
		line("sent", fmt.Sprintf("%s %s to the %s: %s", e.Method, size, e.To, e.What))
		line("plaintext", e.Plaintext)
		if e.Error != "" {
			line("came back", "nothing: "+e.Error)
		} else {
			line("came back", fmt.Sprintf("status %d %s", e.Status, e.Response))
		}
		line("answer", e.Answer)
	}
	line("to fix", res.Fix)
	return b.String()
}

func (r *checkReport) end(sum conformance.Summary, took time.Duration) {
	if r.quiet {
		_ = writeJSON(r.std.out, struct {
			Summary conformance.Summary  `json:"summary"`
			Results []conformance.Result `json:"results"`
		}{sum, r.results})
		return
	}
	colour := green
	if !sum.OK() {
		colour = red
	}
	fmt.Fprintf(r.std.out, "%s in %.1f s\n", r.paint(colour, sum.String()), took.Seconds())
}

// The JUnit format, as far as its readers agree on it.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Skipped *junitText `xml:"skipped,omitempty"`
	Output  string     `xml:"system-out,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit writes the results to a file for a continuous integration's eyes.
func writeJUnit(path string, results []conformance.Result) error {
	suite := junitSuite{Name: "countersign check"}
	for _, r := range results {
		group, _, _ := strings.Cut(r.Name, "/")
		c := junitCase{Class: "countersign." + group, Name: fmt.Sprintf("%d %s", r.Number, r.Name), Output: r.Note}
		suite.Tests++
		switch r.Ending {
		case conformance.Fail:
			suite.Failures++
			c.Failure = &junitText{Message: r.Problem, Text: explainFailure(r)}
		case conformance.Skip:
			suite.Skipped++
			c.Skipped = &junitText{Message: r.Problem}
		}
		suite.Cases = append(suite.Cases, c)
	}
	data, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte(xml.Header), append(data, '\n')...), 0o644)
}
