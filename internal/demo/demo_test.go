package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"countersign"
	"countersign/client"
	"countersign/internal/daemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDemo runs the demo as it is.
func TestDemo(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	var printed bytes.Buffer
	run := func() error {
		return New(Config{Dir: data, Bits: 1024, Out: &printed}).Run(t.Context())
	}
	if err := run(); err != nil {
		t.Fatalf("%v\n%s", err, &printed)
	}
	out := printed.String()
	for _, want := range []string{
		`deposits sent\s+232 `, `deposits taken\s+231 `, `possible duplicates held\s+1 `,
		`withdrawal ordered\s+confirmed `, `never ordered\s+declined `, `with other details\s+declined `,
		`approved\s+confirmed `, `declined\s+declined `, `forgotten\s+expired `, `callbacks/s\s+[0-9]`, `p99`,
		`one permit for each confirmed withdrawal, none for the others\s+holds`,
		`withdrawal that fails\s+confirmed `, `callbacks of type 1\s+232 +232 accepted`, `callbacks of type 2\s+8 `,
		`callbacks of type 3\s+3 +3 accepted`, `callbacks of type 4\s+1 +1 accepted`, `callbacks of type 5\s+5 +5 accepted`,
		`callbacks of type 6\s+1 +1 accepted`, `callbacks of type 7\s+1 +1 accepted`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if got := strings.Count(out, "  holds"); got != 11 || strings.Contains(out, "BROKEN") {
		t.Errorf("%d checks hold, want 11:\n%s", got, out)
	}
	log, err := os.ReadFile(filepath.Join(data, "log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"service", "merchant"} {
		if !bytes.Contains(log, []byte("end="+end)) {
			t.Errorf("the log has nothing of the %s", end)
		}
		token, err := os.ReadFile(filepath.Join(data, end, daemon.TokenFile))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(log, bytes.TrimSpace(token)) {
			t.Errorf("the log has the token of the %s", end)
		}
	}
	if regexp.MustCompile(`demo-[A-Z2-7]{26}`).Match(log) {
		t.Error("the log has the API key")
	}
	// The same directory again is refused rather than mixed up.
	if err := run(); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("again: %v", err)
	}
}

// TestInterrupted: a demo that is ended before its checks does not pass.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := New(Config{Bits: 1024, Progress: func(string) { cancel() }})
	if err := d.Run(ctx); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("ended while it delivers: %v", err)
	}
}

// TestChecksCanFail: a database that lacks, doubles or changes a deposit
// does not pass.
func TestChecksCanFail(t *testing.T) {
	d := New(Config{})
	list, err := d.readDeposits()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 231 {
		t.Fatalf("%d deposits", len(list))
	}
	for _, n := range list {
		d.sent[n.TrackingID] = n.Amount
		if d.sums[n.Symbol], err = d.sums[n.Symbol].Add(n.Amount); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(change func(i int, n client.NewDeposit) []client.NewDeposit) *tally {
		tl := newTally()
		for i, n := range list {
			for _, n := range change(i, n) {
				if err := tl.add(n.TrackingID, n.Symbol, n.Amount); err != nil {
					t.Fatal(err)
				}
			}
		}
		return tl
	}
	smallest, err := countersign.ParseAmount("0.000000000000000001")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name         string
		there, equal bool
		change       func(int, client.NewDeposit) []client.NewDeposit
	}{
		{"all", true, true, func(_ int, n client.NewDeposit) []client.NewDeposit { return []client.NewDeposit{n} }},
		{"one lost", false, false, func(i int, n client.NewDeposit) []client.NewDeposit {
			if i == 7 {
				return nil
			}
			return []client.NewDeposit{n}
		}},
		{"one twice", false, false, func(i int, n client.NewDeposit) []client.NewDeposit {
			if i == 7 {
				return []client.NewDeposit{n, n}
			}
			return []client.NewDeposit{n}
		}},
		{"one renamed", false, true, func(i int, n client.NewDeposit) []client.NewDeposit {
			if i == 7 {
				n.TrackingID = "other"
			}
			return []client.NewDeposit{n}
		}},
		{"one larger by the last digit", true, false, func(i int, n client.NewDeposit) []client.NewDeposit {
			if i == 7 {
				if n.Amount, err = n.Amount.Add(smallest); err != nil {
					t.Fatal(err)
				}
			}
			return []client.NewDeposit{n}
		}},
	} {
		tl := fill(tt.change)
		there, note := tl.against(d)
		equal, sums := tl.sumsAgainst(d)
		if there != tt.there || equal != tt.equal {
			t.Errorf("%s: there %v (%s), sums equal %v (%s)", tt.name, there, note, equal, sums)
		}
	}
}
