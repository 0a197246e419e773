package main

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
)

// versionFlag is --version, which prints the build.
type versionFlag bool

// BeforeReset is called by kong if the flag is given.
func (versionFlag) BeforeReset(app *kong.Kong, std streams) error {
	err := writeVersion(std.out)
	app.Exit(exitDone)
	return err
}

func writeVersion(w io.Writer) error {
	b := daemon.ThisBuild()
	fmt.Fprintf(w, "countersign %s\n", b.Version)
	for _, line := range [][2]string{{"commit", b.Commit}, {"date", b.Date}, {"module", b.Module}, {"sum", b.Sum}, {"go", b.Go + " " + b.System}, {"RSA", b.RSA}} {
		if line[1] != "" {
			fmt.Fprintf(w, "%s: %s\n", line[0], line[1])
		}
	}
	return nil
}
