package admin

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

// onEachDatabase runs f on SQLite and, where it is installed, on PostgreSQL.
func onEachDatabase(t *testing.T, f func(t *testing.T, h *harness)) {
	t.Run("sqlite", func(t *testing.T) { f(t, sqlite(t)) })
	t.Run("postgres", func(t *testing.T) { f(t, newHarness(t, ready.Postgres(outbox.End())(t))) })
}

func TestDepositBecomesItsCallback(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		c := h.client(client.RoleCore)
		a := h.raw(client.RoleCore, post, "/v1/deposits", api.TypeJSON, strings.Replace(string(encode(t, newDeposit("acme", 1))), `"2.500000"`, `2.500000`, 1))
		a.names(t, 422, "body.amount") // a program that writes numbers rounds some of them
		if !strings.Contains(a.body, "is a number; amounts are texts") {
			t.Error(a.body)
		}
		must(c.AddDeposits(t.Context(), newDeposit("acme", 1)))(t)
		list, err := c.AddDeposits(t.Context(), newDeposit("acme", 1), newDeposit("acme", 2))
		if err != nil {
			t.Fatal(err)
		}
		if !list[0].Duplicate || list[1].Duplicate || list[1].State != "pending" || list[1].TrackingID != "dep-2" {
			t.Errorf("%+v", list)
		}
		kept := must(h.store.Callback(t.Context(), list[0].ID))(t)
		parsed := must(countersign.ParseCallback(bound(t, kept.Payload), countersign.ParseOptions{}))(t)
		d, ok := parsed.(*countersign.Deposit)
		if !ok || d.Amount.String() != "2.500000" || d.NewAddress != "TTo" || d.TxIndex != -1 || d.Business != 0 || d.TrackingID != "dep-1" {
			t.Errorf("the callback says %+v", parsed)
		}
		shown := must(h.client(client.RoleViewer).Callback(t.Context(), list[0].ID))(t)
		var payload map[string]any
		if err := json.Unmarshal(shown.Payload, &payload); err != nil || payload["txId"] != "0xabc1" || payload["requestUUID"] != nil {
			t.Errorf("the payload is shown as %s, %v", shown.Payload, err)
		}
		if shown.Name != "NOTIFY_DEPOSITED" || shown.TxID != "0xabc1" || len(shown.Attempts) != 0 || shown.Due == 0 || shown.Deadline != 0 {
			t.Errorf("%+v", shown)
		}
		found, err := h.client(client.RoleViewer).Callbacks(t.Context(), client.CallbackFilter{Merchant: "acme", TxID: "0xabc2", Type: 1, State: "pending"}, client.PageOptions{})
		if err != nil || len(found.Callbacks) != 1 || found.Callbacks[0].ID != list[1].ID || found.Next != nil {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

func bound(t *testing.T, payload []byte) []byte {
	t.Helper()
	b, _, err := countersign.Bind(payload, [6]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A withdrawal from the question to its executed end, and all that may be
// repeated on the way.
func TestWithdrawalToItsEnd(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		c := h.client(client.RoleCore)
		w := acceptWithdrawal(h, newWithdrawal("acme", 1))
		if w.State != "awaiting" || w.TrackingID != "w-1" || w.Duplicate || w.Deadline.Time().Sub(h.now()) != time.Hour {
			t.Errorf("%+v", w)
		}
		short := newWithdrawal("acme", 2)
		short.ConfirmWithin, short.TrackingID, short.Business, short.Details = client.Duration(time.Minute), "tr-2", 5, nil
		if w2 := acceptWithdrawal(h, short); w2.Deadline.Time().Sub(h.now()) != time.Minute || w2.TrackingID != "tr-2" || w2.Ordered != nil || w2.Business != 5 {
			t.Errorf("%+v", w2)
		}
		if _, err := c.ReleaseWithdrawal(ctx, w.ID, "core-1"); !errors.Is(err, client.ErrConflict) {
			t.Errorf("released while awaiting: %v", err)
		}
		h.decide(w.ID, countersign.DecisionConfirmed)
		feed, err := c.Decisions(ctx, client.FeedOptions{})
		if err != nil || len(feed.Decisions) != 1 || feed.Decisions[0].Withdrawal.ID != w.ID || feed.Decisions[0].Withdrawal.Decision != "confirmed" || feed.Next != feed.Decisions[0].Seq {
			t.Fatalf("%+v, %v", feed, err)
		}
		permit := must(c.ReleaseWithdrawal(ctx, w.ID, "core-1"))(t)
		secrets.add("permit", permit.Permit.Reveal())
		if permit.Details.Amount.String() != "12.5" || permit.Details.Address != "TTarget" || permit.Withdrawal.State != "released" {
			t.Errorf("%+v", permit)
		}
		if again, err := c.ReleaseWithdrawal(ctx, w.ID, "core-1"); err != nil || again.Permit != permit.Permit || permit.Duplicate || !again.Duplicate {
			t.Errorf("the same claim again: %v, same permit: %v, duplicates: %v, %v", err, again.Permit == permit.Permit, permit.Duplicate, again.Duplicate)
		}
		if _, err := c.ReleaseWithdrawal(ctx, w.ID, "core-2"); !errors.Is(err, client.ErrConflict) {
			t.Errorf("another claim: %v", err)
		}
		if told, err := h.client(client.RoleViewer).Alarms(ctx, client.AlarmFilter{}, client.PageOptions{}); err != nil || len(told.Alarms) != 1 || told.Alarms[0].Kind != "wallet_differs" || told.Alarms[0].Subject != w.ID+" foreign_claim" || told.Alarms[0].Merchant != "acme" {
			t.Errorf("alarms %+v, %v", told, err)
		}
		if open, err := h.client(client.RoleViewer).Alarms(ctx, client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{}); err != nil || len(open.Alarms) != 1 {
			t.Errorf("open alarms %+v, %v", open, err)
		}
		if a := h.raw(client.RoleAdmin, "POST", "/v1/alarms/1/ack", "application/json", `{"name": "somebody else"}`); a.status != 422 {
			t.Errorf("a name of the caller's choice: status %d, want 422", a.status)
		}
		acked, err := h.client(client.RoleAdmin).AckAlarm(ctx, 1, client.Ack{Note: "the second wallet was stopped"})
		if err != nil || acked.Acked == 0 || acked.AckedBy == "" || acked.AckedName != "test admin" || acked.AckedNote != "the second wallet was stopped" || acked.Kind != "wallet_differs" {
			t.Errorf("acknowledged: %+v, %v", acked, err)
		}
		if open, err := h.client(client.RoleViewer).Alarms(ctx, client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{}); err != nil || len(open.Alarms) != 0 {
			t.Errorf("open alarms after the acknowledgement: %+v, %v", open, err)
		}
		if _, err := c.AckAlarm(ctx, 1, client.Ack{}); !errors.Is(err, client.ErrForbidden) {
			t.Errorf("the wallet core acknowledges: %v", err)
		}
		if _, err := c.ReportOutcome(ctx, w.ID, client.Outcome{Permit: "cpt_wrong", Executed: &client.Executed{TxID: "0xdone"}}); !errors.Is(err, client.ErrConflict) {
			t.Errorf("another permit: %v", err)
		}
		done := client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "0xdone", FromAddress: "THot"}}
		ended, err := c.ReportOutcome(ctx, w.ID, done)
		if err != nil || ended.State != "executed" || ended.TxID != "0xdone" || ended.Duplicate {
			t.Fatalf("%+v, %v", ended, err)
		}
		if again, err := c.ReportOutcome(ctx, w.ID, done); err != nil || !again.Duplicate {
			t.Errorf("the same outcome again: %+v, %v", again, err)
		}
		if _, err := c.ReportOutcome(ctx, w.ID, client.Outcome{Permit: permit.Permit, Failed: &client.Failed{Reason: "no"}}); !errors.Is(err, client.ErrConflict) {
			t.Errorf("another outcome: %v", err)
		}
		if again, err := c.ReleaseWithdrawal(ctx, w.ID, "core-1"); err != nil || again.Permit != permit.Permit {
			t.Errorf("the same claim after the end: %v", err)
		}
		told, err := h.client(client.RoleViewer).Callbacks(ctx, client.CallbackFilter{Merchant: "acme", CallBackID: "w-1", Type: 3}, client.PageOptions{})
		if err != nil || len(told.Callbacks) != 1 {
			t.Fatalf("%+v, %v", told, err)
		}
		kept := must(h.store.Callback(ctx, told.Callbacks[0].ID))(t)
		parsed := must(countersign.ParseCallback(bound(t, kept.Payload), countersign.ParseOptions{}))(t)
		if d, ok := parsed.(*countersign.WithdrawalDone); !ok || d.TxID != "0xdone" || d.ToAddress != "TTarget" || d.FromAddress != "THot" || d.Amount.String() != "12.5" || d.CallBackID != "w-1" {
			t.Errorf("the merchant is told %+v", parsed)
		}
		if asked, err := h.client(client.RoleViewer).Callback(ctx, w.Callback); err != nil || len(asked.Attempts) != 1 || asked.State != "accepted" || asked.Attempts[0].HTTPStatus != 200 {
			t.Errorf("%+v, %v", asked, err)
		}
	})
}

