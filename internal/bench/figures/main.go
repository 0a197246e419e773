// Command figures measures and writes the table of FIGURES.md: "make figures".
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"countersign/internal/bench"
)

const file = "FIGURES.md"

// main runs the parts that were asked for and puts each row into the table as soon as
// it is measured, so that an end halfway keeps what there is. The rows of what did not
// run stay as they are.
func main() {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	only := flag.String("only", "rates,latency,prices,ceiling,gateway", "parts to run, of "+strings.Join(names, ",")+", or all")
	url := flag.String("db", "", "URL of a PostgreSQL database that is empty or from an earlier bench; without it what needs one is left out")
	builds := flag.String("builds", "pure,fast", "programs to measure: pure is ./countersign, fast ./countersign-fast")
	quick := flag.Bool("quick", false, "small sizes, and the table goes to the standard output: shows that everything works")
	flag.Parse()
	if err := run(split(*only), split(*builds), *url, *quick); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func split(list string) []string { return strings.Split(list, ",") }

func run(only, builds []string, url string, quick bool) error {
	for _, name := range only {
		if name != "all" && !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("there is no part %q", name)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range parts {
		if !slices.Contains(only, p.name) && !slices.Contains(only, "all") {
			continue
		}
		for _, c := range p.commands {
			if c.postgres && url == "" || !slices.Contains(builds, c.build()) {
				continue
			}
			began := time.Now()
			fmt.Fprintf(os.Stderr, "%s … ", c.shown(p.suite))
			report, err := measure(p.suite, c, url, quick)
			if err == nil {
				page, err = put(page, rowOf(p, c, report))
			}
			if err == nil && !quick {
				err = os.WriteFile(file, page, 0o644)
			}
			fmt.Fprintln(os.Stderr, time.Since(began).Round(time.Second))
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", c.shown(p.suite), err))
			}
		}
	}
	if quick {
		_, _ = os.Stdout.Write(page)
	}
	return errors.Join(failed...)
}

// measure runs one command and gives its report.
func measure(suite string, c command, url string, quick bool) (*bench.Report, error) {
	args := c.args(suite)
	if c.postgres {
		args = append(args, "--db", url)
	}
	if quick {
		args = append(args, "--quick")
	}
	cmd := exec.Command("./"+c.program(), append(args, "--json")...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	var r bench.Report
	return &r, json.Unmarshal(out.Bytes(), &r)
}
