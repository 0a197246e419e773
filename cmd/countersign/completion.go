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
	Shell string `arg:"" enum:"bash,zsh,fish,man" help:"bash, zsh or fish; man: the manual page. For this session: source <(countersign completion bash); in fish: countersign completion fish | source."`
}

func (c *completionCmd) Run(std streams, line *kong.Context) error {
	if c.Shell == "man" {
		b := daemon.ThisBuild()
		_, err := fmt.Fprint(std.out, settings.Man(line.Model, b.Version, b.Date[:min(10, len(b.Date))]))
		return err
	}
	_, err := fmt.Fprint(std.out, settings.Completion(c.Shell))
	return err
}
