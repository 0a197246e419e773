package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"
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
