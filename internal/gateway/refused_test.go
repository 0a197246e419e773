package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// allRefused returns all refused callbacks, of which there must be n, the newest first.
func (r *rig) allRefused(n int) (list []client.RefusedCallback) {
	r.t.Helper()
	list = all(r.t, client.All(r.t.Context(), r.client.Refused, client.RefusedFilter{}))
	if len(list) != n {
		r.t.Fatalf("%d are kept, want %d: %+v", len(list), n, list)
	}
	return list
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	return must(json.Marshal(v))(t)
}

// TestRetryRefused: a deposit that the setting refuses is kept once however often it comes, with
// what was wrong; retry refuses it with the reason while the setting stands, and books it once
// when it is changed, also where a real delivery and another retry race with it.
func TestRetryRefused(t *testing.T) {
	eachUnbound(t, func(c *Config) { c.Callbacks.Profile.Binding = merchant.BindingRequired }, func(t *testing.T, strict *rig) {
		ctx := t.Context()
		for range 3 {
			strict.deliver(countersigntest.Deposit(1))
		}
		kept := strict.allRefused(1)[0]
		if kept.Number != 3 || kept.Reason != "not_bound" || !kept.Opened || kept.State != client.RefusedOpen || kept.CallbackID != countersigntest.Deposit(1).TrackingID ||
			len(kept.Facts) != 1 || kept.Facts[0].Member != "requestUUID" || kept.Facts[0].Came == "" || !strings.Contains(kept.Setting, "--binding seen") || kept.Body != "" {
			t.Errorf("%+v", kept)
		}
		strict.wantAlarms(client.AlarmDepositRefused) // before anything is counted
		if one := must(strict.client.RefusedCallback(ctx, kept.ID))(t); one.Body == "" || !strings.Contains(one.Explanation, "binding    absent") {
			t.Errorf("%+v", one)
		}
		viewer := strict.withRole(strict.client.url, client.RoleViewer)
		seen, err := viewer.RefusedCallback(ctx, kept.ID)
		if err != nil || seen.Body != "" || seen.Explanation != "" || seen.Reason != kept.Reason {
			t.Errorf("a viewer: %+v, %v", seen, err)
		}
		dbtest.Fails(viewer.RetryRefused(ctx, kept.ID, ""))(t, client.ErrForbidden)
		dbtest.Fails(strict.client.RetryRefused(ctx, kept.ID, ""))(t, client.ErrConflict, "refused again: not_bound", "requestUUID")
		strict.allRefused(1)

		lax := newRigOn(t, strict.db, strict.service, nil)
		users := []user{lax.client, lax.withRole(lax.client.url, client.RoleApprover)}
		var racing sync.WaitGroup
		for n := range 6 {
			racing.Go(func() {
				if n%3 == 2 {
					lax.answers(countersigntest.Deposit(1), countersign.CodeAccepted)
					return
				}
				if x, err := users[n%2].RetryRefused(ctx, kept.ID, "mended"); err != nil || x.State != client.RefusedTaken || x.Inbox != 1 {
					t.Errorf("%+v, %v", x, err)
				}
			})
		}
		racing.Wait()
		if got := lax.allDeposits(); len(got) != 1 || got[0].TrackingID != kept.CallbackID {
			t.Errorf("%+v", got)
		}
		done := lax.allRefused(1)[0]
		if done.State != client.RefusedTaken || done.Note != "mended" || done.DecidedBy == "" || done.Inbox != 1 {
			t.Errorf("%+v", done)
		}
		records, err := lax.client.Audit(ctx, client.FeedOptions{Limit: 1000})
		if err != nil || strings.Count(string(asJSON(t, records)), "refused.decided") != 1 {
			t.Errorf("%s, %v", asJSON(t, records), err)
		}
		dbtest.Fails(lax.client.DismissRefused(ctx, kept.ID, ""))(t, client.ErrConflict, "taken")

		// A process that dies between the booking and its note leaves the callback open. The next retry books nothing.
		strict.deliver(countersigntest.Deposit(2))
		left, err := lax.book.Refused(ctx, strict.allRefused(2)[0].ID)
		if again := lax.handler.Retry(ctx, []byte(left.Body), false); err != nil || again.Reason != merchant.ReasonAccepted {
			t.Fatalf("%+v, %v", again, err)
		}
		if x := lax.allRefused(2)[0]; x.State != client.RefusedOpen || x.Inbox != 2 {
			t.Errorf("%+v", x)
		}
		if x, err := lax.client.RetryRefused(ctx, left.ID, ""); err != nil || x.State != client.RefusedTaken || len(lax.allDeposits()) != 2 {
			t.Errorf("%+v, %v", x, err)
		}
	})
}

