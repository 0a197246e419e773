// Package deploy_test tests what is handed to operators: units, image, alerts, dashboards and settings.
package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/client"
)

// tool skips a test where a program is not installed, and fails in CI.
func tool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed", name)
	}
	t.Skipf("%s is not installed", name)
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	ok(t, err)
	return string(b)
}

// notRun returns the blocks of docs/operator/README.md that its own tests do not run, since they need what.
func notRun(t *testing.T, what string) (blocks []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)```sh not run: needs "+what+"[^\n]*\n(.*?)```").FindAllStringSubmatch(read(t, "../docs/operator/README.md"), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// TestAlerts: the rules are right, and each alert is raised by its cause.
func TestAlerts(t *testing.T) {
	tool(t, "promtool")
	run(t, "prometheus", "promtool", "check", "rules", "countersign.rules.yml")
	run(t, "prometheus", "promtool", "test", "rules", "countersign.test.yml")
	cases, rules := read(t, "prometheus/countersign.test.yml"), alerts(t)
	for name := range rules {
		if !strings.Contains(cases, `alertname="`+name+`"`) && !strings.HasPrefix(name, "CountersignAlarm") { // TestEveryAlarmAlerts
			t.Errorf("no test raises %s", name)
		}
	}
}

// alerts returns the severity of each alert.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^      - alert: (\w+)\n(?:        .*\n)*?        labels: \{severity: (page|ticket)\}$`).FindAllStringSubmatch(read(t, "prometheus/countersign.rules.yml"), -1) {
		found[m[1]] = m[2]
	}
	if n := strings.Count(read(t, "prometheus/countersign.rules.yml"), "- alert:"); n != len(found) || n < 10 || n > 20 {
		t.Fatalf("found %d alerts of %d; want at most 20", len(found), n)
	}
	return found
}

// TestEveryAlarmAlerts: an open alarm of every kind of either end raises one alert, which pages if client calls the kind
// urgent, and an acknowledged one raises none.
func TestEveryAlarmAlerts(t *testing.T) {
	tool(t, "promtool")
	rules, err := filepath.Abs("prometheus/countersign.rules.yml")
	ok(t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%s]\nevaluation_interval: 1m\ntests:\n", rules)
	kind := func(job, metric string, k client.AlarmKind) {
		severity := map[bool]string{true: "page", false: "ticket"}[k.Urgent()]
		fmt.Fprintf(&b, "  - interval: 1m\n    input_series: [{series: '%s{job=%q, instance=\"a\", kind=%q}', values: '0x5 1x5 0x5'}]\n    promql_expr_test:\n", metric, job, k)
		for _, at := range []struct{ minute, n int }{{4, 0}, {8, 1}, {13, 0}} {
			samples := "[]"
			if at.n > 0 {
				samples = fmt.Sprintf("[{labels: '{job=%q, kind=%q, severity=%q}', value: 1}]", job, k, severity)
			}
			fmt.Fprintf(&b, "      - {expr: 'count by (job, kind, severity) (ALERTS{alertname=~\"CountersignAlarm.*\", alertstate=\"firing\"})', eval_time: %dm, exp_samples: %s}\n", at.minute, samples)
		}
	}
	for _, k := range client.ValuesAt[client.AlarmKind](client.AtService) {
		kind("countersign-serve", "countersign_alarms_open", k)
	}
	for _, k := range client.ValuesAt[client.AlarmKind](client.AtGateway) {
		kind("countersign-gateway", "countersign_gateway_alarms_open", k)
	}
	path := filepath.Join(t.TempDir(), "alarms.yml")
	ok(t, os.WriteFile(path, []byte(b.String()), 0o600))
	run(t, "", "promtool", "test", "rules", path)
}

// TestRunbookAlerts: each alert says what to do; the section of a page that it names is there, and
// docs/operator/runbook.md has no section for an alert that is gone.
func TestRunbookAlerts(t *testing.T) {
	rules := alerts(t)
	for _, m := range regexp.MustCompile(`(?m)^### (Countersign\w+)$`).FindAllStringSubmatch(read(t, "../docs/operator/runbook.md"), -1) {
		if rules[m[1]] == "" {
			t.Errorf("docs/operator/runbook.md has a section for %s too many", m[1])
		}
	}
	text := read(t, "prometheus/countersign.rules.yml")
	for name := range rules {
		says := regexp.MustCompile(`alert: ` + name + `\n(?:        .*\n)*?        annotations: \{summary: ".+", do: ".+?"(?:, runbook: "(.+)")?\}\n`).FindStringSubmatch(text)
		switch {
		case says == nil:
			t.Errorf("%s does not say what to do", name)
		case says[1] != "" && says[1] != "docs/operator/runbook.md#{{ $labels.kind }}":
			page, section, _ := strings.Cut(says[1], "#")
			if !slices.Contains(headings(read(t, "../"+page)), section) {
				t.Errorf("%s names %s, which is not there", name, says[1])
			}
		}
	}
}

