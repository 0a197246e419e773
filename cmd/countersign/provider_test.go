package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
	"countersign/merchant"
)

// TestProviderFlags: what each provider is, and what flags change of it.
func TestProviderFlags(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		flags providerFlags
		want  merchant.Profile
	}{
		"countersign": {providerFlags{Provider: "countersign"}, merchant.Profile{}},
		"other":       {providerFlags{Provider: "other"}, merchant.OtherProvider()},
		"other, changed": {providerFlags{Provider: "other", Binding: "off", Lenient: &no, Hold: "ask", HoldCode: 7, APIKeyHeader: "X"},
			merchant.Profile{Binding: merchant.BindingOff, HoldCode: 7, Header: "X"}},
	} {
		if got, err := c.flags.profile(); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// TestNewDataDirectory: a daemon does not begin with an empty database where one was used with the same settings file,
// unless it is told to. Before, a gateway that was started from another directory took known deposits for new.
func TestNewDataDirectory(t *testing.T) {
	dir := t.TempDir()
	config := kong.ConfigFlag(filepath.Join(dir, "settings.toml"))
	ok(t, os.WriteFile(string(config), nil, 0o600))
	for _, end := range []string{"serve", "gateway"} {
		first, second := filepath.Join(dir, end, "first"), filepath.Join(dir, end, "second")
		start := func(data string, anew bool) {
			t.Helper()
			used, err := (&daemonFlags{New: anew}).begins(streams{settings: &config}, end, data, slog.New(slog.DiscardHandler))
			if err := errors.Join(err, os.MkdirAll(data, 0o700), os.WriteFile(filepath.Join(data, daemon.DatabaseFile), nil, 0o600)); err != nil {
				t.Fatalf("%s in %s: %v", end, data, err)
			}
			used()
		}
		refused := func(dir, known string) {
			t.Helper()
			args := []string{end, "--config", string(config), "--data", dir, "--service-key", secretFile(t, publicKey(t)), "--api-key", "k", "--check"}
			if end == "serve" {
				args = append(args[:5], "--check")
			}
			status, _, errOut := shell(t, "", args...)
			if status != exitFailed || !strings.Contains(errOut, "--data: "+dir+" has no database, and "+string(config)+" was used with the one in "+known) ||
				!strings.Contains(errOut, "give --data "+known) || !strings.Contains(errOut, "--new") {
				t.Fatalf("%s: %d %s", end, status, errOut)
			}
		}
		start(first, false)
		start(first, false)
		refused(second, first)
		start(second, true)
		start(first, false)
		start(second, false)
		ok(t, os.RemoveAll(second)) // as a disk that is not mounted
		refused(second, second)
	}
}

func publicKey(t *testing.T) string {
	t.Helper()
	key, _ := pairOf(t)
	return key.PublicBase64()
}
