package admin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
)

// onEachDatabase runs f on SQLite and, where it is installed, on PostgreSQL.
func onEachDatabase(t *testing.T, f func(t *testing.T, h *harness)) {
	endtest.Each(t, outbox.End(), func(t *testing.T, url string) { f(t, newHarness(t, url)) })
}

// TestResend: a refused callback is sent again, and a pending one before it is due: one, all that match, or all of a
// merchant that is resumed. The outbox's tests say which match.
func TestResend(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	c, ctx := h.client(client.RoleAdmin), t.Context()
	addDeposit(h, newDeposit("acme", 1))
	attempt := func(state client.CallbackState) (id string) {
		t.Helper()
		now := db.MillisOf(h.now())
		claimed := must(h.store.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneNotify, Now: now, LeaseUntil: now + 45_000, Max: 10}))(t)
		if len(claimed) != 1 {
			t.Fatalf("%d are due", len(claimed))
		}
		if cb, err := c.Callback(ctx, claimed[0].ID); err != nil || cb.State != "sending" || cb.LeaseUntil == 0 || cb.Due != 0 {
			t.Errorf("%+v, %v", cb, err)
		}
		must(h.store.Settle(ctx, []outbox.Settlement{{
			Merchant: "acme", CallbackID: claimed[0].ID, State: state, Due: now + 24*3_600_000, Reached: true, Counts: true,
			MerchantVersion: claimed[0].MerchantVersion,
			Attempt:         outbox.Attempt{Attempt: client.Attempt{Number: claimed[0].Attempt, Started: now, Result: "retry", Reason: "connect"}},
		}}, now))(t)
		return claimed[0].ID
	}
	for _, state := range []client.CallbackState{client.CallbackRefused, client.CallbackPending} {
		id := attempt(state)
		for range 2 {
			if cb, err := c.ResendCallback(ctx, id, client.ResendOne{}); err != nil || cb.State != "pending" || cb.Failed != 0 {
				t.Errorf("one that is %s: %+v, %v", state, cb, err)
			}
		}
		attempt(state)
		of := client.Resend{Filter: client.CallbackFilter{Merchant: "acme", State: state}, DryRun: true}
		for _, want := range []client.Resent{{Count: 1, DryRun: true}, {Count: 1}, {}} { // the last finds none
			of.DryRun = want.DryRun
			if r, err := c.ResendCallbacks(ctx, of); err != nil || r != want {
				t.Errorf("all that are %s: %+v, %v; want %+v", state, r, err, want)
			}
		}
	}
	attempt(client.CallbackPending)
	for _, r := range []client.Resume{{}, {Resend: true}} {
		must(c.PauseMerchant(ctx, "acme", ""))(t)
		must(c.ResumeMerchant(ctx, "acme", r))(t)
		if left, err := c.ResendCallbacks(ctx, client.Resend{Filter: client.CallbackFilter{State: "pending"}, DryRun: true}); err != nil || (left.Count == 0) != r.Resend {
			t.Errorf("%+v: %d are not due, %v", r, left.Count, err)
		}
	}
	attempt(client.CallbackPending)
}

func TestDepositBecomesItsCallback(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		c, viewer, ctx := h.client(client.RoleCore), h.client(client.RoleViewer), t.Context()
		a := h.raw(client.RoleCore, post, "/v1/deposits", api.TypeJSON, strings.Replace(endtest.Encode(t, []any{newDeposit("acme", 1)}), `"2.500000"`, `2.500000`, 1))
		a.Names(t, 422, "body[0].amount") // a program that writes numbers rounds some of them
		if !strings.Contains(a.Body, "is a number; amounts are texts") {
			t.Error(a.Body)
		}
		must(c.AddDeposits(ctx, newDeposit("acme", 1)))(t)
		list := must(c.AddDeposits(ctx, newDeposit("acme", 1), newDeposit("acme", 2)))(t)
		if !list[0].Duplicate || list[1].Duplicate || list[1].State != "pending" || list[1].TrackingID != "dep-2" {
			t.Errorf("%+v", list)
		}
		if d, ok := h.says(list[0].ID).(*countersign.Deposit); !ok || d.Amount.String() != "2.500000" || d.NewAddress != "TTo" || d.TxIndex != -1 || d.Business != 0 || d.TrackingID != "dep-1" {
			t.Errorf("the callback says %+v", d)
		}
		shown := must(viewer.Callback(ctx, list[0].ID))(t)
		if shown.Name != "NOTIFY_DEPOSITED" || shown.TxID != "0xabc1" || len(shown.Attempts) != 0 || shown.Due == 0 || shown.Deadline != 0 || !strings.Contains(string(shown.Payload), `"0xabc1"`) || strings.Contains(string(shown.Payload), "requestUUID") {
			t.Errorf("%+v", shown)
		}
		if found := must(viewer.Callbacks(ctx, client.CallbackFilter{Merchant: "acme", TxID: "0xabc2", Type: 1, State: "pending"}, client.PageOptions{}))(t); len(found.Items) != 1 || found.Items[0].ID != list[1].ID || found.Next != nil {
			t.Errorf("%+v", found)
		}
	})
}

