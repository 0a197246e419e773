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
