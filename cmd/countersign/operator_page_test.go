package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"countersign/internal/daemon"
)

func page(t *testing.T, name string) string {
	t.Helper()
	return string(must(os.ReadFile(filepath.Join("../..", name))))
}

// TestFilesOfDataDirectory: the operator finds each file that a daemon makes in docs/operator/backup.md, with
// what losing it means.
func TestFilesOfDataDirectory(t *testing.T) {
	t.Parallel()
	text := page(t, "docs/operator/backup.md")
	for _, name := range append([]string{daemon.AddressFile, daemon.CheckpointFile, daemon.DatabaseFile + ".lock"}, daemon.SecretFiles...) {
		if !regexp.MustCompile("(?m)^\\| [^|]*`" + regexp.QuoteMeta(name) + "`").MatchString(text) {
			t.Errorf("docs/operator/backup.md does not say what %s is", name)
		}
	}
}

// TestOperatorPage: the settings that docs/operator/README.md puts first are settings, and the jobs that it has
// Prometheus scrape are those of the alerts.
func TestOperatorPage(t *testing.T) {
	text, settings := page(t, "docs/operator/README.md"), page(t, "docs/reference/settings.md")
	_, first, _ := strings.Cut(text, "The first twelve:")
	first, _, _ = strings.Cut(first, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| ([^|]*`[^|]*) \\|").FindAllStringSubmatch(first, -1)
	if len(rows) != 12 {
		t.Errorf("the first twelve settings are %d rows", len(rows))
	}
	for _, row := range rows {
		for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
			if !strings.Contains(settings, "\n- `--"+name[1]+"`") {
				t.Errorf("there is no setting %s", name[1])
			}
		}
	}
	rules := page(t, "deploy/prometheus/countersign.rules.yml")
	for _, job := range []string{"countersign-serve", "countersign-gateway", "countersign-relay"} {
		if !strings.Contains(text, "job_name: "+job+",") || !strings.Contains(rules, job) {
			t.Errorf("the job %s is not scraped, or no alert needs it", job)
		}
	}
}
