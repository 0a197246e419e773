package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// daemons are the subcommands that have settings to show.
var daemons = []string{"serve", "gateway"}

// isSetting reports whether a flag of a daemon sets something; the others only ask.
func isSetting(f *kong.Flag) bool { return f.Name != "help" && !f.Tag.Has("asks") }

// showSettings writes the settings in force for a daemon's parsed command line, and where each comes from.
func showSettings(w io.Writer, c *kong.Context) {
	sources := map[*kong.Flag]string{}
	for _, p := range c.Path {
		switch {
		case p.Flag != nil && p.Resolved:
			sources[p.Flag] = "file"
		case p.Flag != nil:
			sources[p.Flag] = "flag"
		}
	}
	for _, f := range c.Selected().Flags {
		if !isSetting(f) {
			continue
		}
		from := sources[f]
		for _, env := range f.Envs {
			if _, set := os.LookupEnv(env); set && from == "" {
				from = "environment " + env
			}
		}
		fmt.Fprintf(w, "%s = %s # %s\n", f.Name, inForce(f), cmp.Or(from, "default"))
	}
}

// inForce returns the value of f without what may be secret. Secrets have types that print as [secret].
func inForce(f *kong.Flag) string {
	switch text := fmt.Sprint(reflect.Indirect(f.Target)); {
	case f.Target.IsZero():
		return ""
	case f.Hidden:
		return secret(text).String()
	case strings.Contains(text, "://") || f.Name == "db":
		return hostAlone(text)
	default:
		return text
	}
}

// hostAlone returns a URL without the parts that may be secret: whoever has all of it may post there or may have a
// password.
func hostAlone(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		u = new(url.URL)
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/hidden"}).String()
}

// settingsFlag is --settings.
type settingsFlag bool

// AfterApply is called after everything else was read, if the flag is given.
func (settingsFlag) AfterApply(c *kong.Context, std streams) error {
	showSettings(std.out, c)
	c.Exit(exitDone)
	return nil
}
