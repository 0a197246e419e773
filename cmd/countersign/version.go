package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is the release; CHANGELOG.md says what is in it.
const version = "0.1.0-dev"

type versionCmd struct{}

func (versionCmd) Run(std streams) error {
	fmt.Fprintf(std.out, "countersign %s%s\n%s %s/%s\nRSA: %s\n", version, revision(),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, rsaLibrary())
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
