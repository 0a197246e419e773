package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

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
	fmt.Fprintf(std.out, "countersign %s%s\n%s %s/%s\nRSA: %s\n", daemon.Version, revision(),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, envelope.Library())
	return nil
}

// revision names the commit where the build recorded one.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			rev = " (" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ", changed"
		}
	}
	if rev == "" {
		return ""
	}
	return rev + dirty + ")"
}
