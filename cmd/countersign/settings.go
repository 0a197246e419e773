package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"
)

// daemons are the subcommands that have settings to show.
var daemons = []string{"serve", "gateway"}

// settingsOf returns the flags of a subcommand, without those of the whole program and those that only ask something.
// Flags without a group come first.
func settingsOf(node *kong.Node) []*kong.Flag {
	flags := slices.DeleteFunc(slices.Clone(node.Flags), func(f *kong.Flag) bool { return f.Name == "help" || f.Tag.Has("asks") })
	slices.SortStableFunc(flags, func(a, b *kong.Flag) int { return cmp.Compare(groupOf(a), groupOf(b)) })
	return flags
}

func groupOf(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	return f.Group.Key
}

// showSettings writes the settings in force for a daemon's parsed command line, as a settings file whose comments say
// where each comes from. Secrets are not shown: their lines are comments.
func showSettings(w io.Writer, c *kong.Context) error {
	node := c.Selected()
	sources := map[*kong.Flag]string{}
	for _, p := range c.Path {
		switch {
		case p.Flag != nil && p.Resolved:
			sources[p.Flag] = "file"
		case p.Flag != nil:
			sources[p.Flag] = "flag"
		}
	}
	var b strings.Builder
	table := "?"
	for _, f := range settingsOf(node) {
		if g := groupOf(f); g != table {
			table = g
			fmt.Fprintf(&b, "[%s]\n", strings.TrimSuffix(node.Name+"."+g, "."))
		}
		from := sources[f]
		for _, env := range f.Envs {
			if _, set := os.LookupEnv(env); set && from == "" {
				from = "environment " + env
			}
		}
		fmt.Fprintf(&b, "%s # %s\n", inForce(f), cmp.Or(from, "default"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// inForce returns the line for f: its value as TOML, or a remark.
func inForce(f *kong.Flag) string {
	v := reflect.Indirect(f.Target)
	if !v.IsValid() || (v.Kind() == reflect.String || v.Kind() == reflect.Slice) && v.Len() == 0 {
		return "# " + f.Name + " is not set"
	}
	value := v.Interface()
	var texts []string
	switch {
	case v.Kind() == reflect.String:
		texts = append(texts, v.String())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
		for i := range v.Len() {
			texts = append(texts, v.Index(i).String())
		}
	}
	for i, text := range texts {
		switch {
		case strings.HasPrefix(text, "@"): // where it is
		case isSecret(f):
			return "# " + f.Name + " is set and not shown"
		case strings.Contains(text, "://") || f.Name == "db":
			texts[i] = hostAlone(text)
		}
		if value = texts; v.Kind() == reflect.String {
			value = texts[0]
		}
	}
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(map[string]any{f.Name: value}); err != nil {
		return "# " + f.Name + ": " + err.Error()
	}
	return strings.TrimSpace(b.String())
}

// isSecret reports whether the value of f is a secret: its type cannot be printed, or the help hides it.
func isSecret(f *kong.Flag) bool {
	t := f.Target.Type()
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return f.Hidden || t.Kind() == reflect.String && t.Implements(reflect.TypeFor[fmt.Stringer]())
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
	err := showSettings(std.out, c)
	c.Exit(exitDone)
	return err
}