// A withdrawal from the question to its executed end, and all that may be
// repeated on the way.
func TestWithdrawalToItsEnd(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		c, admin := h.client(client.RoleCore), h.client(client.RoleAdmin)
		w := acceptWithdrawal(h, newWithdrawal("acme", 1))
		if w.State != "awaiting" || w.TrackingID != "w-1" || w.Duplicate || w.Deadline.Time().Sub(h.now()) != time.Hour {
			t.Errorf("%+v", w)
		}
		short := newWithdrawal("acme", 2)
		short.ConfirmWithin, short.TrackingID, short.Business, short.Details = client.Duration(time.Minute), "tr-2", 5, nil
		if w2 := acceptWithdrawal(h, short); w2.Deadline.Time().Sub(h.now()) != time.Minute || w2.TrackingID != "tr-2" || w2.Ordered != nil || w2.Business != 5 {
			t.Errorf("%+v", w2)
		}
		dbtest.Fails(c.ReleaseWithdrawal(ctx, w.ID, "core-1"))(t, client.ErrConflict, "")
		h.decide(w.ID, countersign.DecisionConfirmed)
		if feed := must(c.Decisions(ctx, client.FeedOptions{}))(t); len(feed.Items) != 1 || feed.Items[0].Withdrawal.ID != w.ID || feed.Items[0].Withdrawal.Decision != "confirmed" || feed.Next != feed.Items[0].Seq {
			t.Fatalf("%+v", feed)
		}
		permit := must(c.ReleaseWithdrawal(ctx, w.ID, "core-1"))(t)
		if permit.Details.Amount.String() != "12.5" || permit.Details.Address != "TTarget" || permit.Withdrawal.State != "released" || permit.Duplicate {
			t.Errorf("%+v", permit)
		}
		again := func() {
			t.Helper()
			if got := must(c.ReleaseWithdrawal(ctx, w.ID, "core-1"))(t); got.Permit != permit.Permit || !got.Duplicate {
				t.Errorf("the same claim again: same permit %v, %+v", got.Permit == permit.Permit, got)
			}
		}
		again()
		dbtest.Fails(c.ReleaseWithdrawal(ctx, w.ID, "core-2"))(t, client.ErrConflict, "")
		open := func() []client.Alarm {
			return must(admin.Alarms(ctx, client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{}))(t).Items
		}
		if told := open(); len(told) != 1 || told[0].Kind != "wallet_differs" || told[0].Subject != w.ID+" foreign_claim" || told[0].Merchant != "acme" {
			t.Errorf("alarms %+v", told)
		}
		if a := h.postJSON("/v1/alarms/1/ack", `{"name": "somebody else"}`); a.Status != 422 {
			t.Errorf("a name of the caller's choice: status %d, want 422", a.Status)
		}
		dbtest.Fails(c.AckAlarm(ctx, 1, client.Ack{}))(t, client.ErrForbidden, "")
		acked := must(admin.AckAlarm(ctx, 1, client.Ack{Note: "the second wallet was stopped"}))(t)
		if acked.Acked == 0 || acked.AckedBy == "" || acked.AckedName != "test admin" || acked.AckedNote != "the second wallet was stopped" || acked.Kind != "wallet_differs" || len(open()) != 0 {
			t.Errorf("acknowledged: %+v", acked)
		}
		dbtest.Fails(c.ReportOutcome(ctx, w.ID, client.Outcome{Permit: "cpt_wrong", Executed: &client.Executed{TxID: "0xdone"}}))(t, client.ErrConflict, "")
		for round := range 2 {
			ended := must(c.ReportOutcome(ctx, w.ID, client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "0xdone", FromAddress: "THot"}}))(t)
			if ended.State != "executed" || ended.TxID != "0xdone" || ended.Duplicate != (round == 1) {
				t.Errorf("%+v", ended)
			}
		}
		dbtest.Fails(c.ReportOutcome(ctx, w.ID, client.Outcome{Permit: permit.Permit, Failed: &client.Failed{Reason: "no"}}))(t, client.ErrConflict, "")
		again()
		told := must(admin.Callbacks(ctx, client.CallbackFilter{Merchant: "acme", CallBackID: "w-1", Type: 3}, client.PageOptions{}))(t).Items
		if len(told) != 1 {
			t.Fatalf("%+v", told)
		}
		if d, ok := h.says(told[0].ID).(*countersign.WithdrawalDone); !ok || d.TxID != "0xdone" || d.ToAddress != "TTarget" || d.FromAddress != "THot" || d.Amount.String() != "12.5" || d.CallBackID != "w-1" {
			t.Errorf("the merchant is told %+v", d)
		}
		if asked := must(admin.Callback(ctx, w.Callback))(t); len(asked.Attempts) != 1 || asked.State != "accepted" || asked.Attempts[0].HTTPStatus != 200 {
			t.Errorf("%+v", asked)
		}
	})
}

