//go:build unix

package daemon

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFilesOfRoot: what root restores into the data directory of a daemon that runs as
// somebody else is that daemon's, and so is a request to replace its master key. What root
// makes elsewhere stays root's.
func TestFilesOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root makes files for others")
	}
	const user = 65532
	from, to, backup := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "backup")
	if err := once(t, from, "first"); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(t.Context(), from, backup); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(from, MasterKeyFile), filepath.Join(to, MasterKeyFile)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{to, filepath.Join(to, MasterKeyFile)} {
		if err := os.Chown(path, user, user); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Restore(t.Context(), RestoreConfig{Storage: Storage{Dir: to}, From: backup}); err != nil {
		t.Fatal(err)
	}
	if err := createFile(filepath.Join(to, nextKeyFile), []byte("key"), 0o600, giveToOwner); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(to)
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if owner := ownerOf(t, filepath.Join(to, f.Name())); owner != user {
			t.Errorf("%s is of user %d", f.Name(), owner)
		}
	}
	if err := CreateFile(filepath.Join(to, "of-root"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{backup, filepath.Join(to, "of-root")} {
		if owner := ownerOf(t, path); owner != 0 {
			t.Errorf("%s is of user %d", path, owner)
		}
	}
}

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}
