//go:build unix

package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"countersign/internal/db"
)

// TestPrivateDirectory: a data directory that others may write to is refused, and a database
// or a secret in it that they may read, with the command that mends it.
func TestPrivateDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	ok(t, once(t, dir, "first"))
	for _, c := range []struct {
		name      string
		bad, good os.FileMode
	}{
		{".", 0o770, 0o755}, {".", 0o702, 0o700}, {DatabaseFile, 0o644, 0o600}, {DatabaseFile, 0o620, 0o600}, {DatabaseFile + "-wal", 0o640, 0o600},
		{DatabaseFile + ".before-1", 0o604, 0o600}, {TokenFile, 0o644, 0o600}, {MasterKeyFile, 0o640, 0o600}, {MasterKeyFile + ".0123", 0o644, 0o400}, {AddressFile, 0, 0o644},
	} {
		path := filepath.Join(dir, c.name)
		if _, err := os.Stat(path); err != nil {
			ok(t, os.WriteFile(path, nil, 0o600))
		}
		if c.bad != 0 {
			ok(t, os.Chmod(path, c.bad))
			var exposed *ExposedError
			if err := once(t, dir, ""); !errors.As(err, &exposed) || exposed.Path != path || !strings.Contains(err.Error(), ": chmod ") {
				t.Errorf("%s, mode %04o: %v", c.name, c.bad, err)
			}
			if _, err := serviceIn(dir).Restore(t.Context(), path, true); !errors.As(err, &exposed) {
				t.Errorf("%s, mode %04o: restoring: %v", c.name, c.bad, err)
			}
			if text := serviceAt(dir).Check(t.Context())[0].Text; !strings.Contains(text, path+" can be ") {
				t.Errorf("%s, mode %04o: the check says %s", c.name, c.bad, text)
			}
		}
		ok(t, os.Chmod(path, c.good))
		if err := once(t, dir, ""); err != nil {
			t.Errorf("%s, mode %04o: %v", c.name, c.good, err)
		}
	}
}

// TestPipesOfTheDaemon: nobody waits for a pipe or a device where a file of a data directory
// should be.
func TestPipesOfTheDaemon(t *testing.T) {
	for _, name := range []string{TokenFile, MasterKeyFile, DatabaseFile, AddressFile, CheckpointFile} {
		dir := t.TempDir()
		ok(t, syscall.Mkfifo(filepath.Join(dir, name), 0o600))
		read := map[string]error{}
		_, read["secret"] = ReadSecretOf(dir, name, maxSecret)
		if name == AddressFile {
			_, read["address"] = ReadAddress(dir) // a start writes another in its place
		} else {
			read["start"] = once(t, dir, "")
		}
		for what, err := range read {
			if err == nil || errors.Is(err, db.ErrBroken) || !strings.Contains(err.Error(), filepath.Join(dir, name)+" is not a regular file") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}
