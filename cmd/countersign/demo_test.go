package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"countersign"
	"countersign/internal/admin"
)

// TestDemo runs the demo as it is, and once with a merchant that misbehaves.
func TestDemo(t *testing.T) {
	for _, args := range [][]string{{"--bits", "1024"}, {"--bits", "1024", "--faults", "--fault-time", "4s"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			status, out, errOut := shell(t, "", append([]string{"demo", "--data", data}, args...)...)
			if status != exitDone {
				t.Fatalf("status %d\n%s%s", status, out, errOut)
			}
			for _, want := range []string{
				`deposits sent\s+232 `, `deposits taken\s+231 `, `possible duplicates held\s+1 `,
				`withdrawal ordered\s+confirmed `, `never ordered\s+declined `, `with other details\s+declined `,
				`approved\s+confirmed `, `declined\s+declined `, `forgotten\s+expired `, `callbacks/s\s+[0-9]`, `p99`,
				`one permit for each confirmed withdrawal, none for the others\s+holds`,
			} {
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if got := strings.Count(out, "  holds"); got != 9 || strings.Contains(out, "BROKEN") {
				t.Errorf("%d checks hold, want 9:\n%s", got, out)
			}
			log, err := os.ReadFile(filepath.Join(data, "log"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"service", "merchant"} {
				if !bytes.Contains(log, []byte("end="+name)) {
					t.Errorf("the log has nothing of the %s", name)
				}
				token, err := os.ReadFile(filepath.Join(data, name, tokenFile))
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(log, bytes.TrimSpace(token)) {
					t.Errorf("the log has the token of the %s", name)
				}
			}
			if bytes.Contains(log, []byte("demo-")) && regexp.MustCompile(`demo-[A-Z2-7]{26}`).Match(log) {
				t.Error("the log has the API key")
			}
			// The same directory again is refused rather than mixed up.
			if status, _, errOut := shell(t, "", "demo", "--data", data); status != exitFailed || !strings.Contains(errOut, "is not empty") {
				t.Errorf("again: status %d, %s", status, errOut)
			}
		})
	}
}

// TestDemoChecksCanFail: a database that lacks, doubles or changes a deposit
// does not pass.
func TestDemoChecksCanFail(t *testing.T) {
	d := &demo{demoCmd: demoCmd{Repeat: 1}, sent: map[string]countersign.Amount{}, sums: map[string]countersign.Amount{}}
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
	fill := func(change func(i int, n admin.NewDeposit) []admin.NewDeposit) *tally {
		tl := newTally()
		for i, n := range list {
			for _, n := range change(i, n) {
				if err := tl.add(&countersign.Deposit{Head: countersign.Head{TrackingID: n.TrackingID}, Symbol: n.Symbol, Amount: n.Amount}); err != nil {
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
		change       func(int, admin.NewDeposit) []admin.NewDeposit
	}{
		{"all", true, true, func(_ int, n admin.NewDeposit) []admin.NewDeposit { return []admin.NewDeposit{n} }},
		{"one lost", false, false, func(i int, n admin.NewDeposit) []admin.NewDeposit {
			if i == 7 {
				return nil
			}
			return []admin.NewDeposit{n}
		}},
		{"one twice", false, false, func(i int, n admin.NewDeposit) []admin.NewDeposit {
			if i == 7 {
				return []admin.NewDeposit{n, n}
			}
			return []admin.NewDeposit{n}
		}},
		{"one renamed", false, true, func(i int, n admin.NewDeposit) []admin.NewDeposit {
			if i == 7 {
				n.TrackingID = "other"
			}
			return []admin.NewDeposit{n}
		}},
		{"one larger by the last digit", true, false, func(i int, n admin.NewDeposit) []admin.NewDeposit {
			if i == 7 {
				if n.Amount, err = n.Amount.Add(smallest); err != nil {
					t.Fatal(err)
				}
			}
			return []admin.NewDeposit{n}
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
