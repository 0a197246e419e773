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

// usedSuffix is the suffix of the file beside a settings file that records the data directories of daemons that used
// the settings. Two starts may have different working directories, on which a relative data directory depends, but they
// have the settings file in common.
const usedSuffix = ".used"

// newDataFlags allow a daemon to start with an empty database.
type newDataFlags struct {
	New bool `help:"Start with an empty database. It takes deposits that were booked elsewhere for new ones."`
}

// begins refuses a data directory without a database if daemons of this name kept one with the same settings file. used
// must be called when the daemon has opened its database.
func (f newDataFlags) begins(std streams, end, dir, db string, log *slog.Logger) (used func(), err error) {
	if *std.settings == "" || db != "" {
		return func() {}, nil
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	file := kong.ExpandPath(string(*std.settings)) + usedSuffix
	last, err := usedWith(file, end)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(dir, daemon.DatabaseFile))
	if errors.Is(err, fs.ErrNotExist) && last != "" && !f.New {
		return nil, &hintedError{
			fmt.Errorf("--data: %s has no database, and %s was used with the one in %s: a new database takes earlier deposits for new ones", dir, *std.settings, last),
			[]string{
				fmt.Sprintf("give --data %s, or write data = %q into the settings file; if it is on a disk, look whether that is mounted.", last, last),
				"to begin anew: --new.",
			}}
	}
	return func() {
		if last == dir {
			return
		}
		// Settings in a directory that the daemon may not write to, such as /etc, are not guarded. The data directory
		// is an absolute path there.
		if err := remember(file, end, dir); err != nil {
			log.Debug("the data directory could not be noted beside the settings file", "error", err.Error())
		}
	}, nil
}

// usedWith returns the newest data directory in file, or "" if there is none.
func usedWith(file, end string) (last string, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	for line := range strings.Lines(string(b)) {
		if dir, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), end+" "); ok && filepath.IsAbs(dir) {
			last = dir
		}
	}
	return last, err
}

// remember appends a line to file.
func remember(file, end, dir string) error {
	if strings.ContainsAny(dir, "\r\n") {
		return errors.New("its path contains a line end")
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s\n", end, dir)
	return errors.Join(err, f.Close())
}
