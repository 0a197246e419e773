package admin

import (
	"encoding/json"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/lab/dbtest"
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
	c := must(client.NewService(client.Config{URL: h.url + "/", Token: ""}))(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		must(client.Get[json.RawMessage](t.Context(), c, path))(t)
	}
	if doc, err := client.Get[json.RawMessage](t.Context(), c, "/openapi.json"); err != nil || !strings.Contains(string(doc), `"openapi":"3.1.0"`) {
		t.Errorf("%.100s, %v", doc, err)
	}
	if _, err := c.Stats(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "401 Unauthorized: a valid token") {
		t.Errorf("without a token: %v", err)
	}
	dbtest.Fails(h.client(client.RoleViewer).Merchant(t.Context(), "../tokens"))(t, client.ErrNotFound, "")
	if _, err := h.client(client.RoleCore).AddDeposits(t.Context()); err == nil || !strings.Contains(err.Error(), "body has 0 items") {
		t.Errorf("no deposits: %v", err)
	}
	h.server.Stop()
	if a := h.raw("", get, "/readyz", "", nil); a.Status != 503 {
		t.Errorf("/readyz while stopping: %d, want 503", a.Status)
	}
}
