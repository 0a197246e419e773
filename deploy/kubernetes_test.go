package deploy_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestKubernetes: the manifests give flags that the program has; with COUNTERSIGN_PACKAGE=1
// their fields are checked too, by a module of its own that has the types of Kubernetes.
func TestKubernetes(t *testing.T) {
	known := read(t, "../docs/reference/settings.md")
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
	// Pods of the service reach merchants where the service calls them, and no more.
	text := read(t, "kubernetes/serve.yaml")
	_, egress, _ := strings.Cut(text, "  egress:")
	ports := regexp.MustCompile("`--merchant-ports` \\(`([0-9,]+)`\\)").FindStringSubmatch(known)
	if ports == nil {
		t.Fatal("the documents do not say which --merchant-ports there are")
	}
	if want := "- ports: [{port: " + strings.ReplaceAll(ports[1], ",", "}, {port: ") + "}]\n      to:"; !strings.Contains(egress, want) {
		t.Errorf("no egress of serve.yaml is %q: these ports of merchants", want)
	}
	for _, address := range []string{"10.0.0.1", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.168.0.1", "fc00::1", "fd00:ec2::254", "fe80::1"} {
		except := false
		for _, cidr := range regexp.MustCompile(`[0-9a-f.:]+/[0-9]+`).FindAllString(egress, -1) {
			p, err := netip.ParsePrefix(cidr)
			ok(t, err)
			except = except || p.Bits() > 0 && p.Contains(netip.MustParseAddr(address))
		}
		if !except {
			t.Errorf("serve.yaml lets pods call %s", address)
		}
	}
	if os.Getenv("COUNTERSIGN_PACKAGE") != "" {
		run(t, "kubernetes", "go", "test", "-count=1", "./...")
	}
}
