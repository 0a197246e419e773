package admin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/api"
)

// TestDepositsPerHour: whoever steals such a token invents that many deposits an hour and no
// more, one by one, in arrays or in lines.
func TestDepositsPerHour(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	h.merchant("other")
	ctx, admin := t.Context(), h.client(client.RoleAdmin)
	for _, role := range []client.Role{client.RoleCore, client.RoleViewer, client.RoleAdmin} {
		if _, err := admin.CreateToken(ctx, client.NewToken{Name: "x", Role: role, Hourly: 1}); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("a limit of role %s: %v", role, err)
		}
	}
	made, err := admin.CreateToken(ctx, client.NewToken{Name: "ingest", Role: client.RoleIngest, Hourly: 4})
	if err != nil || made.Hourly != 4 {
		t.Fatalf("%+v, %v", made, err)
	}
	list, err := admin.Tokens(ctx)
	if err != nil || list[len(list)-1].Hourly != 4 {
		t.Errorf("%+v, %v", list, err)
	}
	secret := made.Secret.Reveal()
	one := func(merchant string, n int) answer {
		return h.as(secret, post, "/v1/deposits", api.TypeJSON, newDeposit(merchant, n))
	}
	for _, status := range []int{one("acme", 1).status, one("other", 1).status, one("acme", 1).status} {
		if status != 202 {
			t.Fatalf("status %d", status)
		}
	}
	// An array is taken whole or not at all.
	a := h.as(secret, post, "/v1/deposits", api.TypeJSON, []client.NewDeposit{newDeposit("acme", 2), newDeposit("acme", 3), newDeposit("acme", 4)})
	end := h.now().UTC().Truncate(time.Hour).Add(time.Hour)
	if says := "2 are left until " + end.Format(time.RFC3339); a.status != 429 || !strings.Contains(a.body, says) || a.header.Get("Retry-After") == "" {
		t.Fatalf("%d %v %s, want %q", a.status, a.header, a.body, says)
	}
	a = h.as(secret, post, "/v1/deposits", api.TypeJSON, []client.NewDeposit{newDeposit("acme", 1), newDeposit("acme", 2), newDeposit("acme", 3)})
	if a.status != 202 { // one of them is there already
		t.Errorf("as many as are left: %d %s", a.status, a.body)
	}
	if a := one("other", 9); a.status != 429 {
		t.Errorf("one more: %d", a.status)
	}
	if stored := h.stored(); stored != 4 {
		t.Errorf("%d are stored, want 4", stored)
	}
	h.pass(end.Sub(h.now()))
	if a := one("other", 9); a.status != 202 {
		t.Errorf("in the next hour: %d %s", a.status, a.body)
	}
}
