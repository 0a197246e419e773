package main

import (
	"fmt"

	"countersign/internal/settings"
)

// completionCmd prints what a shell reads to complete command lines. The shell asks
// the program itself, so nothing drifts.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish. For this session: source <(countersign completion bash); in fish: countersign completion fish | source."`
}

func (c *completionCmd) Run(std streams) error {
	_, err := fmt.Fprint(std.out, settings.Completion(c.Shell))
	return err
}
