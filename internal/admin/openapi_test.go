package admin

import (
	"strings"
	"testing"

	"countersign/internal/lab/endtest"
)

func TestOpenAPI(t *testing.T) {
	endtest.Document(t, sqlite(t).end())
}

func TestOpenRoutes(t *testing.T) {
	h := sqlite(t)
	for path, want := range map[string]string{
		"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ready"}`, "/metrics": "countersign_up 1",
	} {
		if a := h.raw("", get, path, "", nil); a.Status != 200 || strings.TrimSpace(a.Body) != want {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	h.server.Stop()
	if a := h.raw("", get, "/readyz", "", nil); a.Status != 503 {
		t.Errorf("/readyz while stopping: %d, want 503", a.Status)
	}
}
