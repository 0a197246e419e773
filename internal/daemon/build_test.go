package daemon

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestVersionTellsBuildsApart: only an unchanged build of the tagged commit has the release's
// number, and every other names its commit.
func TestVersionTellsBuildsApart(t *testing.T) {
	const commit = "cc8ae750deadbeef0123456789abcdef01234567"
	set := func(changed string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: "2026-11-25T04:00:00+02:00"}, {Key: "vcs.modified", Value: changed}}
	}
	for name, c := range map[string]struct {
		main     debug.Module
		settings []debug.BuildSetting
		want     Build
	}{
		"without git": {debug.Module{Path: "countersign", Version: "(devel)"}, nil, Build{Version: release + "-dev"}},
		"a commit": {debug.Module{Path: "countersign", Version: "v0.0.0-20261125020000-cc8ae750dead"}, set("false"),
			Build{Version: release + "-dev+cc8ae750dead", Commit: "cc8ae750dead", Date: "2026-11-25T02:00:00Z"}},
		"a changed checkout": {debug.Module{Path: "countersign", Version: "v" + release + "+dirty"}, set("true"),
			Build{Version: release + "-dev+cc8ae750dead.changed", Commit: "cc8ae750dead, changed", Date: "2026-11-25T02:00:00Z"}},
		"the release": {debug.Module{Path: "countersign", Version: "v" + release}, set("false"),
			Build{Version: release, Commit: "cc8ae750dead", Date: "2026-11-25T02:00:00Z"}},
		"another tag": {debug.Module{Path: "countersign", Version: "v9.9.9"}, set("false"),
			Build{Version: release + "-dev+cc8ae750dead", Commit: "cc8ae750dead", Date: "2026-11-25T02:00:00Z"}},
		"a downloaded module": {debug.Module{Path: "countersign", Version: "v" + release}, nil,
			Build{Version: release}},
		"a downloaded commit": {debug.Module{Path: "countersign", Version: "v0.1.1-0.20261125020000-cc8ae750dead"}, nil,
			Build{Version: release + "-dev+cc8ae750dead"}},
	} {
		c.want.Go = runtime.Version()
		if got := buildOf(&debug.BuildInfo{Main: c.main, Settings: c.settings}); got != c.want {
			t.Errorf("%s: %+v, not %+v", name, got, c.want)
		}
	}
	if got := (Build{Version: "1", Commit: "c", Date: "d", Go: "go", RSA: "rsa"}).String(); got != "1 (c of d, go, rsa)" {
		t.Errorf("a node tells %q", got)
	}
}
