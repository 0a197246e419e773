package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleaseName: the tagged commit has the release's name, those before and after it have
// names of their own whose packages a release replaces, and what would be a second release
// of one number is not built.
func TestReleaseName(t *testing.T) {
	for _, name := range []string{"bash", "git", "dpkg"} {
		tool(t, name)
	}
	dir := t.TempDir()
	file := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		run(t, dir, "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
	}
	commit := func() {
		t.Helper()
		git("add", "-A")
		git("commit", "-q", "-m", "x")
	}
	number := func(n string) {
		t.Helper()
		file("internal/daemon/build.go", "package daemon\n\nconst release = \""+n+"\"\n")
	}
	name := func() string {
		cmd := exec.Command("bash", "deploy/release-build.sh", t.TempDir(), "name")
		cmd.Dir = dir
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

	git("init", "-q")
	file("deploy/release-build.sh", read(t, "release-build.sh"))
	file("CHANGELOG.md", "# Changelog\n\n## 0.1.0 (not released yet)\n")
	number("0.1.0")
	commit()
	built("countersign 0.1.0-dev+")
	git("tag", "v0.1.0")
	refused("put the date of the release there")
	git("tag", "-d", "v0.1.0")
	file("CHANGELOG.md", "# Changelog\n\n## 0.1.0 (2026-12-01)\n")
	commit()
	git("tag", "v0.1.0")
	built("countersign 0.1.0, module v0.1.0, ")
	file("README.md", "more\n")
	commit()
	refused("raise the number in internal/daemon/build.go")
	number("0.2.0")
	commit()
	built("countersign 0.2.0-dev+")
	git("tag", "v0.3.0")
	refused("make them equal")
}

// TestReleaseWithoutTools: what needs a tool that is missing is named before anything is built, and
// all else is built.
func TestReleaseWithoutTools(t *testing.T) {
	for _, name := range []string{"bash", "git"} {
		tool(t, name)
	}
	dir, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{"bash", "git", "go", "gzip", "jq", "gcc", "mktemp", "rm", "mv", "ls", "sha256sum", "diff", "dirname", "cat", "mkdir"} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range map[string]string{"release.sh": read(t, "release.sh"), "release-build.sh": "mkdir -p $1\necho building ${@:2}\necho x >$1/x\n"} {
		if err := os.MkdirAll(filepath.Join(dir, "deploy"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "deploy", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		run(t, dir, "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "x")
	release := func(env ...string) (string, error) {
		cmd := exec.Command(filepath.Join(bin, "bash"), "deploy/release.sh")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), append(env, "PATH="+bin)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := release()
	before, building, _ := strings.Cut(out, "building binaries")
	building, _, _ = strings.Cut(building, "\n")
	if err != nil || !strings.Contains(before, "left out: image, which needs buildah") || !strings.Contains(building, " packages") || strings.Contains(building, "image") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "dist/SHA256SUMS")); err != nil {
		t.Error(err)
	}
	git("add", "-A")
	git("commit", "-q", "-m", "what was built")
	if out, err := release("COUNTERSIGN_RELEASE_KEY=key"); err == nil || !strings.Contains(out, "there is no minisign") || strings.Contains(out, "building") {
		t.Errorf("a key without minisign: %v, %s", err, out)
	}
}
