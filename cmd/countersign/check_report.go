package main

import (
	"fmt"
	"io"
	"os"
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
		return printJSON(std.out, list, "  ")
	}
	for _, k := range list {
		fmt.Fprintf(std.out, "%d  %-40s  %s\n     %s\n", k.Number, k.Name, k.Rule, k.About)
		for _, n := range k.Needs {
			fmt.Fprintf(std.out, "     needs %s\n", n)
		}
	}
	return nil
}

// paints says whether w is a terminal that wants colour (no-color.org).
func paints(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
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
		fmt.Fprint(out, res.Explain())
	}
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return "  (" + s + ")"
}

func (r *checkReport) end(sum conformance.Summary, took time.Duration) {
	if r.quiet {
		_ = printJSON(r.std.out, struct {
			Summary conformance.Summary  `json:"summary"`
			Results []conformance.Result `json:"results"`
		}{sum, r.results}, "  ")
		return
	}
	colour := green
	if !sum.OK() {
		colour = red
	}
	fmt.Fprintf(r.std.out, "%s in %.1f s\n", r.paint(colour, sum.String()), took.Seconds())
}
