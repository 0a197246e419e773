package admin

import (
	"errors"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// A merchant is deleted by two persons, when no work is left; its keys are erased, also those
// that wait in a change, and whoever names it is told that it was deleted.
func TestDeleteMerchant(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		h.merchant("other")
		alice, bob := h.person(client.RoleOperator, ""), h.person(client.RoleApprover, "")
		core, eyes := h.client(client.RoleCore), h.client(client.RoleViewer)
		for _, role := range []client.Role{client.RoleViewer, client.RoleIngest, client.RoleCore} {
			_, err := h.client(role).DeleteMerchant(ctx, "acme")
			refused(t, err, client.ErrForbidden, "this needs operator or admin")
		}
		_, err := h.person(client.RoleOperator, "other").DeleteMerchant(ctx, "acme")
		refused(t, err, client.ErrNotFound, "no such")

		w := must(core.CreateWithdrawal(ctx, newWithdrawal("acme", 1)))(t)
		_, err = alice.DeleteMerchant(ctx, "acme")
		refused(t, err, client.ErrConflict, "the merchant has work left: callbacks that wait in the lane withdraw (the first is "+w.ID+"); withdrawals that are awaiting (the first is "+w.ID+")")
		must(core.CancelWithdrawal(ctx, w.ID))(t)

		staged := must(alice.StageRotation(ctx, "acme", client.NewRotation{Key: &client.KeySpec{Bits: 1024}}))(t)
		must(approveChange(bob, ctx, staged.Change.ID))(t)
		waits := must(alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{WithdrawURL: "https://other.example/w"}}))(t)
		m := must(alice.DeleteMerchant(ctx, "acme"))(t)
		if m.Change == nil || m.Change.Kind != client.ChangeDelete || m.Change.State != client.ChangeWaiting || m.Change.After["state"] != "deleted" ||
			m.Change.Before["state"] != "active" || len(m.Change.Before["apiKey"]) != 16 || m.Change.After["apiKey"] != "" {
			t.Fatalf("%+v", m)
		}
		if is := must(eyes.Merchant(ctx, "acme"))(t); is.State != client.MerchantActive {
			t.Errorf("it is gone already: %+v", is)
		}
		// What came since is in the way of the approval, and the change goes on waiting.
		late := must(core.CreateWithdrawal(ctx, newWithdrawal("acme", 2)))(t)
		_, err = approveChange(bob, ctx, m.Change.ID)
		refused(t, err, client.ErrConflict, "the merchant has work left")
		must(core.CancelWithdrawal(ctx, late.ID))(t)
		if c := must(approveChange(bob, ctx, m.Change.ID))(t); c.State != client.ChangeApplied {
			t.Fatalf("%+v", c)
		}

		is := must(eyes.Merchant(ctx, "acme"))(t)
		if is.State != client.MerchantDeleted || is.KeySince != 0 || is.APIKeySince != 0 || is.Fingerprint == "" {
			t.Errorf("%+v", is)
		}
		if c := must(eyes.Change(ctx, waits.Change.ID))(t); c.State != client.ChangeStale || !strings.Contains(c.Reason, "deleted") {
			t.Errorf("the keys that waited: %+v", c)
		}
		for _, text := range []string{"SELECT length(content) + length(data_key) FROM changes", "SELECT COUNT(*) FROM rotations", "SELECT length(data_key) + length(api_key) + length(callback_api_key) + length(request_key) + length(response_key) FROM merchants WHERE state = 'deleted'"} {
			for _, n := range dbtest.Query(t, h.dbURL, text) {
				if n != "0" {
					t.Errorf("%s: %s bytes", text, n)
				}
			}
		}
		told := must(eyes.Alarms(ctx, client.AlarmFilter{}, client.PageOptions{}))(t).Alarms
		if len(told) != 2 || told[0].Kind != "merchant_changed" || told[0].Merchant != "acme" || !strings.Contains(told[0].Subject, "state before ") {
			t.Errorf("alarms %+v", told)
		}
		deletion := ""
		for _, e := range must(eyes.Audit(ctx, client.FeedOptions{Limit: 1000}))(t).Entries {
			if strings.Contains(string(e.Record), `"merchant.deleted"`) {
				deletion = string(e.Record)
			}
		}
		if !strings.Contains(deletion, `"after":{"state":"deleted"}`) || !strings.Contains(deletion, `"apiKey":"`) || !strings.Contains(deletion, bob.id) {
			t.Errorf("the record: %s", deletion)
		}

		list := must(eyes.Merchants(ctx, client.PageOptions{}))(t).Merchants
		gone := must(eyes.DeletedMerchants(ctx, client.PageOptions{}))(t).Merchants
		bound := must(h.person(client.RoleViewer, "acme other").DeletedMerchants(ctx, client.PageOptions{}))(t).Merchants
		if len(list) != 1 || list[0].ID != "other" || len(gone) != 1 || gone[0].ID != "acme" || len(bound) != 1 {
			t.Errorf("listed %+v, deleted %+v, of a bound token %+v", list, gone, bound)
		}

		if again := must(alice.DeleteMerchant(ctx, "acme"))(t); again.State != client.MerchantDeleted || again.Change != nil {
			t.Errorf("again %+v", again)
		}
		status := func(err error, want int, says string) {
			t.Helper()
			var p *client.Problem
			if !errors.As(err, &p) || p.Status != want || !strings.Contains(p.Error(), says) {
				t.Errorf("%v, want %d %s", err, want, says)
			}
		}
		_, err = alice.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{Name: "x"}})
		status(err, 410, "the merchant was deleted")
		_, err = alice.RotateKeys(ctx, "acme", client.NewKeys{})
		status(err, 410, "the merchant was deleted")
		_, err = alice.PauseMerchant(ctx, "acme", "")
		status(err, 410, "the merchant was deleted")
		_, err = alice.ResumeMerchant(ctx, "acme", client.Resume{})
		status(err, 410, "the merchant was deleted")
		again := newMerchant("acme")
		_, err = alice.CreateMerchant(ctx, again)
		status(err, 409, "was that of a merchant that was deleted, and is not given again")
		_, err = core.AddDeposits(ctx, newDeposit("other", 1), newDeposit("acme", 1))
		status(err, 422, "body[1].merchant was deleted: nothing is accepted for it any more")
		_, err = core.CreateWithdrawal(ctx, newWithdrawal("acme", 3))
		status(err, 422, "body.merchant was deleted")
		_, err = core.AddAddress(ctx, newAddress("acme", 1))
		status(err, 422, "body.merchant was deleted")
		if repeated := must(core.CreateWithdrawal(ctx, newWithdrawal("acme", 1)))(t); !repeated.Duplicate || repeated.State != client.WithdrawalCancelled {
			t.Errorf("a repetition %+v", repeated)
		}
		if cb := must(eyes.Callback(ctx, w.ID))(t); cb.State != client.CallbackCancelled {
			t.Errorf("the history: %+v", cb)
		}
		if m := must(h.store.Merchant(ctx, "acme"))(t); m.State != outbox.MerchantDeleted {
			t.Errorf("%+v", m)
		}
	})
}

// Without an approver a merchant is deleted at once, and told all the same.
func TestDeleteWithoutAnApprover(t *testing.T) {
	h := sqlite(t)
	ctx := t.Context()
	h.merchant("acme")
	alice := h.person(client.RoleOperator, "")
	if m := must(alice.DeleteMerchant(ctx, "acme"))(t); m.Change != nil || m.State != client.MerchantDeleted {
		t.Errorf("%+v", m)
	}
	if told := must(alice.Alarms(ctx, client.AlarmFilter{}, client.PageOptions{}))(t).Alarms; len(told) != 1 || told[0].Kind != "merchant_changed" {
		t.Errorf("alarms %+v", told)
	}
	_, err := alice.DeleteMerchant(ctx, "nobody")
	refused(t, err, client.ErrNotFound, "no such")
}
