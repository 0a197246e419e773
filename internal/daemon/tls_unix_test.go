//go:build unix

package daemon

import (
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestPipeForACertificate: a pipe in the place of the certificate holds up no connection.
// Before, the first one waited for its writer, and all others for the first.
func TestPipeForACertificate(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	ok(t, syscall.Mkfifo(pipe, 0o600))
	before := &tls.Config{MinVersion: tls.VersionTLS12}
	c := &certificates{t: TLS{Cert: pipe, Key: pipe}, log: slog.New(slog.DiscardHandler), config: before}
	done := make(chan *tls.Config, 1)
	go func() {
		got, err := c.current(nil)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	select {
	case got := <-done:
		if got != before {
			t.Error("the settings are not those of before")
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("it waits for the pipe")
	}
}
