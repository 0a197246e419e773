package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestKubernetes: the manifests give flags that the program has; with COUNTERSIGN_PACKAGE=1
// their fields are checked too, by a module of its own that has the types of Kubernetes.
func TestKubernetes(t *testing.T) {
	known := read(t, "../docs/settings.md")
	for _, end := range []string{"serve", "gateway"} {
		text := read(t, filepath.Join("kubernetes", end+".yaml"))
		args := regexp.MustCompile(`(?s)args: \[(.*?)\]`).FindStringSubmatch(text)
		if args == nil || !strings.HasPrefix(args[1], end+",") {
			t.Fatalf("%s.yaml runs %q", end, args)
		}
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(args[1], -1) {
			if !strings.Contains(known, "- `"+flag+"`") {
				t.Errorf("%s.yaml gives %s, which the documents do not know", end, flag)
			}
		}
	}
	if os.Getenv("COUNTERSIGN_PACKAGE") != "" {
		run(t, "kubernetes", "go", "test", "-count=1", "./...")
	}
}
