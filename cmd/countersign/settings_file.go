package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
)

// settingsFile is a TOML file of settings, for kong. A table named after a subcommand
// holds its flags, by their names without the dashes:
//
//	[serve]
//	listen = "127.0.0.1:8080"
//
// Flags come before the environment, the environment before the file, and the
// file before the defaults.
type settingsFile map[string]any

// load is a kong loader: it reads a file into s.
func (s *settingsFile) load(r io.Reader) (kong.Resolver, error) {
	if _, err := toml.NewDecoder(r).Decode(s); err != nil {
		return nil, fmt.Errorf("settings file: %w", err)
	}
	return *s, nil
}

// dataDirs returns the data directories of the ends of which the file has a table. Commands find a daemon's API and
// token there.
func (s settingsFile) dataDirs() map[end]string {
	dirs := map[end]string{}
	for e, name := range tableOf {
		if table, ok := s[name].(map[string]any); ok {
			dirs[e] = defaultData[e]
			if dir, ok := table["data"].(string); ok {
				dirs[e] = kong.ExpandPath(dir)
			}
		}
	}
	return dirs
}

// Validate refuses names that no subcommand has: if a misspelt setting were ignored, a daemon would run with the
// default.
func (s settingsFile) Validate(app *kong.Application) error {
	for name, v := range s {
		table, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("settings file: %s is not a table named after a subcommand", name)
		}
		i := slices.IndexFunc(app.Children, func(n *kong.Node) bool { return n.Name == name })
		if i < 0 {
			return fmt.Errorf("settings file: there is no subcommand %s", name)
		}
		for setting := range table {
			if !slices.ContainsFunc(app.Children[i].Flags, func(f *kong.Flag) bool { return f.Name == setting }) {
				return fmt.Errorf("settings file: %s has no setting %s", name, setting)
			}
		}
	}
	return nil
}

// Resolve returns the file's value of a flag, or nothing if the environment has one: kong would let the file win.
func (s settingsFile) Resolve(_ *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if _, ok := os.LookupEnv(env); ok {
			return nil, nil
		}
	}
	node := parent.Node()
	if node == nil {
		return nil, nil
	}
	for node.Parent != nil && node.Parent.Type != kong.ApplicationNode {
		node = node.Parent
	}
	table, ok := s[node.Name].(map[string]any)
	if !ok && slices.Contains(played, node.Name) {
		return s.ofGateway(flag), nil
	}
	if !ok {
		return nil, nil
	}
	v := table[flag.Name]
	if v != nil && !fits(flag.Target.Type(), v) {
		return nil, fmt.Errorf("[%s] of the settings file has a value that is not a text: write it in quotes", node.Name)
	}
	return v, nil
}

// played are the commands that play one end for a while. Without a table of their own, they use the gateway's in the
// file.
var played = []string{"send", "listen"}

// ofGateway returns the value of a flag about the protocol in the gateway's table, the first of a list.
func (s settingsFile) ofGateway(flag *kong.Flag) any {
	if !slices.Contains([]string{"api-key", "callback-api-key", "api-key-header", "body-field", "provider", "oaep",
		"response-oaep"}, flag.Name) {
		return nil
	}
	gateway, _ := s["gateway"].(map[string]any)
	if list, ok := gateway[flag.Name].([]any); ok && len(list) > 0 { // of which each is taken
		return list[0]
	}
	return gateway[flag.Name]
}

// fits reports whether the file's value is a text, or a list of texts, for a flag that takes one. kong would read
// anything else as JSON and report JSON errors.
func fits(t reflect.Type, v any) bool {
	switch list, isList := v.([]any); {
	case t.Kind() == reflect.String:
		_, ok := v.(string)
		return ok
	case t.Kind() == reflect.Slice && isList:
		return !slices.ContainsFunc(list, func(e any) bool { return !fits(t.Elem(), e) })
	}
	return true
}

// begins refuses a data directory without a database if daemons of this name kept one with the same settings file: a
// file beside it, with .used at the end, has their directories. Two starts may have different working directories, on
// which a relative data directory depends, but they have the settings file in common. used must be called when the
// daemon has opened its database.
func (f *daemonFlags) begins(std streams, end, dir string, log *slog.Logger) (used func(), err error) {
	if *std.settings == "" || f.DB != "" {
		return func() {}, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	file := kong.ExpandPath(string(*std.settings)) + ".used"
	list, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	last := ""
	for line := range strings.Lines(string(list)) {
		if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), end+" "); ok {
			last = text
		}
	}
	_, err = os.Stat(filepath.Join(dir, daemon.DatabaseFile))
	if errors.Is(err, fs.ErrNotExist) && last != "" && !f.New {
		return nil, &hintedError{
			fmt.Errorf("--data: %s has no database, and %s was used with the one in %s: "+
				"a new database takes earlier deposits for new ones", dir, *std.settings, last),
			[]string{
				fmt.Sprintf("give --data %s, or write data = %q into the settings file; "+
					"if it is on a disk, look whether that is mounted.", last, last),
				"to begin anew: --new.",
			}}
	}
	return func() {
		if last == dir || strings.Contains(dir, "\n") {
			return
		}
		// Settings in a directory that the daemon may not write to, such as /etc, are not guarded. The data directory
		// is an absolute path there.
		w, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(w, "%s %s\n", end, dir)
			err = errors.Join(err, w.Close())
		}
		if err != nil {
			log.Debug("the data directory could not be noted beside the settings file", "error", err.Error())
		}
	}, nil
}
