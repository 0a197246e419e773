package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"countersign/envelope"
	"countersign/internal/daemon"
)

type versionCmd struct{}

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
