package daemon

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// checkMetrics compares what running daemons export with what the dashboards and the
// alerts of deploy/ ask for: each figure there is exported, by its end. Each of
// countersign's own is shown or watched somewhere.
func checkMetrics(t *testing.T, serviceURL, gatewayURL string) {
	t.Helper()
	sample := regexp.MustCompile(`(?m)^([a-z_]+)[{ ]`)
	exported := func(url string) map[string]bool {
		status, text := get(t, url+"/metrics")
		if status != http.StatusOK {
			t.Fatalf("/metrics gives %d", status)
		}
		names := map[string]bool{}
		for _, m := range sample.FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
		}
		return names
	}
	service, gateway := exported(serviceURL), exported(gatewayURL)
	named := regexp.MustCompile(`\b(countersign|process|go)_[a-z_]*[a-z]\b`)
	relay := must(os.ReadFile("../relay/metrics.go"))
	asked := map[string]bool{}
	look := func(path string, ends ...map[string]bool) {
		text := must(os.ReadFile(filepath.Join("../../deploy", path)))
		names := named.FindAllString(string(text), -1)
		if len(names) < 10 {
			t.Errorf("deploy/%s asks for %q", path, names)
		}
		for _, name := range names {
			if strings.HasPrefix(name, "countersign_certificate_") {
				continue // with TLS alone: TestTLS reads them
			}
			if name == "countersign_outbox" {
				continue // the table of a wallet core
			}
			asked[name] = true
			if part, ok := strings.CutPrefix(name, "countersign_relay_"); ok { // of another process
				made := regexp.MustCompile(`(counters|gauge|nameOf)\("` + strings.TrimSuffix(part, "_bucket") + `"`)
				if !made.Match(relay) {
					t.Errorf("deploy/%s asks for %s, which the relay does not export", path, name)
				}
				continue
			}
			if !slices.ContainsFunc(ends, func(end map[string]bool) bool { return end[name] }) {
				t.Errorf("deploy/%s asks for %s, which is not exported", path, name)
			}
		}
	}
	look("grafana/countersign-serve.json", service)
	look("grafana/countersign-gateway.json", gateway)
	look("prometheus/countersign.rules.yml", service, gateway)
	for _, end := range []map[string]bool{service, gateway} {
		for name := range maps.Keys(end) {
			base := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
			if strings.HasPrefix(name, "countersign_") && !asked[name] && !asked[base+"_bucket"] {
				t.Errorf("no dashboard and no alert uses %s", name)
			}
		}
	}
}
