package daemon

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"countersign/envelope"
)

// release is the release of this source, or the next one. CHANGELOG.md says what is in it.
const release = "0.1.0"

// Version identifies a build. It is the release for its tagged commit. Otherwise it is the next release, -dev and the
// commit, with .changed if files differ from the commit.
var Version = ThisBuild().Version

// Build says what a build was made of. A field that the go command did not record is empty.
type Build struct {
	Version string
	Commit  string // its first 12 digits, with ", changed" where files differ from it
	Date    string // of the commit, UTC, as in RFC 3339
	Go      string
	RSA     string // the library that does it
}

// ThisBuild returns the running build.
func ThisBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	b := buildOf(info)
	b.RSA = envelope.Library()
	return b
}

func buildOf(info *debug.BuildInfo) Build {
	b := Build{Version: release + "-dev", Go: runtime.Version()}
	mark := ""
	changed := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value[:min(12, len(s.Value))]
			mark = b.Commit
		case "vcs.time":
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
				b.Date = at.UTC().Format(time.RFC3339)
			}
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		if v == "v"+release && !changed {
			b.Version = release
			return b
		}
		if mark == "" { // a downloaded module of no release
			mark = v[strings.LastIndexByte(v, '-')+1:]
		}
	}
	if mark != "" {
		b.Version += "+" + mark
	}
	if changed {
		b.Commit += ", changed"
		b.Version += ".changed"
	}
	return b
}

// String returns the build in one line.
func (b Build) String() string {
	made := b.Go + ", " + b.RSA
	if b.Commit != "" {
		made = b.Commit + " of " + b.Date + ", " + made
	}
	return fmt.Sprintf("%s (%s)", b.Version, made)
}
