package admin

import (
	"errors"
	"strings"
	"testing"

	"countersign/client"
)

func TestClientOfOpenRoutes(t *testing.T) {
	h := sqlite(t)
	c := must(client.NewService(client.Config{URL: h.url + "/", Token: ""}))(t)
	if err := errors.Join(c.Healthz(t.Context()), c.Readyz(t.Context())); err != nil {
		t.Error(err)
	}
	if doc, err := c.OpenAPI(t.Context()); err != nil || !strings.Contains(string(doc), `"openapi":"3.1.0"`) {
		t.Errorf("%.100s, %v", doc, err)
	}
	if _, err := c.Stats(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "401 Unauthorized: a valid token") {
		t.Errorf("without a token: %v", err)
	}
	if _, err := h.client(client.RoleViewer).Merchant(t.Context(), "../tokens"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an id with a path in it: %v", err)
	}
	if _, err := h.client(client.RoleCore).AddDeposits(t.Context()); err == nil || !strings.Contains(err.Error(), "body has 0 items") {
		t.Errorf("no deposits: %v", err)
	}
}
