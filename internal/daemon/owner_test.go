//go:build unix

package daemon

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"countersign/internal/journal"
)

const user = 65532

// dataOf makes a data directory of owner, if this is root, with the master key of a backup.
func dataOf(t *testing.T, owner int) (dir, backup string) {
	t.Helper()
	from, dir, backup := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "backup")
	ok(t, once(t, from, "first"))
	must(Backup(t.Context(), from, backup))
	ok(t, os.Rename(filepath.Join(from, MasterKeyFile), filepath.Join(dir, MasterKeyFile)))
	if os.Geteuid() != 0 {
		return dir, backup
	}
	ok(t, os.Chmod(filepath.Dir(dir), 0o755)) // t.TempDir made it for root alone
	for _, path := range []string{dir, filepath.Join(dir, MasterKeyFile)} {
		ok(t, os.Chown(path, owner, owner))
	}
	return dir, backup
}

// TestFilesOfRoot: what root restores into the data directory of a daemon that runs as
// somebody else is that daemon's, and so are a request to replace its master key and the checkpoint. What root
// makes elsewhere stays root's.
func TestFilesOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root makes files for others")
	}
	to, backup := dataOf(t, user)
	must(serviceIn(to).Restore(t.Context(), backup, false))
	ok(t, createFile(filepath.Join(to, MasterKeyFile+".0123456789abcdef"), []byte("key"), giveToOwner))
	ok(t, (Storage{Dir: to}).replaceJSON(CheckpointFile, journal.Held{}))
	files, err := os.ReadDir(to)
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if owner := ownerOf(t, filepath.Join(to, f.Name())); owner != user {
			t.Errorf("%s is of user %d", f.Name(), owner)
		}
	}
	ok(t, CreateFile(filepath.Join(to, "of-root"), nil))
	for _, path := range []string{backup, filepath.Join(to, "of-root")} {
		if owner := ownerOf(t, path); owner != 0 {
			t.Errorf("%s is of user %d", path, owner)
		}
	}
}

// TestLinksOfTheDaemon: a link that the daemon puts into its directory leads root's commands
// to no file of root. Before, one at countersign.db.restoring had a file of root overwritten
// and given away, and what one at admin.token named was read.
func TestLinksOfTheDaemon(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	ok(t, os.WriteFile(secret, []byte("of root"), 0o600))
	to, backup := dataOf(t, user)
	for _, name := range []string{DatabaseFile + ".restoring", TokenFile, MasterKeyFile + ".0123456789abcdef"} {
		ok(t, os.Symlink(secret, filepath.Join(to, name)))
	}
	for _, name := range []string{TokenFile, MasterKeyFile + ".0123456789abcdef"} {
		if b, err := ReadSecretOf(to, name, maxSecret); err == nil {
			t.Errorf("%s gives %q", name, b)
		}
	}
	if _, err := keepSecret(filepath.Join(to, TokenFile), "fresh"); err == nil {
		t.Error("a token is read through a link")
	}
	if _, err := serviceIn(to).Restore(t.Context(), backup, false); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "of root" || ownerOf(t, secret) != uint32(os.Geteuid()) {
		t.Errorf("the file of root holds %q and is of user %d, %v", b, ownerOf(t, secret), err)
	}
	// What only root may write cannot be reached by a link that comes while root works.
	if os.Geteuid() != 0 {
		return
	}
	_, back, err := actAsOwner(to)
	ok(t, err)
	_, err = os.ReadFile(secret)
	if err := back(); err != nil || os.Geteuid() != 0 {
		t.Fatal(err)
	}
	if err == nil {
		t.Error("who acts as the owner reads what is root's")
	}
	// Where a directory of root keeps the owner away, as /var/lib/private does, the new file is
	// made in that one, and is the owner's in the end.
	above := filepath.Dir(to)
	ok(t, os.Chmod(above, 0o700))
	if stage, back, err := actAsOwner(to); err != nil || stage != above || os.Geteuid() != 0 || back() != nil {
		t.Errorf("below a directory of root: files are made in %s, %v", stage, err)
	}
	if _, err := serviceIn(to).Restore(t.Context(), backup, true); err != nil {
		t.Error(err)
	}
	if is, want := ownerOf(t, filepath.Join(to, DatabaseFile)), ownerOf(t, to); is != want {
		t.Errorf("the database is of user %d, not %d", is, want)
	}
	if left, err := filepath.Glob(filepath.Join(above, "*.restoring*")); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	ok(t, os.Chmod(above, 0o702))
	if _, _, err := actAsOwner(to); err == nil {
		t.Error("new files are made where others write")
	}
}

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	info := must(os.Stat(path))
	return info.Sys().(*syscall.Stat_t).Uid
}
