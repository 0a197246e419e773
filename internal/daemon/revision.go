package daemon

import "runtime/debug"

// Revision names the commit in brackets, for the version's line, where the build recorded
// one.
func Revision() string {
	if rev := revision(); rev != "" {
		return " (" + rev + ")"
	}
	return ""
}

// revision names the commit where the build recorded one.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	rev, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			rev = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	if rev == "" {
		return ""
	}
	return rev + changed
}
