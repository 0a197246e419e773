package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMasterKeyFrom: a command gives the key or a clear error, and the key is in no log.
func TestMasterKeyFrom(t *testing.T) {
	t.Parallel()
	const hex = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		ok(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
		return path
	}
	for _, test := range []struct{ name, command, want string }{
		{"gives it", script("good", "echo asking; echo "+hex+" >&2") + "x", "no such file"},
		{"nothing", script("none", "exit 0"), "printed nothing"},
		{"short", script("short", "echo 0011"), "printed 4 characters that are not 64"},
		{"garbage", script("garbage", "echo "+strings.Replace(hex, "0", "z", 1)), "printed 64 characters that are not 64 hexadecimal"},
		{"two keys", script("two", "echo "+hex+"; echo "+hex), "are not 64 hexadecimal"},
		{"much", script("much", "yes"), "printed more than 4096 bytes"},
		{"fails", script("fails", "echo "+hex+"; echo no permission >&2; exit 3"), "exit status 3: no permission"},
		{"tells", script("tells", "echo "+hex+"; echo the key is "+hex+" >&2; exit 3"), "exit status 3"},
		{"no shell", script("args", `test "$1" = '$(id)' || exit 4; exit 5`) + " $(id)", "exit status 5"},
		{"empty", " ", "names no program"},
	} {
		var log bytes.Buffer
		_, err := MasterKeyFrom(t.Context(), test.command, slog.New(slog.NewTextHandler(&log, nil)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if said := log.String() + err.Error(); strings.Contains(strings.ToLower(said), strings.ToLower(hex)) {
			t.Errorf("%s: the key is said: %s", test.name, said)
		}
	}
	var log bytes.Buffer
	k, err := MasterKeyFrom(t.Context(), script("key", `test -z "$(cat)" && echo unsealing >&2 && printf %s `+hex), slog.New(slog.NewTextHandler(&log, nil)))
	want, _ := ParseMasterKey(hex)
	if err != nil || k.Fingerprint() != want.Fingerprint() || !strings.Contains(log.String(), "unsealing") {
		t.Errorf("%v, %v\n%s", k, err, log.String())
	}
	was := keyCommandTime
	defer func() { keyCommandTime = was }()
	keyCommandTime = 50 * time.Millisecond
	if _, err := MasterKeyFrom(t.Context(), script("slow", "sleep 5 & wait"), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "did not end within 50ms") {
		t.Errorf("slow: %v", err)
	}
}
