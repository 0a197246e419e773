package admin

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/api"
)

func withdrawals(n int) (list []client.NewWithdrawal) {
	for i := range n {
		list = append(list, newWithdrawal([]string{"acme", "other"}[i%2], i))
	}
	return list
}

// An array of withdrawals is taken whole or not at all, in its order, on each database; the same
// again gives the same, also from several callers at once.
func TestManyWithdrawals(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		h.merchant("other")
		c, ctx := h.client(client.RoleCore), t.Context()
		list := withdrawals(250)
		bad := slices.Clone(list)
		bad[123].Details = &client.Details{Address: "T", ChainName: "TRON", Symbol: "USDT"}
		bad[124].Merchant = "nobody"
		a := h.postJSON("/v1/withdrawals", bad[100:])
		a.names(t, 422, "body[23].details.amount")
		bad[123] = list[123]
		h.postJSON("/v1/withdrawals", bad).names(t, 422, "body[124].merchant")
		if n := h.counts(); n.withdrawals != 0 || n.callbacks != 0 {
			t.Fatalf("refused, and there are %+v", n)
		}
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				made, err := c.CreateWithdrawals(ctx, list...)
				if err != nil || len(made) != len(list) {
					t.Errorf("%d are taken: %v", len(made), err)
					return
				}
				for i, m := range made {
					if m.CallBackID != list[i].CallBackID || m.Merchant != list[i].Merchant || m.State != client.WithdrawalAwaiting || m.Ordered == nil {
						t.Errorf("%d is %+v", i, m)
					}
				}
			})
		}
		callers.Wait()
		if n := h.counts(); n.withdrawals != len(list) || n.callbacks != len(list) {
			t.Errorf("there are %+v, want %d of each", n, len(list))
		}
		// Twice in one request: the second is the first.
		twice := newWithdrawal("acme", 1000)
		made, err := c.CreateWithdrawals(ctx, twice, twice)
		if err != nil || made[0].Duplicate || !made[1].Duplicate || made[0].ID != made[1].ID {
			t.Errorf("twice: %+v, %v", made, err)
		}
		other := twice
		other.TenantUserID = "another"
		h.postJSON("/v1/withdrawals", []client.NewWithdrawal{newWithdrawal("acme", 1001), other}).names(t, 409, "body[1].callBackId")
		if p, err := c.Withdrawals(ctx, client.WithdrawalFilter{CallBackID: "w-1001"}, client.PageOptions{}); err != nil || len(p.Withdrawals) != 0 {
			t.Errorf("before the one at fault: %+v, %v", p, err)
		}
	})
}

// Of a callBackId that several merchants have, the token's are found without naming a merchant.
func TestWithdrawalsOfACallBackID(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		var want []string
		for i := range 5 {
			m := fmt.Sprintf("m%d", i)
			h.merchant(m)
			want = append([]string{acceptWithdrawal(h, newWithdrawal(m, 1)).ID}, want...)
			acceptWithdrawal(h, newWithdrawal(m, 2))
		}
		find := func(c *client.Service, f client.WithdrawalFilter) (ids []string) {
			t.Helper()
			for cursor := ""; ; {
				p := must(c.Withdrawals(t.Context(), f, client.PageOptions{Limit: 2, Cursor: cursor}))(t)
				for _, w := range p.Withdrawals {
					ids = append(ids, w.ID)
				}
				if p.Next == nil {
					return ids
				}
				cursor = *p.Next
			}
		}
		of := client.WithdrawalFilter{CallBackID: "w-1"}
		if got := find(h.client(client.RoleCore), of); !slices.Equal(got, want) {
			t.Errorf("found %v, want %v", got, want)
		}
		if got := find(h.bound(client.RoleCore, "m1 m3"), of); !slices.Equal(got, []string{want[3], want[1]}) && !slices.Equal(got, []string{want[1], want[3]}) {
			t.Errorf("a bound token finds %v of %v", got, want)
		}
		for _, none := range []client.WithdrawalFilter{{CallBackID: "w-3"}, {CallBackID: "w-1", State: client.WithdrawalExecuted}} {
			if got := find(h.client(client.RoleCore), none); len(got) != 0 {
				t.Errorf("%+v finds %v", none, got)
			}
		}
	})
}

// A request names all that its schema finds at once, and then, with these mended, what no schema finds.
func TestAllFaultsAtOnce(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	wrong := func(v any, changes map[string]any) map[string]any {
		m := asMembers(t, v)
		for k, is := range changes {
			m[k] = is
		}
		return m
	}
	nobody := map[string]any{"merchant": "nobody"}
	two := map[string]any{"merchant": "nobody", "tenantUserId": "", "chainName": ""}
	member := map[string]any{"id": "x", "key": map[string]any{"bits": 1024}, "notifyUrl": "https://a.example/n", "withdrawUrl": "https://a.example/w"}
	for name, c := range map[string]struct {
		path string
		body any
		want []string
	}{
		"a deposit's schema":   {"/v1/deposits", wrong(newDeposit("acme", 1), two), []string{"body.tenantUserId", "body.chainName"}},
		"a deposit":            {"/v1/deposits", wrong(newDeposit("acme", 1), nobody), []string{"body.merchant"}},
		"an amount's digits":   {"/v1/deposits", wrong(newDeposit("nobody", 1), map[string]any{"amount": "1." + longText(100)}), []string{"body.amount"}},
		"deposits":             {"/v1/deposits", []any{newDeposit("acme", 1), wrong(newDeposit("acme", 1), nobody)}, []string{"body[1].merchant"}},
		"a withdrawal":         {"/v1/withdrawals", wrong(newWithdrawal("acme", 1), nobody), []string{"body.merchant"}},
		"withdrawals":          {"/v1/withdrawals", []any{wrong(newWithdrawal("acme", 1), nobody)}, []string{"body[0].merchant"}},
		"an address":           {"/v1/addresses", wrong(newAddress("acme", 1), nobody), []string{"body.merchant"}},
		"equal URLs":           {"/v1/merchants", wrong(member, map[string]any{"withdrawUrl": "https://A.example/n"}), []string{"body.withdrawUrl"}},
		"another scheme":       {"/v1/merchants", wrong(member, map[string]any{"notifyUrl": "ftp://a.example/n"}), []string{"body.notifyUrl"}},
		"a merchant's members": {"/v1/merchants", map[string]any{"notifyUrl": "https://a.example/n", "concurrency": 0}, []string{"body.id", "body.withdrawUrl", "body.concurrency"}},
	} {
		a := h.raw(client.RoleAdmin, post, c.path, api.TypeJSON, string(encode(t, c.body)))
		for _, location := range c.want {
			t.Run(name, func(t *testing.T) { a.names(t, 422, location) })
		}
		if len(a.Faults) != len(c.want) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	if n := h.counts(); n.callbacks != 0 || n.merchants != 1 {
		t.Errorf("there are %+v", n)
	}
	// A merchant needs no name: it is called by its id.
	a := h.raw(client.RoleAdmin, post, "/v1/merchants", api.TypeJSON, `{"id":"unnamed","notifyUrl":"https://a.example/n","withdrawUrl":"https://a.example/w","key":{"bits":1024}}`)
	if a.status != 201 {
		t.Errorf("without a name: %d %s", a.status, a.body)
	}
}
