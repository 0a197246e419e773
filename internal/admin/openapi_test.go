package admin

import (
	"reflect"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/lab/apitest"
)

func TestOpenAPI(t *testing.T) {
	apitest.Document(t, sqlite(t).end(), reflect.TypeFor[*client.Service]())
}

func TestOpenRoutes(t *testing.T) {
	h := sqlite(t)
	for path, want := range map[string]string{
		"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ready"}`, "/metrics": "countersign_up 1",
	} {
		if a := h.raw("", get, path, "", nil); a.status != 200 || strings.TrimSpace(a.body) != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	h.server.Stop()
	if a := h.raw("", get, "/readyz", "", nil); a.status != 503 {
		t.Errorf("/readyz while stopping: %d, want 503", a.status)
	}
}
