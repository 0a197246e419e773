package daemon

import "runtime/debug"

// Revision names the commit where the build recorded one.
func Revision() string {
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
