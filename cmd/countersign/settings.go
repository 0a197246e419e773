package main

import (
	"errors"
	"slices"

	"countersign/internal/settings"
)

// showConfigCmd is the subcommand config. run takes its name away and parses the rest as
// the daemon would; what reaches kong is wrong.
type showConfigCmd struct {
	Daemon string `arg:"" enum:"serve,gateway" help:"serve or gateway, then the flags that it would get."`
}

func (showConfigCmd) Run() error {
	return errors.New("config comes first: countersign config serve …")
}

// showsConfig says whether args ask for the settings of a daemon.
func showsConfig(args []string) bool {
	return len(args) > 1 && args[0] == "config" && slices.Contains(settings.Daemons, args[1])
}
