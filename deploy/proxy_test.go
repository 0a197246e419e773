package deploy_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestProxy: HAProxy itself takes the configuration that docs/operator/README.md names.
func TestProxy(t *testing.T) {
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin") // where Debian has it
	tool(t, "haproxy")
	config := read(t, "proxy/haproxy.cfg")
	dir := t.TempDir()
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	pair := server.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	ok(t, err)
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
	config = regexp.MustCompile(`/etc/ssl/\w+\.pem`).ReplaceAllString(config, filepath.Join(dir, "pair.pem"))
	for name, text := range map[string]string{"pair.pem": string(both), "haproxy.cfg": config} {
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if out, err := exec.Command("haproxy", "-c", "-f", filepath.Join(dir, "haproxy.cfg")).CombinedOutput(); err != nil || strings.Contains(string(out), "WARNING") {
		t.Errorf("%v: %s", err, out)
	}
}
