package main

import (
	"fmt"

	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
)

type versionCmd struct{}

// versionFlag is the flag --version, which does what the subcommand does.
type versionFlag bool

// BeforeReset implements kong's hook.
func (versionFlag) BeforeReset(app *kong.Kong, std streams) error {
	err := versionCmd{}.Run(std)
	app.Exit(exitDone)
	return err
}

func (versionCmd) Run(std streams) error {
	b := daemon.ThisBuild()
	fmt.Fprintf(std.out, "countersign %s\n", b.Version)
	for _, line := range [][2]string{{"commit", b.Commit}, {"date", b.Date}, {"module", b.Module}, {"sum", b.Sum}, {"go", b.Go + " " + b.System}, {"RSA", b.RSA}} {
		if line[1] != "" {
			fmt.Fprintf(std.out, "%s: %s\n", line[0], line[1])
		}
	}
	return nil
}
