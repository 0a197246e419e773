package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"countersign/countersigntest"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFilesOfDataDirectory: the operator finds each file that a daemon makes in docs/operator/backup.md, with
// what losing it means.
func TestFilesOfDataDirectory(t *testing.T) {
	t.Parallel()
	text, dir := page(t, "docs/operator/backup.md"), t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(countersigntest.NewService(t).MerchantKey().PublicBase64()), 0o600); err != nil {
		t.Fatal(err)
	}
	startDaemon(t, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "service"), "--alarm-url", "http://127.0.0.1:1/alarms")
	startDaemon(t, "gateway", "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--data", filepath.Join(dir, "gateway"), "--alarm-url", "http://127.0.0.1:1/alarms",
		"--service-key", key, "--api-key", "k", "--forward-url", "http://127.0.0.1:1/in", "--verify-url", "http://127.0.0.1:1/verify")
	for end, least := range map[string]int{"service": 5, "gateway": 7} {
		files, err := os.ReadDir(filepath.Join(dir, end))
		if err != nil || len(files) < least {
			t.Fatalf("%s: %v, %v", end, files, err)
		}
		for _, f := range files {
			name := strings.TrimSuffix(strings.TrimSuffix(f.Name(), "-wal"), "-shm")
			if !regexp.MustCompile("(?m)^\\| [^|]*`" + regexp.QuoteMeta(name) + "`").MatchString(text) {
				t.Errorf("docs/operator/backup.md does not say what %s of the %s is", f.Name(), end)
			}
		}
	}
}

// TestOperatorPage: the settings that docs/operator/README.md puts first are settings, the jobs that it has
// Prometheus scrape are those of the alerts, and what the runbook sends the one on call to is there.
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
	runbook := page(t, "docs/operator/runbook.md")
	_, onCall, _ := strings.Cut(runbook, "\n## On call\n")
	onCall, _, _ = strings.Cut(onCall, "\n## ")
	if n := strings.Count(onCall, "\n| ") - 1; n != 10 {
		t.Errorf("the one on call finds %d symptoms", n)
	}
	for _, link := range regexp.MustCompile(`\]\(#([a-z_]+)\)`).FindAllStringSubmatch(onCall, -1) {
		if !regexp.MustCompile("(?im)^##+ `?" + link[1] + "`?$").MatchString(runbook) {
			t.Errorf("the runbook has no section %s", link[1])
		}
	}
}