// TestDashboards: each panel says what it shows and asks for something that Prometheus can read.
func TestDashboards(t *testing.T) {
	tool(t, "promtool")
	for _, end := range []string{"serve", "gateway"} {
		var d struct {
			UID    string
			Panels []struct {
				ID                 int
				Title, Description string
				Targets            []struct{ Expr string }
			}
		}
		ok(t, json.Unmarshal([]byte(read(t, "grafana/countersign-"+end+".json")), &d))
		if d.UID != "countersign-"+end || len(d.Panels) < 10 {
			t.Errorf("%s: %d panels", d.UID, len(d.Panels))
		}
		rules := "groups: [{name: g, rules: ["
		for _, p := range d.Panels {
			if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %d lacks something: %+v", end, p.ID, p)
			}
			for i, target := range p.Targets { // Prometheus reads them as rules
				expr, _ := json.Marshal(target.Expr)
				rules += fmt.Sprintf("{record: 'p%d:%d', expr: %s},", p.ID, i, expr)
			}
		}
		path := filepath.Join(t.TempDir(), end+".yml")
		ok(t, os.WriteFile(path, []byte(rules+"]}]\n"), 0o600))
		run(t, "", "promtool", "check", "rules", path)
	}
}

// TestUnits: systemd takes the units, finds them well shut in, and the flags that they
// give are those of the program.
func TestUnits(t *testing.T) {
	tool(t, "systemd-analyze")
	for _, end := range []string{"serve", "gateway", "relay"} {
		name := "countersign-" + end + ".service"
		unit := read(t, "systemd/"+name)
		command := regexp.MustCompile(`(?m)^ExecStart=(/usr/local/bin/countersign) (\w+)( .*)$`).FindStringSubmatch(unit)
		if command == nil || command[2] != end {
			t.Fatalf("%s runs %q", name, command)
		}
		known := read(t, "../docs/reference/settings.md")
		if end == "relay" {
			known = strings.ReplaceAll(read(t, "../docs/provider/relay.md"), " ", "`")
		}
		for _, m := range regexp.MustCompile(`(--[a-z-]+)`).FindAllString(command[3], -1) {
			if m != "--config" && !strings.Contains(known, "`"+m+"`") {
				t.Errorf("%s gives %s, which the documents do not know", name, m)
			}
		}
		self, err := os.Executable() // systemd looks whether the program is there
		ok(t, err)
		path := filepath.Join(t.TempDir(), name)
		ok(t, os.WriteFile(path, []byte(strings.Replace(unit, command[1], self, 1)), 0o600))
		if out := run(t, "", "systemd-analyze", "verify", path); strings.Contains(out, name) {
			t.Errorf("systemd-analyze verify says of %s:\n%s", name, out)
		}
		run(t, "", "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=15", path) // 1.5 of 10
	}
}

// TestDockerfile: the image holds one static binary, built as go.mod says, that runs as a user without rights.
// TestContainerPage runs it.
func TestDockerfile(t *testing.T) {
	text := regexp.MustCompile(`\\\n`).ReplaceAllString(read(t, "Dockerfile"), "")
	mod := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	for _, want := range []string{`(?m)^FROM golang:` + mod[1] + ` `, `(?m)^FROM scratch$`, `(?m)^USER [1-9]`, `(?m)^RUN CGO_ENABLED=0 go build .* \./cmd/countersign$`, `(?m)^ENTRYPOINT \[".*"\]$`, `(?m)^CMD \[".*"\]$`} {
		if len(regexp.MustCompile(want).FindAllString(text, -1)) != 1 {
			t.Errorf("the Dockerfile has no line %s, or more than one", want)
		}
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{if .CgoFiles}}{{.ImportPath}}{{end}}", "./cmd/countersign")
	list.Dir, list.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := list.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("packages that need cgo: %v %s", err, out)
	}
}
