package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"countersign/conformance"
)

// commandWait bounds one run of --effects or --restart.
const commandWait = 2 * time.Minute

// effectsBy reads credits by the shell command of --effects.
func effectsBy(command string) func(context.Context, []string) ([]conformance.Credit, error) {
	return func(ctx context.Context, trackingIDs []string) (credits []conformance.Credit, err error) {
		err = runShell(ctx, command, func(cmd *exec.Cmd) error {
			cmd.Env = append(os.Environ(), "TRACKING_IDS="+strings.Join(trackingIDs, " "))
			out, err := cmd.Output()
			credits = conformance.ParseCredits(string(out))
			return err
		})
		if err != nil {
			err = fmt.Errorf("--effects: %w", err)
		}
		return credits, err
	}
}

// restartBy kills and starts the endpoint by the shell command of --restart.
func restartBy(command string) func(context.Context) error {
	return func(ctx context.Context) error {
		// No pipe: an endpoint that the command leaves running would hold it open, and would end with it.
		said, err := os.CreateTemp("", "countersign-check-*")
		if err != nil {
			return err
		}
		err = runShell(ctx, command, func(cmd *exec.Cmd) error {
			cmd.Stderr = said
			err := cmd.Run()
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
				failed.Stderr, _ = os.ReadFile(said.Name())
			}
			return err
		})
		if err = errors.Join(err, said.Close(), os.Remove(said.Name())); err != nil {
			err = fmt.Errorf("--restart: %w", err)
		}
		return err
	}
}

// runShell runs a shell command.
func runShell(ctx context.Context, command string, run func(*exec.Cmd) error) error {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.WaitDelay = time.Second // for what it has started, when it is killed
	err := run(cmd)
	var failed *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the command did not end within %v", commandWait)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &failed):
		return fmt.Errorf("the command failed (%w): %s", err, onTerminal(string(bytes.TrimSpace(failed.Stderr))))
	}
	return err
}