// TestRetryQuestion: a question about a withdrawal is kept and explained, and no retry confirms
// its order, whichever URL it came to.
func TestRetryQuestion(t *testing.T) {
	service := newService(t, countersigntest.ServiceConfig{Unbound: true})
	strict := newRig(t, dialects[0].url(t), service, func(c *Config) { c.Callbacks.Profile.Binding = merchant.BindingRequired })
	strict.deliver(countersigntest.Withdrawal(1))
	plaintext, _, err := service.Plaintext(countersigntest.Withdrawal(1))
	ok(t, err)
	body := must(service.Seal(plaintext))(t)
	service.Post(t.Context(), strict.to, merchant.DefaultNotifyPath, body)
	list := strict.allRefused(2)
	strict.wantAlarms() // no deposit
	lax := newRigOn(t, strict.db, service, nil)
	lax.order(1)
	for _, x := range list {
		dbtest.Fails(lax.client.RetryRefused(t.Context(), x.ID, ""))(t, client.ErrConflict, "nothing is confirmed")
	}
	lax.state(1, client.OrderOpen)
	if x, err := lax.client.DismissRefused(t.Context(), list[0].ID, "seen"); err != nil || x.State != client.RefusedDismissed || x.Note != "seen" {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestOtherContentNamed: a deposit that repeats a trackingId with another amount is kept beside
// the first, with both values, and the service is not told of an order.
func TestOtherContentNamed(t *testing.T) {
	eachRig(t, nil, func(t *testing.T, r *rig) {
		r.deliver(countersigntest.Deposit(1))
		other := *countersigntest.Deposit(1)
		amount := must(countersign.ParseAmount("12.5"))(t)
		other.Amount, other.ToAddress = amount, "another"
		r.deliver(&other)
		x := r.allRefused(1)[0]
		first := countersigntest.Deposit(1)
		want := []client.Fact{
			{Member: "amount", Cause: "differs from what was taken first", Expected: first.Amount.String(), Came: "12.5"},
			{Member: "toAddress", Cause: "differs from what was taken first", Expected: first.ToAddress, Came: "another"},
		}
		if fmt.Sprint(x.Facts) != fmt.Sprint(want) || x.Inbox != 1 || strings.Contains(x.Message, "order") {
			t.Errorf("%+v", x)
		}
		dbtest.Fails(r.client.RetryRefused(t.Context(), x.ID, ""))(t, client.ErrConflict, "other_content", "12.5")
		if got := r.allDeposits(); len(got) != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// TestRefusedFlood: what a stranger posts and does not open is not kept; with an API key it is
// kept last, and never instead of what opened; hostile text stays text.
func TestRefusedFlood(t *testing.T) {
	service := newService(t, countersigntest.ServiceConfig{})
	r := newRig(t, dialects[0].url(t), service, func(c *Config) { c.Callbacks.CallbackAPIKeys = nil })
	for n := range 5 {
		service.Post(t.Context(), r.to, merchant.DefaultNotifyPath, fmt.Appendf(nil, "garbage %d", n))
	}
	r.allRefused(0)
	evil := "\x1b[31m\u202e<script>"
	body := must(service.Seal(fmt.Appendf(nil, `{"type":1,"trackingId":"t-1","amount":%s,"symbol":1}`, asJSON(t, evil))))(t)
	service.Post(t.Context(), r.to, merchant.DefaultNotifyPath, body)
	x := r.allRefused(1)[0]
	if x.Reason != "malformed" || x.Type != countersign.TypeDeposited || len(x.Facts) < 3 || strings.ContainsAny(fmt.Sprint(x), "\x1b\u202e") {
		t.Errorf("%+v", x)
	}
	r.wantAlarms(client.AlarmDepositRefused)
}