// TestAPermitBelongsToItsToken: the claim is shown to tokens that may release and have the
// origin of the one that did, and repeating it with another token gives no permit.
func TestAPermitBelongsToItsToken(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		core := api.NewStoreToken("core", client.RoleCore, 1)
		heir, stranger := api.NewStoreToken("heir", client.RoleCore, 1), api.NewStoreToken("stranger", client.RoleCore, 1)
		reader := api.NewStoreToken("reader", client.RoleViewer, 1)
		heir.Root, reader.Root = core.Root, core.Root
		with := map[string]*client.Service{}
		for _, k := range []api.Token{core, heir, stranger, reader} {
			with[k.Name] = h.with(k)
		}
		for _, role := range []client.Role{client.RoleViewer, client.RoleOperator, client.RoleAdmin} {
			with["a "+string(role)] = h.client(role)
		}
		w := acceptWithdrawal(h, newWithdrawal("acme", 1))
		h.decide(w.ID, countersign.DecisionConfirmed)
		const claim = "execution-of-w-1"
		permit := must(with["core"].ReleaseWithdrawal(ctx, w.ID, claim))(t)
		for name, c := range with {
			shown, err1 := c.Withdrawal(ctx, w.ID)
			list, err2 := c.Withdrawals(ctx, client.WithdrawalFilter{Merchant: "acme"}, client.PageOptions{})
			one, err3 := c.Withdrawals(ctx, client.WithdrawalFilter{Merchant: "acme", CallBackID: w.CallBackID}, client.PageOptions{})
			feed, err4 := c.Decisions(ctx, client.FeedOptions{})
			if err := errors.Join(err1, err2, err3, err4); err != nil || len(list.Items) != 1 || len(one.Items) != 1 || len(feed.Items) != 1 {
				t.Fatalf("%s: %v", name, err)
			}
			want := ""
			if name == "core" || name == "heir" {
				want = claim
			}
			for what, got := range map[string]client.Withdrawal{"itself": shown, "list": list.Items[0], "search": one.Items[0], "feed": feed.Items[0].Withdrawal} {
				if got.Holder != want {
					t.Errorf("%s: %s shows the claim %q", name, what, got.Holder)
				}
			}
		}
		if log := h.raw(client.RoleViewer, "GET", "/v1/audit?limit=100", "", nil); log.Status != 200 || !strings.Contains(log.Body, "withdrawal.released") || strings.Contains(log.Body, claim) {
			t.Errorf("the audit log shows the claim: %s", log.Body)
		}
		if again, err := with["heir"].ReleaseWithdrawal(ctx, w.ID, claim); err != nil || again.Permit != permit.Permit || !again.Duplicate {
			t.Errorf("another token of the same origin: %v", err)
		}
		dbtest.Fails(with["stranger"].ReleaseWithdrawal(ctx, w.ID, claim))(t, client.ErrConflict) // a token of another origin
		alarms, err := h.client(client.RoleViewer).Alarms(ctx, client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{})
		if err != nil || len(alarms.Items) != 1 || alarms.Items[0].Kind != client.AlarmWalletDiffers || alarms.Items[0].Subject != w.ID+" foreign_claim" {
			t.Errorf("alarms %+v, %v", alarms, err)
		}
	})
}
