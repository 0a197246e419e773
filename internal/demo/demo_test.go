package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"countersign/internal/daemon"
	"countersign/internal/reconcile"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDemo runs the demo, which stays until its page was tried.
func TestDemo(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	printed, prints := io.Pipe()
	defer printed.Close()
	d := New(Config{Dir: data, Bits: 1024, Stay: true, Out: prints})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = prints.CloseWithError(d.Run(ctx)) }()
	out, page := "", []string(nil)
	for lines := bufio.NewReader(printed); ; {
		line, err := lines.ReadString('\n')
		if out += line; err == io.EOF && page != nil {
			break
		} else if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if page == nil {
			if page = regexp.MustCompile(`Try it[^\n]*\n\s+(http://\S+)\n`).FindStringSubmatch(out); page != nil {
				useTryPage(t, d, page[1])
				cancel()
			}
		}
	}
	for _, want := range []string{
		`deposits sent\s+232 `, `deposits taken\s+231 `, `possible duplicates held\s+1 `,
		`withdrawal ordered\s+confirmed `, `never ordered\s+declined `, `with other details\s+declined `,
		`approved\s+confirmed `, `declined\s+declined `, `forgotten\s+expired `,
		`one permit for each confirmed withdrawal, none for the others\s+holds`,
		`withdrawal that fails\s+confirmed `, `callbacks of type 1\s+232 +232 accepted`, `callbacks of type 2\s+8 `,
		`callbacks of type 3\s+3 +3 accepted`, `callbacks of type 4\s+1 +1 accepted`, `callbacks of type 5\s+5 +5 accepted`,
		`callbacks of type 6\s+1 +1 accepted`, `callbacks of type 7\s+1 +1 accepted`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if got := strings.Count(out, "  holds"); got != 5 || strings.Contains(out, "BROKEN") {
		t.Errorf("%d checks hold, want 5:\n%s", got, out)
	}
	log := must(os.ReadFile(filepath.Join(data, "log")))
	for _, end := range []string{"service", "merchant"} {
		if !bytes.Contains(log, []byte("end="+end)) {
			t.Errorf("the log has nothing of the %s", end)
		}
		if bytes.Contains(log, bytes.TrimSpace(must(os.ReadFile(filepath.Join(data, end, daemon.TokenFile))))) {
			t.Errorf("the log has the token of the %s", end)
		}
	}
	if regexp.MustCompile(`demo-[A-Z2-7]{26}`).Match(log) {
		t.Error("the log has the API key")
	}
	// The same directory again is refused rather than mixed up.
	if err := New(Config{Dir: data}).Run(t.Context()); !errors.Is(err, ErrNotEmpty) {
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

// TestChecksCanFail: whatever else is found does not pass, and neither does a second name that counts.
func TestChecksCanFail(t *testing.T) {
	d := New(Config{})
	if d.deposits = must(d.readDeposits()); len(d.deposits) != 231 {
		t.Fatalf("%d deposits", len(d.deposits))
	}
	held := reconcile.Finding{Finding: reconcile.SentNotCounting, TrackingID: d.deposits[0].TrackingID}
	other := reconcile.Finding{Finding: reconcile.SentNotCounting, TrackingID: d.deposits[7].TrackingID}
	lost := reconcile.Finding{Finding: reconcile.SentNotBooked, TrackingID: d.deposits[0].TrackingID}
	for name, found := range map[string][]reconcile.Finding{"nothing": nil, "another is held": {other}, "lost": {lost},
		"held, and another": {held, other}} {
		if holds, note := d.onlyHeld(found); holds {
			t.Errorf("%s passes: %s", name, note)
		}
	}
	if holds, note := d.onlyHeld([]reconcile.Finding{held}); !holds {
		t.Errorf("the held one does not pass: %s", note)
	}
}
