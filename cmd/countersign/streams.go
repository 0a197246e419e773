package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"
)

// streams are what a subcommand reads and writes. They make globals unnecessary.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer

	settings *kong.ConfigFlag // the name of the settings file, if any
	file     *settingsFile    // what it says
	called   *string          // the URL of the API that the command calls, if any
}

// progress replaces the last line of a terminal by another, and writes nothing elsewhere. An empty line clears it.
func (s streams) progress(line string) {
	if isTerminal(s.err) {
		fmt.Fprint(s.err, "\r\x1b[K", line)
	}
}

// warnings returns the log of a subcommand that is no daemon.
func (s streams) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// readInput reads a file of at most limit bytes, or standard input for -.
func readInput(std streams, name string, limit int, what string) ([]byte, error) {
	if name == "-" {
		return readAll(std.in, limit, what)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, limit, what)
}

// readAll reads at most limit bytes. It returns an error rather than a part.
func readAll(r io.Reader, limit int, what string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("reading the %s: %w", what, err)
	}
	if len(b) > limit {
		return nil, fmt.Errorf("reading the %s: it is longer than %d bytes", what, limit)
	}
	return b, nil
}
