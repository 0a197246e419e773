package main

import (
	"fmt"

	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
)

// versionFlag is --version, which prints the build.
type versionFlag bool

// BeforeReset is called by kong if the flag is given.
func (versionFlag) BeforeReset(app *kong.Kong, std streams) error {
	fmt.Fprintf(std.out, "countersign %s\n", daemon.ThisBuild())
	app.Exit(exitDone)
	return nil
}
