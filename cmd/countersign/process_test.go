package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is countersign as an operator would start it.
type process struct {
	cmd    *exec.Cmd
	url    string // of the listener that the ready line names first
	urls   map[string]string
	output *lockedBuffer
	exited chan error
}

// lockedBuffer collects what a process prints.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// lines returns the whole lines behind a place.
func (b *lockedBuffer) lines(from int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := b.buf.Bytes()[from:]
	return string(rest[:bytes.LastIndexByte(rest, '\n')+1])
}

var readyLine = regexp.MustCompile(`msg=(?:serving|carrying) (.*)`)

// startDaemon runs countersign with args and waits for the
// line that says where it listens.
func startDaemon(t *testing.T, args ...string) *process {
	t.Helper()
	d := &process{cmd: exec.Command("countersign", args...), output: &lockedBuffer{}, exited: make(chan error, 1), urls: map[string]string{}}
	stderr := must(d.cmd.StderrPipe())
	d.cmd.Stdout = d.output
	ok(t, d.cmd.Start())
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(io.TeeReader(stderr, d.output))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case ready <- m[1]:
				default:
				}
			}
		}
		d.exited <- d.cmd.Wait()
	}()
	t.Cleanup(func() { d.kill() })
	select {
	case line := <-ready:
		if !strings.Contains(line, " database=sqlite ") && !strings.Contains(line, " database=postgres ") && !strings.Contains(line, "decisions=") {
			t.Errorf("the first line does not name the kind of database: %s", line)
		}
		for _, f := range strings.Fields(line) {
			if k, v, ok := strings.Cut(f, "="); ok && strings.HasPrefix(v, "http") {
				d.urls[k] = v
			}
		}
		d.url = d.urls["api"]
	case err := <-d.exited:
		d.exited <- err
		t.Fatalf("countersign %v ended: %v\n%s", args, err, d.output)
	case <-time.After(wholeRun(t)):
		t.Fatalf("countersign %v does not get ready:\n%s", args, d.output)
	}
	return d
}

// ok fails the test on an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// secretFile makes a file that only its owner may read, and gives its path.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// kill ends the process as a power cut would.
func (d *process) kill() {
	if d.cmd.Process.Signal(syscall.SIGKILL) == nil {
		d.exited <- <-d.exited
	}
}

// stop ends the process as an operator would and gives its exit status.
func (d *process) stop(t *testing.T) int {
	t.Helper()
	ok(t, d.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-d.exited:
		d.exited <- err
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		return 0
	case <-time.After(wholeRun(t)):
		t.Fatalf("it does not stop:\n%s", d.output)
		return -1
	}
}

// wholeRun is what is left of the time of the whole test run, less what it takes
// to say what was waited for in vain. A bound of its own would make a test fail
// where the machine is busy.
func wholeRun(t *testing.T) time.Duration {
	end, ok := t.Deadline()
	if !ok {
		return time.Hour
	}
	return max(time.Until(end)-10*time.Second, time.Second)
}

// waitUntil waits for what must come, as long as the whole test run may take. It
// fails with what was waited for, and with what says gives.
func waitUntil(t *testing.T, what string, says func() string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(wholeRun(t)); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s\n%s", what, says())
		}
	}
}
