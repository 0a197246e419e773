package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"countersign/conformance"
)

const (
	// commandWait bounds one run of --effects or --restart.
	commandWait = 2 * time.Minute
	// mostCredits bounds what --effects may print, in bytes.
	mostCredits = 64 << 20
)

// effectsBy looks at credits with the shell command of --effects.
func effectsBy(command string) func(context.Context, []string) ([]conformance.Credit, error) {
	return func(ctx context.Context, trackingIDs []string) ([]conformance.Credit, error) {
		out, err := runShell(ctx, command, "TRACKING_IDS="+strings.Join(trackingIDs, " "))
		if err != nil {
			return nil, fmt.Errorf("--effects: %w", err)
		}
		credits, err := conformance.ParseCredits(out)
		if err != nil {
			return nil, fmt.Errorf("--effects: %w", err)
		}
		return credits, nil
	}
}

// restartBy kills and starts the endpoint with the shell command of --restart.
func restartBy(command string) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := runShell(ctx, command); err != nil {
			return fmt.Errorf("--restart: %w", err)
		}
		return nil
	}
}

// runShell runs a command and gives what it printed. The output is a file and no pipe, since a
// process that the command leaves in the background would hold a pipe open.
func runShell(ctx context.Context, command string, env ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	files := make([]*os.File, 2)
	for i := range files {
		f, err := os.CreateTemp("", "countersign-check-*")
		if err != nil {
			return "", err
		}
		defer f.Close()
		defer os.Remove(f.Name())
		files[i] = f
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = files[0], files[1]
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("the command did not end within %v", commandWait)
	case ctx.Err() != nil:
		return "", ctx.Err()
	}
	said, readErr := readFrom(files[1], 600)
	if err != nil {
		return "", fmt.Errorf("the command failed (%w): %s", err, onTerminal(said))
	}
	if readErr != nil {
		return "", readErr
	}
	return readFrom(files[0], mostCredits)
}

// readFrom returns the beginning of f, at most so many bytes.
func readFrom(f *os.File, most int64) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	return string(bytes.TrimSpace(text)), err
}
