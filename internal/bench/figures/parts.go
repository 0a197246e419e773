package main

import (
	"fmt"
	"regexp"
	"strings"

	"countersign/internal/bench"
)

// part is one suite of bench in several conditions, each a row of the table.
type part struct {
	name     string
	suite    string
	what     string // begins the row
	result   func(*bench.Report) string
	commands []command
}

// command is a suite in one condition.
type command struct {
	bits           int
	fast, postgres bool
}

func (c command) build() string {
	if c.fast {
		return "fast"
	}
	return "pure"
}

func (c command) program() string {
	if c.fast {
		return "countersign-fast"
	}
	return "countersign"
}

func (c command) args(suite string) []string {
	return []string{"bench", "--only", suite, "--bits", fmt.Sprint(c.bits)}
}

// shown is the command as the table has it.
func (c command) shown(suite string) string {
	text := c.program() + " " + strings.Join(c.args(suite), " ")
	if c.postgres {
		text += " --db URL"
	}
	return text
}

// conditions end the first cell of a row.
func (c command) conditions() string {
	text := fmt.Sprintf("%d bit", c.bits)
	if c.fast {
		text += ", fast"
	}
	if c.postgres {
		text += ", PostgreSQL"
	}
	return text
}

// everywhere is every size, build and database.
var everywhere = []command{
	{1024, false, false}, {2048, false, false}, {1024, true, false}, {2048, true, false},
	{1024, false, true}, {2048, false, true}, {1024, true, true}, {2048, true, true},
}

var (
	plain  = []command{{1024, false, false}}
	twoDBs = []command{{1024, false, false}, {1024, false, true}}
)

var parts = []part{
	{"rates", "system", "deposits, API to settled", rate, everywhere},
	{"latency", "latency", "due to settled at 50/s", list(`_(p50|p99)$`, "deposits at 50.0/s, due to settled, "), everywhere[:4]},
	{"prices", "prices", "µs of processor a callback", list(`prices\.(all|(service|merchant|load|go_s_runtime)_[a-z]*|postgresql.*)$`, ""), append(everywhere[2:4:4], everywhere[6:]...)},
	{"ceiling", "ceiling", "the database alone, without RSA and HTTP, and the limit it sets", list(`.`, ""), everywhere},
	{"gateway", "gateway", "deposits taken by a gateway on one core", list(`.`, "deposits taken by a gateway on one core "), everywhere[:2]},
	{"merchants", "merchants", "the same with many merchants", list(`.`, ""), plain},
	{"faults", "faults", "p99 beside slow and hanging merchants", list(`_p99$`, ", p99"), twoDBs},
	{"backlog", "backlog", "withdrawals beside waiting deposits", list(`_(p50|p99)$`, ""), plain},
	{"claims", "claims", "a claim of 64", list(`_p99$`, ""), twoDBs},
	{"rows", "rows", "claim and settle beside settled callbacks", list(`.`, ""), plain},
	{"memory", "memory", "memory", list(`.`, ""), plain},
}

// rate is the result of the suite system.
func rate(r *bench.Report) string {
	f, _ := r.Find("system.deposits_api_to_settled")
	text := fmt.Sprintf("%s/s, %.0f %% (%.0f–%.0f) of the RSA bound", number(f.Value), 100*f.Ratio, 100*f.RatioLow, 100*f.RatioHigh)
	cpu, ok := r.Find("system.processor_both_ends_and_the_load")
	if rsa, also := r.Find("system.of_that_in_rsa"); ok && also {
		text += fmt.Sprintf("; %s ms of processor each, %.0f %% of it RSA", number(cpu.Value), rsa.Value)
	}
	return text
}

// list gives the figures whose keys match pattern, by their names without what the row
// says already.
func list(pattern, without string) func(*bench.Report) string {
	keys := regexp.MustCompile(pattern)
	return func(r *bench.Report) string {
		var texts []string
		for _, f := range r.Figures {
			if !keys.MatchString(f.Key) {
				continue
			}
			unit := strings.TrimSuffix(strings.TrimSuffix(f.Unit, " a callback"), " a deposit")
			if unit = " " + unit; strings.Contains(unit, "/s") {
				unit = "/s"
			}
			text := strings.Replace(f.Name+" "+number(f.Value), without, "", 1) + unit
			if f.Against != "" {
				text += fmt.Sprintf(" (%.0f %% of %s %s)", 100*f.Ratio, number(f.Bound), f.Against)
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, ", ")
	}
}
