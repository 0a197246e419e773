package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"countersign/internal/db"
)

// keyCommandTime bounds the run of a command that prints the master key.
var keyCommandTime = 30 * time.Second // shorter in a test

// maxKeyCommandLog bounds how much of the command's standard error is logged, in bytes.
const maxKeyCommandLog = 4096

// MasterKeyFrom runs a command that prints the master key as 64 hexadecimal digits, for example by asking a key
// management service. command is a program and its arguments, separated by spaces; there is no shell and no quoting.
// The command gets no input, has the environment of this process, and is stopped after 30 s. Its standard error is
// logged, without lines that contain the key.
func MasterKeyFrom(ctx context.Context, command string, log *slog.Logger) (*db.MasterKey, error) {
	words := strings.Fields(command)
	if len(words) == 0 {
		return nil, errors.New("it names no program")
	}
	ctx, cancel := context.WithTimeout(ctx, keyCommandTime)
	defer cancel()
	out, said := &atMost{max: maxSecret, full: cancel}, &atMost{max: maxKeyCommandLog}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, said, time.Second
	err := cmd.Run()
	last := ""
	key := strings.TrimSpace(string(out.kept))
	for line := range strings.Lines(string(said.kept)) {
		line = strings.TrimSpace(line)
		if line == "" || key != "" && strings.Contains(strings.ToLower(line), strings.ToLower(key)) {
			continue
		}
		last = ": " + line
		log.Warn("the master key command wrote an error", "line", line)
	}
	switch {
	case out.more:
		return nil, fmt.Errorf("%s printed more than %d bytes: 64 hexadecimal digits are needed", words[0], maxSecret)
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s did not end within %v", words[0], keyCommandTime)
	case err != nil:
		return nil, fmt.Errorf("%s: %w%s", words[0], err, last)
	case key == "":
		return nil, fmt.Errorf("%s printed nothing: 64 hexadecimal digits are needed", words[0])
	}
	k, err := ParseMasterKey(key)
	if err != nil {
		return nil, fmt.Errorf("%s printed %d characters that are not 64 hexadecimal digits", words[0], len(key))
	}
	return k, nil
}

// ConfiguredKey returns the master key that was given as text or that a command prints, or nil if neither is given.
// name is the name of the setting.
func ConfiguredKey(name, text, command string, log *slog.Logger) (key *db.MasterKey, err error) {
	switch env := "COUNTERSIGN_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")); {
	case text != "" && command != "":
		return nil, fmt.Errorf("--%s-command: %s is given too: give one of them", name, env)
	case text != "":
		if key, err = ParseMasterKey(text); err != nil {
			err = fmt.Errorf("master key: %s %w", env, err)
		}
	case command != "":
		if key, err = MasterKeyFrom(context.Background(), command, log); err != nil {
			err = fmt.Errorf("--%s-command: %w", name, err)
		}
	}
	return key, err
}

// atMost keeps the first bytes written to it. full is called when there are more; it may be nil.
type atMost struct {
	kept []byte // no bytes.Buffer: its ReadFrom has no bound
	max  int
	full func()
	more bool
}

func (w *atMost) Write(b []byte) (int, error) {
	n := min(len(b), w.max-len(w.kept))
	w.more = w.more || n < len(b)
	w.kept = append(w.kept, b[:n]...)
	if w.full != nil && w.more {
		w.full()
	}
	return len(b), nil
}
