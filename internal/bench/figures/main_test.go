package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"countersign/internal/bench"
)

func TestPutReplacesItsRowAlone(t *testing.T) {
	page := "before\n" + begin + "| what | result |\n|---|---|\n| one, 1024 bit | 1/s |\n| two | 2/s |\n" + end + "after\n"
	got, err := put([]byte(page), "| one, 1024 bit | 9/s |\n")
	if want := strings.Replace(page, "| 1/s |", "| 9/s |", 1); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	got, err = put([]byte(page), "| three | 3/s |\n")
	if want := strings.Replace(page, end, "| three | 3/s |\n"+end, 1); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := put([]byte("no table\n"), "| three |\n"); err == nil {
		t.Error("a page without the marks was written")
	}
}

func TestResults(t *testing.T) {
	r := &bench.Report{Figures: []bench.Figure{
		{Key: "system.deposits_api_to_settled", Value: 2004.6, Ratio: 0.814, RatioLow: 0.76, RatioHigh: 0.85, Against: "x", Bound: 1},
		{Key: "system.processor_both_ends_and_the_load", Value: 0.931},
		{Key: "system.of_that_in_rsa", Value: 80.6},
	}}
	if got, want := rate(r), "2,005/s, 81 % (76–85) of the RSA bound; 0.931 ms of processor each, 81 % of it RSA"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	r.Figures = []bench.Figure{
		{Key: "latency.x_p50", Name: "x, p50", Unit: "ms", Value: 3.35}, {Key: "latency.x_p90", Name: "x, p90", Unit: "ms", Value: 4},
		{Key: "latency.x_p99", Name: "x, p99", Unit: "ms", Value: 12345},
	}
	if got, want := list(`_(p50|p99)$`, "x, ")(r), "p50 3.35 ms, p99 12,345 ms"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The page has the marks, and every part is a suite of bench.
func TestPartsAndPage(t *testing.T) {
	page, err := os.ReadFile("../../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := put(page, "| x |\n"); err != nil {
		t.Error(err)
	}
	for _, p := range parts {
		if !slices.Contains(bench.SuiteNames(), p.suite) {
			t.Errorf("part %s: there is no suite %s", p.name, p.suite)
		}
	}
}
