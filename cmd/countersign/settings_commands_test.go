package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/countersigntest"
)

// TestSettingsOfCommands: a command that is given the settings file of a daemon calls that
// daemon: it takes the data directory from the daemon's table, and there the address and the token.
func TestSettingsOfCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "settings.toml")
	key := filepath.Join(dir, "key")
	for path, text := range map[string]string{key: countersigntest.NewService(t).MerchantKey().PublicBase64(), config: "[serve]\nlisten = \"127.0.0.1:0\"\ndata = \"" + dir + "/service\"\n" +
		"[gateway]\nlisten = \"127.0.0.1:0\"\napi-listen = \"127.0.0.1:0\"\ndata = \"" + dir + "/merchant\"\nservice-key = \"" + key + "\"\napi-key = \"k\"\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	startDaemon(t, "serve", "--config", config)
	startDaemon(t, "gateway", "--config", config)
	for want, words := range map[string][]string{
		"there is no such merchant": {"merchants", "show", "none"},
		"there is no such deposit":  {"deposits", "show", "7"},
		"there is no such order":    {"api", "order", "none", "--gateway"},
	} {
		if _, _, errOut := shell(t, "", append(words, "--config", config)...); !strings.Contains(errOut, want) {
			t.Errorf("%v: %s", words, errOut)
		}
	}
}
