package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// daemons are the subcommands that have settings.
var daemons = []string{"serve", "gateway"}

// settingsOf returns the settings of a daemon.
func settingsOf(node *kong.Node) []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(node.Flags), func(f *kong.Flag) bool { return f.Name == "help" || f.Tag.Has("asks") })
}

// isSecret reports whether the value of f is a secret: its type cannot be printed.
func isSecret(f *kong.Flag) bool {
	t := f.Target.Type()
	return t == reflect.TypeFor[secret]() || t == reflect.TypeFor[[]secret]()
}

// daemonOf returns a daemon of the command line.
func daemonOf(app *kong.Application, name string) *kong.Node {
	return app.Children[slices.IndexFunc(app.Children, func(n *kong.Node) bool { return n.Name == name })]
}

// sharedSetting reports whether both daemons have the setting f in the same form.
func sharedSetting(app *kong.Application, f *kong.Flag) bool {
	for _, daemon := range daemons {
		if !slices.ContainsFunc(settingsOf(daemonOf(app, daemon)), func(g *kong.Flag) bool { return g.Name == f.Name && g.Help == f.Help && g.Default == f.Default }) {
			return false
		}
	}
	return true
}

const pageHead = `# Settings

Each setting is a flag (` + "`--listen`" + `), a variable (` + "`COUNTERSIGN_LISTEN`" + `) and, under the daemon's name, a line of the file that ` + "`--config`" + ` names
([deploy/countersign.toml](../../deploy/countersign.toml)). The flag comes first, then the variable, the file and the default (in brackets).
` + "`--check`" + ` prints what a start would find. A command with the same ` + "`--config`" + ` calls that daemon.
A secret can be ` + "`@FILE`" + `, readable for its owner alone.
`

// settingsPage returns docs/reference/settings.md.
func settingsPage(app *kong.Application) string {
	var b strings.Builder
	b.WriteString(pageHead)
	list := func(title string, flags []*kong.Flag) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		for _, f := range flags {
			if f.Hidden {
				continue
			}
			value := ""
			if f.Default != "" {
				value = " (`" + f.Default + "`)"
			}
			fmt.Fprintf(&b, "- `--%s`%s: %s\n", f.Name, value, f.Help)
		}
	}
	first := settingsOf(daemonOf(app, daemons[0]))
	list("Both daemons", slices.DeleteFunc(first, func(f *kong.Flag) bool { return !sharedSetting(app, f) }))
	for _, daemon := range daemons {
		list("countersign "+daemon, slices.DeleteFunc(settingsOf(daemonOf(app, daemon)), func(f *kong.Flag) bool { return sharedSetting(app, f) }))
	}
	return b.String()
}

const exampleHead = `# Settings of both daemons: countersign serve --config FILE, countersign gateway --config FILE.
# Each line shows the default, or an example where there is none; take away the # of what you change.
# docs/reference/settings.md says what comes before what. A secret is "@FILE", which only its owner may read.
# This file is made from the flags, as that page is.
`

// settingsExample returns deploy/countersign.toml.
func settingsExample(app *kong.Application) string {
	var b strings.Builder
	b.WriteString(exampleHead)
	said := map[string]bool{}
	for _, daemon := range daemons {
		fmt.Fprintf(&b, "\n[%s]\n", daemon)
		for _, f := range settingsOf(daemonOf(app, daemon)) {
			if f.Hidden {
				continue
			}
			if !said[f.Name+f.Help] {
				said[f.Name+f.Help] = true
				for _, line := range wrapped(f.Help, 110) {
					fmt.Fprintf(&b, "# %s\n", line)
				}
			}
			fmt.Fprintf(&b, "#%s = %s\n", f.Name, exampleOf(f))
		}
	}
	return b.String()
}

// exampleOf returns the default of f, or an example of its kind.
func exampleOf(f *kong.Flag) string {
	switch {
	case f.IsBool():
		return "false"
	case isSecret(f) && f.IsSlice():
		return `["@/etc/countersign/` + f.Name + `"]`
	case isSecret(f):
		return `"@/etc/countersign/` + f.Name + `"`
	case f.Default != "" && f.Target.CanInt() && strings.Trim(f.Default, "0123456789") == "":
		return f.Default
	case f.Default != "" || f.Enum != "":
		return `"` + f.Default + `"`
	case f.PlaceHolder == "FILE":
		return `"/etc/countersign/` + f.Name + `"`
	case f.PlaceHolder == "URL" && f.Name == "db":
		return `"postgres://countersign@db1,db2/service?target_session_attrs=read-write"`
	case f.PlaceHolder == "URL":
		return `"https://app.example/` + f.Name + `"`
	case f.PlaceHolder == "ADDR":
		return `"127.0.0.1:9090"`
	}
	return `""`
}

// wrapped breaks a text into lines of at most n characters where it can.
func wrapped(text string, n int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > n {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
