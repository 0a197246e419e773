package main

import (
	"cmp"
	"encoding"
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// daemons are the subcommands that have settings to show.
var daemons = []string{"serve", "gateway"}

// settingsOf returns the flags of a subcommand, without those of the whole program and those that only ask. Flags
// without a group come first.
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

// showSettings writes the settings that the parsed command line of a daemon has in force, as a
// settings file whose comments say where each comes from. Secrets are not shown, so
// their lines are comments.
func showSettings(w io.Writer, c *kong.Context) error {
	node := c.Selected()
	given := map[*kong.Flag]string{}
	for _, p := range c.Path {
		switch {
		case p.Flag != nil && p.Resolved:
			given[p.Flag] = "file"
		case p.Flag != nil:
			given[p.Flag] = "flag"
		}
	}
	var b strings.Builder
	table := "?"
	for _, f := range settingsOf(node) {
		if g := groupOf(f); g != table {
			table = g
			fmt.Fprintf(&b, "[%s]\n", strings.TrimSuffix(node.Name+"."+g, "."))
		}
		from := given[f]
		for _, env := range f.Envs {
			if _, set := os.LookupEnv(env); set && from == "" {
				from = "environment " + env
			}
		}
		value, shown := inForce(f)
		if !shown {
			value = "# " + f.Name + " " + value
		} else {
			value = f.Name + " = " + value
		}
		fmt.Fprintf(&b, "%s # %s\n", value, cmp.Or(from, "default"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// inForce returns the value of f as TOML, or a remark in its place.
func inForce(f *kong.Flag) (text string, shown bool) {
	v := f.Target
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "is not set", false
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice {
		if v.Len() == 0 {
			return "is not set", false
		}
		list := make([]string, v.Len())
		for i := range list {
			if list[i], shown = shownValue(f, v.Index(i)); !shown {
				return list[i], false
			}
		}
		return "[" + strings.Join(list, ", ") + "]", true
	}
	return shownValue(f, v)
}

func shownValue(f *kong.Flag, v reflect.Value) (text string, shown bool) {
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), true
	case reflect.String:
	default:
		if t, ok := v.Interface().(encoding.TextMarshaler); ok {
			b, err := t.MarshalText()
			return strconv.Quote(strings.ToLower(string(b))), err == nil
		}
		if d, ok := v.Interface().(fmt.Stringer); ok { // a time, written as a text
			return strconv.Quote(d.String()), true
		}
		return fmt.Sprint(v.Interface()), true
	}
	switch text = v.String(); {
	case text == "":
		return "is not set", false
	case isSecret(f) && !strings.HasPrefix(text, "@"): // @FILE is where it is
		return "is set and not shown", false
	case strings.Contains(text, "://") || f.Name == "db":
		text = withoutSecrets(f.Name, text)
	}
	return strconv.Quote(text), true
}

// isSecret says whether the value of f is a secret: its type does not print it, or the
// help does not have it.
func isSecret(f *kong.Flag) bool {
	t := f.Target.Type()
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return f.Hidden || t.Kind() == reflect.String && t.Implements(reflect.TypeFor[fmt.Stringer]())
}

const hiddenText = "hidden"

// withoutSecrets returns a URL without its password. Of a URL that something is posted to it
// gives the host alone, since whoever knows the whole URL can post there.
func withoutSecrets(name, text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" && name == "db" {
		return hiddenText
	}
	if name != "db" {
		return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/" + hiddenText}).String()
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), hiddenText)
	}
	q := u.Query()
	for key := range q {
		if strings.Contains(strings.ToLower(key), "password") {
			q.Set(key, hiddenText)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// settingsFlag is --settings.
type settingsFlag bool

// AfterApply is called where the flag is given, when everything else was read.
func (settingsFlag) AfterApply(c *kong.Context, std streams) error {
	err := showSettings(std.out, c)
	c.Exit(exitDone)
	return err
}
