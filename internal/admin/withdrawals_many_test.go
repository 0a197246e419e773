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
			for _, w := range pages(t, func(o client.PageOptions) ([]client.Withdrawal, *string, error) {
				p, err := c.Withdrawals(t.Context(), f, o)
				return p.Withdrawals, p.Next, err
			}) {
				ids = append(ids, w.ID)
			}
			return ids
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
	deposit := asMembers(t, newDeposit("nobody", 1))
	deposit["tenantUserId"], deposit["chainName"] = "", ""
	digits := asMembers(t, newDeposit("nobody", 1))
	digits["amount"] = "1." + longText(100)
	for path, c := range map[string]struct {
		body any
		want []string
	}{
		"/v1/deposits":    {deposit, []string{"body.tenantUserId", "body.chainName"}},
		"/v1/deposits?":   {digits, []string{"body.amount"}},
		"/v1/withdrawals": {[]any{newWithdrawal("nobody", 1), newWithdrawal("none", 2)}, []string{"body[0].merchant"}},
		"/v1/addresses":   {newAddress("nobody", 1), []string{"body.merchant"}},
		"/v1/merchants":   {map[string]any{"notifyUrl": "https://a.example/n", "concurrency": 0}, []string{"body.id", "body.withdrawUrl", "body.concurrency"}},
	} {
		a := h.raw(client.RoleAdmin, post, path, api.TypeJSON, c.body)
		for _, location := range c.want {
			a.names(t, 422, location)
		}
		if len(a.Faults) != len(c.want) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	if n := h.counts(); n.callbacks+n.merchants != 0 {
		t.Errorf("there are %+v", n)
	}
	// A merchant needs no name: it is called by its id.
	a := h.raw(client.RoleAdmin, post, "/v1/merchants", api.TypeJSON, `{"id":"unnamed","notifyUrl":"https://a.example/n","withdrawUrl":"https://a.example/w","key":{"bits":1024}}`)
	if a.status != 201 {
		t.Errorf("without a name: %d %s", a.status, a.body)
	}
}