func TestCancelAndFind(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	c, ctx := h.client(client.RoleCore), t.Context()
	a, b := acceptWithdrawal(h, newWithdrawal("acme", 1)), acceptWithdrawal(h, newWithdrawal("acme", 2))
	for range 2 {
		if w, err := c.CancelWithdrawal(ctx, a.ID); err != nil || w.State != "cancelled" {
			t.Errorf("%+v, %v", w, err)
		}
	}
	h.decide(b.ID, countersign.DecisionDeclined)
	if _, err := c.CancelWithdrawal(ctx, b.ID); !errors.Is(err, client.ErrConflict) {
		t.Errorf("cancelled after its decision: %v", err)
	}
	for name, f := range map[string]client.WithdrawalFilter{
		"by callBackId":           {Merchant: "acme", CallBackID: "w-1"},
		"by state":                {State: "cancelled"},
		"by merchant and state":   {Merchant: "acme", State: "cancelled"},
		"by callBackId and state": {Merchant: "acme", CallBackID: "w-1", State: "cancelled"},
	} {
		if p, err := c.Withdrawals(ctx, f, client.PageOptions{}); err != nil || len(p.Withdrawals) != 1 || p.Withdrawals[0].ID != a.ID {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for name, f := range map[string]client.WithdrawalFilter{
		"other merchant": {Merchant: "none", CallBackID: "w-1"},
		"other state":    {Merchant: "acme", CallBackID: "w-1", State: "awaiting"},
		"none in state":  {State: "executed"},
	} {
		if p, err := c.Withdrawals(ctx, f, client.PageOptions{}); err != nil || len(p.Withdrawals) != 0 {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if w, err := c.Withdrawal(ctx, b.ID); err != nil || w.Decision != "declined" || w.Decided == 0 {
		t.Errorf("%+v, %v", w, err)
	}
}

// A reader that waits gets a decision when it falls, and an empty answer when
// its wait is over or the service stops.
func TestDecisionsWait(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	w := acceptWithdrawal(h, newWithdrawal("acme", 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan client.Decision)
	ended := make(chan error, 1)
	go func() {
		for d, err := range client.Follow(ctx, h.client(client.RoleViewer).Decisions, 0) {
			if err != nil {
				ended <- err
				return
			}
			got <- d
		}
		ended <- nil
	}()
	h.decide(w.ID, countersign.DecisionConfirmed)
	if d := <-got; d.Seq != 1 || d.Withdrawal.ID != w.ID {
		t.Errorf("%+v", d)
	}
	w2 := acceptWithdrawal(h, newWithdrawal("acme", 2))
	must(h.client(client.RoleCore).CancelWithdrawal(t.Context(), w2.ID))(t)
	if d := <-got; d.Seq != 2 || d.Withdrawal.State != "cancelled" {
		t.Errorf("%+v", d)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("following ended with %v", err)
	}
	if p, err := h.client(client.RoleViewer).Decisions(t.Context(), client.FeedOptions{After: 2, Wait: 20 * time.Millisecond}); err != nil || len(p.Decisions) != 0 || p.Next != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	// A stop answers those who wait: this would take a minute otherwise, and
	// the server's end waits for it.
	waiting := make(chan error)
	go func() {
		_, err := h.client(client.RoleViewer).Decisions(t.Context(), client.FeedOptions{After: 2, Wait: time.Minute})
		waiting <- err
	}()
	h.server.Stop()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

func TestAlarms(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	for _, kind := range []client.AlarmKind{client.AlarmAnswerDiffers, client.AlarmAnswerUnusable} {
		ok(t, h.store.RaiseAlarm(t.Context(), client.Alarm{Merchant: "acme", Kind: kind, Subject: "acme.x", First: db.MillisOf(h.now())}))
	}
	c := h.client(client.RoleViewer)
	p, err := c.Alarms(t.Context(), client.AlarmFilter{}, client.PageOptions{Limit: 1})
	if err != nil || len(p.Alarms) != 1 || p.Alarms[0].Kind != client.AlarmAnswerUnusable || p.Alarms[0].Text != client.AlarmAnswerUnusable.Text() ||
		p.Alarms[0].First.Time() != h.now().UTC() || p.Alarms[0].Last != p.Alarms[0].First || p.Alarms[0].Number != 1 || !slices.Equal(p.Alarms[0].Examples, []string{"acme.x"}) {
		t.Fatalf("%+v, %v", p, err)
	}
	n := 0
	for a, err := range client.All(t.Context(), c.Alarms, client.AlarmFilter{}) {
		if err != nil || a.Kind != []client.AlarmKind{client.AlarmAnswerUnusable, client.AlarmAnswerDiffers}[n] {
			t.Errorf("%+v, %v", a, err)
		}
		n++
	}
	if test, err := h.client(client.RoleOperator).TestAlarm(t.Context()); err != nil || !test.Taken || test.Status != 204 {
		t.Errorf("a test of --alarm-url: %+v, %v", test, err)
	}
}

// Refused and exhausted callbacks are sent again, one or many.
func TestResend(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	c, ctx := h.client(client.RoleAdmin), t.Context()
	for i := range 3 {
		addDeposit(h, newDeposit("acme", i))
	}
	now := db.MillisOf(h.now())
	claimed, err := h.store.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneNotify, Node: "test", Now: now, LeaseUntil: now + 45_000, Max: 10})
	if err != nil || len(claimed) != 3 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	if cb, err := c.Callback(ctx, claimed[0].ID); err != nil || cb.State != "sending" || cb.LeaseUntil == 0 || cb.Due != 0 {
		t.Errorf("%+v, %v", cb, err)
	}
	var list []outbox.Settlement
	for _, cb := range claimed {
		list = append(list, outbox.Settlement{
			Merchant: cb.Merchant, CallbackID: cb.ID, State: client.CallbackRefused, Reached: true, Counts: true,
			Attempt: outbox.Attempt{Attempt: client.Attempt{Number: cb.Attempt, Started: now, HTTPStatus: 200, Result: "refused", Reason: "merchant_refused"}},
		})
	}
	must(h.store.Settle(ctx, list, now))(t)
	filter := client.CallbackFilter{Merchant: "acme", State: "refused"}
	if r, err := c.ResendCallbacks(ctx, client.Resend{Filter: filter, DryRun: true}); err != nil || r != (client.Resent{Count: 3, DryRun: true}) {
		t.Errorf("%+v, %v", r, err)
	}
	if cb, err := c.ResendCallback(ctx, claimed[0].ID); err != nil || cb.State != "pending" {
		t.Errorf("%+v, %v", cb, err)
	}
	if cb, err := c.ResendCallback(ctx, claimed[0].ID); err != nil || cb.State != "pending" {
		t.Errorf("once more: %+v, %v", cb, err)
	}
	if r, err := c.ResendCallbacks(ctx, client.Resend{Filter: filter}); err != nil || r != (client.Resent{Count: 2, DryRun: false}) {
		t.Errorf("%+v, %v", r, err)
	}
	if st, err := c.Stats(ctx); err != nil || len(st.Lanes) == 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

// A pending callback is sent before it is due: one, all that match, or all of a merchant
// that is resumed.
func TestResendPending(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	c, ctx := h.client(client.RoleAdmin), t.Context()
	addDeposit(h, newDeposit("acme", 1))
	fail := func() (id string) {
		t.Helper()
		now := db.MillisOf(h.now())
		claimed, err := h.store.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneNotify, Node: "test", Now: now, LeaseUntil: now + 45_000, Max: 10})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("%d are due, %v", len(claimed), err)
		}
		must(h.store.Settle(ctx, []outbox.Settlement{{
			Merchant: "acme", CallbackID: claimed[0].ID, State: client.CallbackPending, Due: now + 24*3_600_000, Reached: true, Counts: true,
			Attempt: outbox.Attempt{Attempt: client.Attempt{Number: claimed[0].Attempt, Started: now, Result: "retry", Reason: "connect"}},
		}}, now))(t)
		return claimed[0].ID
	}
	id := fail()
	if cb, err := c.ResendCallback(ctx, id); err != nil || cb.State != "pending" || cb.Failed != 0 {
		t.Errorf("one: %+v, %v", cb, err)
	}
	fail()
	pending := client.Resend{Filter: client.CallbackFilter{State: "pending"}}
	for want := int64(1); want >= 0; want-- { // the second finds it due already
		if r, err := c.ResendCallbacks(ctx, pending); err != nil || r.Count != want {
			t.Errorf("all: %+v, %v, want %d", r, err, want)
		}
	}
	fail()
	for _, r := range []client.Resume{{}, {Resend: true}} {
		must(c.PauseMerchant(ctx, "acme", ""))(t)
		must(c.ResumeMerchant(ctx, "acme", r))(t)
		pending.DryRun = true
		if left, err := c.ResendCallbacks(ctx, pending); err != nil || (left.Count == 0) != r.Resend {
			t.Errorf("%+v: %d are not due, %v", r, left.Count, err)
		}
	}
	fail()
}

// Pages join without a gap and without an entry twice.
func TestPages(t *testing.T) {
	h := sqlite(t)
	c, ctx := h.client(client.RoleViewer), t.Context()
	for _, id := range []string{"m-a", "m-b", "m-c"} {
		h.merchant(id)
	}
	var list []client.NewDeposit
	for i := range 25 {
		list = append(list, newDeposit("m-a", i))
		acceptWithdrawal(h, newWithdrawal("m-b", i))
	}
	must(h.client(client.RoleCore).AddDeposits(ctx, list...))(t)
	ids := map[string]int{}
	for _, cb := range pages(t, func(o client.PageOptions) ([]client.Callback, *string, error) {
		p, err := c.Callbacks(ctx, client.CallbackFilter{Merchant: "m-a"}, o)
		return p.Callbacks, p.Next, err
	}) {
		ids[cb.ID]++
	}
	if len(ids) != 25 {
		t.Errorf("%d callbacks, want 25", len(ids))
	}
	n := 0
	for _, err := range client.All(ctx, c.Withdrawals, client.WithdrawalFilter{Merchant: "m-b"}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	for _, err := range client.All(ctx, c.Callbacks, client.CallbackFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 25+50 {
		t.Errorf("%d withdrawals and callbacks, want 75", n)
	}
	var names []string
	for m, err := range c.AllMerchants(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, m.ID)
	}
	if strings.Join(names, " ") != "m-a m-b m-c" {
		t.Errorf("%v", names)
	}
	one, err := c.Merchants(ctx, client.PageOptions{Limit: 2})
	if err != nil || len(one.Merchants) != 2 || one.Next == nil {
		t.Fatalf("%+v, %v", one, err)
	}
	if two, err := c.Merchants(ctx, client.PageOptions{Limit: 2, Cursor: *one.Next}); err != nil || len(two.Merchants) != 1 || two.Next != nil {
		t.Errorf("%+v, %v", two, err)
	}
	h.raw(client.RoleViewer, get, "/v1/callbacks?cursor=nonsense!", "", nil).names(t, 422, "query.cursor")
	h.raw(client.RoleViewer, get, "/v1/withdrawals?cursor=nonsense!", "", nil).names(t, 422, "query.cursor")
}
