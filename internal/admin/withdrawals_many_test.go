package admin

import (
	"slices"
	"sync"
	"testing"

	"countersign/client"
)

// An array of withdrawals is taken whole or not at all, in its order, on each database; the same
// again gives the same, also from several callers at once.
func TestManyWithdrawals(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		h.merchant("other")
		c, ctx := h.client(client.RoleCore), t.Context()
		var list []client.NewWithdrawal
		for i := range 250 {
			list = append(list, newWithdrawal([]string{"acme", "other"}[i%2], i))
		}
		list = append(list, list[249]) // twice in one request: the second is the first
		bad := slices.Clone(list)
		bad[123].Details = &client.Details{Address: "T", ChainName: "TRON", Symbol: "USDT"}
		h.postJSON("/v1/withdrawals", bad[100:]).Names(t, 422, "body[23].details.amount")
		bad[123] = list[123]
		bad[124].Merchant = "nobody"
		h.postJSON("/v1/withdrawals", bad).Names(t, 422, "body[124].merchant")
		bad[124] = list[124]
		bad[250].TenantUserID = "another"
		h.postJSON("/v1/withdrawals", bad).Names(t, 409, "body[250].callBackId")
		if n := h.counts(); n.withdrawals != 0 || n.callbacks != 0 {
			t.Fatalf("refused, and there are %+v", n)
		}
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				made, err := c.CreateWithdrawals(ctx, list...)
				if err != nil || len(made) != len(list) || !made[250].Duplicate || made[249].ID != made[250].ID {
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
		if n := h.counts(); n.withdrawals != 250 || n.callbacks != 250 {
			t.Errorf("there are %+v, want 250 of each", n)
		}
	})
}
