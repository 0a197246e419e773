package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
)

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
