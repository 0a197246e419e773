package admin

import (
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

// TestDepositsPerHour: whoever steals such a token invents that many deposits an hour and no more; an array is taken
// whole or not at all.
func TestDepositsPerHour(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	ctx, admin := t.Context(), h.client(client.RoleAdmin)
	for _, role := range []client.Role{client.RoleCore, client.RoleAdmin} {
		dbtest.Fails(admin.CreateToken(ctx, client.NewToken{Name: "x", Role: role, Hourly: 1}))(t, client.ErrInvalid, "")
	}
	made := must(admin.CreateToken(ctx, client.NewToken{Name: "ingest", Role: client.RoleIngest, Hourly: 4}))(t)
	if list, err := client.Get[client.List[client.Token]](ctx, admin, "/v1/tokens"); err != nil || made.Hourly != 4 || list.Items[len(list.Items)-1].Hourly != 4 {
		t.Errorf("%+v, %+v, %v", made, list, err)
	}
	send := func(want int, ns ...int) endtest.Answer {
		t.Helper()
		var list []client.NewDeposit
		for _, n := range ns {
			list = append(list, newDeposit("acme", n))
		}
		a := h.as(made.Secret.Reveal(), post, "/v1/deposits", api.TypeJSON, list)
		if a.Status != want {
			t.Fatalf("deposits %v: %d %s, want %d", ns, a.Status, a.Body, want)
		}
		return a
	}
	send(202, 0, 1)
	a, end := send(429, 2, 3, 4), h.now().UTC().Truncate(time.Hour).Add(time.Hour)
	if says := "2 are left until " + end.Format(time.RFC3339); !strings.Contains(a.Body, says) || a.Header.Get("Retry-After") == "" {
		t.Errorf("%v %s, want %q", a.Header, a.Body, says)
	}
	send(202, 1, 2, 3) // one of them is there already
	send(429, 9)
	h.pass(end.Sub(h.now()))
	send(202, 9)
}
