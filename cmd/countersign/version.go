package main

import (
	"fmt"
	"runtime"

	"github.com/alecthomas/kong"

	"countersign/envelope"
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
	fmt.Fprintf(std.out, "countersign %s%s\n%s %s/%s\nRSA: %s\n", daemon.Version, daemon.Revision(),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, envelope.Library())
	return nil
}
