package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadme runs every sh block of the README in order, in a fresh copy of
// the tree, as a new user would: nothing in it may have drifted.
func TestReadme(t *testing.T) {
	for _, program := range []string{"sh", "openssl", "split", "base64"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is not installed, and CI needs it", program)
			}
			t.Skipf("%s is not installed", program)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) < 4 {
		t.Fatalf("the README has %d sh blocks", len(blocks))
	}
	dir := t.TempDir()
	if err := copyTree("../..", dir); err != nil {
		t.Fatal(err)
	}
	deposit, err := os.ReadFile("../../testdata/deposit.json")
	if err != nil {
		t.Fatal(err)
	}
	var outputs []string
	for _, b := range blocks {
		cmd := exec.Command("sh", "-e", "-c", string(b[1]))
		cmd.Dir = dir
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s\n%v\n%s%s", b[1], err, out.Bytes(), errOut.Bytes())
		}
		outputs = append(outputs, out.String())
	}
	// The message comes back, through our opener and through OpenSSL, with
	// another requestUUID and nothing else changed.
	head, _, _ := strings.Cut(string(deposit), `"requestUUID"`)
	if got := strings.Count(strings.Join(outputs, ""), head); got != 3 {
		t.Errorf("the deposit was printed %d times, want 3:\n%s", got, strings.Join(outputs, "\n"))
	}
	if !strings.Contains(outputs[len(outputs)-1], "binding    holds") {
		t.Errorf("the last block printed:\n%s", outputs[len(outputs)-1])
	}
}

// copyTree copies what a checkout has, without the repository's own data.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
}
