package main

import (
	"fmt"

	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
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

// manCmd prints the manual page, which packages install.
type manCmd struct{}

func (manCmd) Run(std streams, line *kong.Context) error {
	b := daemon.ThisBuild()
	_, err := fmt.Fprint(std.out, settings.Man(line.Model, b.Version, b.Date[:min(10, len(b.Date))]))
	return err
}
