package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is one of git, in a directory of its own.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	r.git("init", "-q")
	return r
}

func (r repository) file(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	ok(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	ok(r.t, os.WriteFile(path, []byte(text), 0o644))
}

func (r repository) git(args ...string) {
	r.t.Helper()
	run(r.t, r.dir, "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
}

func (r repository) commit() {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "x")
}

// TestReleaseName: the tagged commit has the release's name, those before and after it have
// names of their own whose packages a release replaces, and what would be a second release
// of one number is not built.
func TestReleaseName(t *testing.T) {
	for _, name := range []string{"bash", "git", "dpkg"} {
		tool(t, name)
	}
	r := newRepository(t)
	number := func(n string) {
		t.Helper()
		r.file("internal/daemon/build.go", "package daemon\n\nconst release = \""+n+"\"\n")
	}
	name := func() string {
		cmd := exec.Command("bash", "deploy/release-build.sh", t.TempDir(), "name")
		cmd.Dir = r.dir
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	var before string
	built := func(want string) {
		t.Helper()
		got := name()
		_, deb, _ := strings.Cut(strings.TrimSpace(got), "packages ")
		if !strings.HasPrefix(got, want) || deb == "" {
			t.Fatalf("it is called %q, not %q", got, want)
		}
		if before != "" {
			run(t, "", "dpkg", "--compare-versions", before, "lt", deb)
		}
		before = deb
	}
	refused := func(want string) {
		t.Helper()
		if got := name(); !strings.Contains(got, want) || strings.Contains(got, "packages ") {
			t.Errorf("it is called %q; no %q", got, want)
		}
	}

	r.file("deploy/release-build.sh", read(t, "release-build.sh"))
	r.file("CHANGELOG.md", "# Changelog\n\n## 0.1.0 (not released yet)\n")
	number("0.1.0")
	r.commit()
	built("countersign 0.1.0-dev+")
	r.git("tag", "v0.1.0")
	refused("put the date of the release there")
	r.git("tag", "-d", "v0.1.0")
	r.file("CHANGELOG.md", "# Changelog\n\n## 0.1.0 (2026-12-01)\n")
	r.commit()
	r.git("tag", "v0.1.0")
	built("countersign 0.1.0, module v0.1.0, ")
	r.file("README.md", "more\n")
	r.commit()
	refused("raise the number in internal/daemon/build.go")
	number("0.2.0")
	r.commit()
	built("countersign 0.2.0-dev+")
	r.git("tag", "v0.3.0")
	refused("make them equal")
}

// TestReleaseWithoutTools: what needs a tool that is missing is named before anything is built, and
// all else is built.
func TestReleaseWithoutTools(t *testing.T) {
	for _, name := range []string{"bash", "git"} {
		tool(t, name)
	}
	bin := t.TempDir()
	for _, name := range []string{"bash", "git", "go", "gzip", "jq", "gcc", "mktemp", "rm", "mv", "ls", "sha256sum", "diff", "dirname", "cat", "mkdir"} {
		if path, err := exec.LookPath(name); err == nil {
			ok(t, os.Symlink(path, filepath.Join(bin, name)))
		}
	}
	r := newRepository(t)
	r.file("deploy/release.sh", read(t, "release.sh"))
	r.file("deploy/release-build.sh", "mkdir -p $1\necho building ${@:2}\necho x >$1/x\n")
	r.commit()
	release := func(env ...string) (string, error) {
		cmd := exec.Command(filepath.Join(bin, "bash"), "deploy/release.sh")
		cmd.Dir, cmd.Env = r.dir, append(os.Environ(), append(env, "PATH="+bin)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := release()
	before, building, _ := strings.Cut(out, "building binaries")
	building, _, _ = strings.Cut(building, "\n")
	if err != nil || !strings.Contains(before, "left out: image, which needs buildah") || !strings.Contains(building, " packages") || strings.Contains(building, "image") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "dist/SHA256SUMS")); err != nil {
		t.Error(err)
	}
	r.commit() // what was built
	if out, err := release("COUNTERSIGN_RELEASE_KEY=key"); err == nil || !strings.Contains(out, "there is no minisign") || strings.Contains(out, "building") {
		t.Errorf("a key without minisign: %v, %s", err, out)
	}
}
