package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/outbox"
	"countersign/internal/policy"
	"countersign/merchant"
)

func stateOf(t *testing.T, b *book.Book, id string) client.OrderState {
	t.Helper()
	return must(b.Order(ctx, id))(t).State
}

// confirm is what the gateway does when it says yes.
func confirm(b *book.Book, id string, at db.Millis, ceilings ...policy.Limit) error {
	_, err := b.ChangeOrder(ctx, book.OrderChange{CallBackID: id, TenantUserID: "user", From: client.OrderOpen, To: client.OrderConfirmed, Ceilings: ceilings}, at)
	return err
}

// What became of an order after the backup stands: neither the policy, a person nor the
// application decides against it, before it is reconciled and after.
func TestOrdersFromBefore(t *testing.T) {
	ends := map[string]string{"declined": "declined", "cancelled": "cancelled", "ended": "ended", "executed": "executed", "open": "open"}
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
		ids := append(slices.Collect(maps.Keys(ends)), "nobody says")
		late := newOrder("late")
		late.ExpiresAt = client.Time(start + 105)
		must2(book.New(p.db(false), book.Config{}).AddOrder(ctx, late, "", start))(t)
		b := restoredBook(t, p, ids...)
		if n := must(b.ExpireOrders(ctx, start+110, 10))(t); n != 0 {
			t.Errorf("%d orders expired before it is reconciled", n)
		}
		if err := b.RefuseUnknown(ctx, "unknown", "user", start+110); !errors.Is(err, db.ErrConflict) {
			t.Errorf("refusing one that may be lost gives %v", err)
		}
		enough := func(context.Context, db.Querier, []db.Vote) (keep, enough bool, err error) {
			return true, true, nil
		}
		refused := func(id string, at db.Millis) {
			t.Helper()
			if err := confirm(b, id, at); !errors.Is(err, db.ErrConflict) {
				t.Errorf("confirming %s gives %v", id, err)
			}
			for name, decide := range map[string]func() (book.Order, error){
				"cancelling": func() (book.Order, error) { return b.CancelOrder(ctx, id, "app", "", at) },
				"declining":  func() (book.Order, error) { return b.DeclineOrder(ctx, id, "a", "", at) },
				"approving":  func() (book.Order, error) { return b.ApproveOrder(ctx, id, db.Vote{Token: "a", At: at}, enough) },
			} {
				if _, err := decide(); !errors.Is(err, db.ErrConflict) {
					t.Errorf("%s %s gives %v", name, id, err)
				}
			}
		}
		for _, id := range ids {
			refused(id, start+110)
		}
		if _, err := b.ResumeOrder(ctx, "open", "a", "", start+110); !errors.Is(err, db.ErrConflict) {
			t.Errorf("resuming before it is reconciled gives %v", err)
		}
		said := []any{Line{CallBackID: "late", State: "open"}, Line{CallBackID: "lost", TenantUserID: "user", State: "declined"}, Line{CallBackID: "executed", State: "confirmed"}}
		for id, state := range ends {
			said = append(said, Line{CallBackID: id, State: state, TxID: map[bool]string{true: "tx"}[state == "executed"]})
		}
		found, ended := reconcileGateway(t, b, true, start+200, said...)
		if !ended {
			t.Error("the epoch is still open")
		}
		if n := must(b.ExpireOrders(ctx, start+205, 10))(t); n != 1 {
			t.Errorf("%d orders expired afterwards", n)
		}
		for id, state := range ends {
			if got := stateOf(t, b, id); string(got) != state {
				t.Errorf("%s is %s", id, got)
			}
		}
		if got := stateOf(t, b, "lost"); got != client.OrderDeclined {
			t.Errorf("what was declined and lost is %s", got)
		}
		if o := must(b.Order(ctx, "executed"))(t); o.TxID != "tx" || o.Confirmed == 0 {
			t.Errorf("executed: %+v", o)
		}
		if err := confirm(b, "open", start+210); err != nil {
			t.Errorf("what nothing became of: %v", err)
		}
		left := slices.DeleteFunc(found, func(f Finding) bool { return f.Settled })
		if len(left) != 1 || left[0].Finding != NotSaid || left[0].CallBackID != "nobody says" {
			t.Errorf("left %+v", left)
		}
		refused("nobody says", start+220)
		must(b.ResumeOrder(ctx, "nobody says", "a", "", start+230))(t)
		if _, err := b.CancelOrder(ctx, "nobody says", "app", "", start+240); err != nil {
			t.Errorf("after a person looked: %v", err)
		}
		// It is quiet from now on, and a later settle changes no end.
		if found, _ := reconcileGateway(t, b, false, start+300, said...); len(found) != 0 {
			t.Errorf("found again: %+v", found)
		}
	})
}

// What was confirmed after the backup, or may have been, uses up the limits of a window.
func TestLimitsAfterRestore(t *testing.T) {
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
		b := restoredBook(t, p, "confirmed since", "perhaps")
		must2(b.AddOrder(ctx, newOrder("new"), "", start+110))(t)
		within := func(max string) policy.Limit { return policy.Limit{Since: db.Millis(start).Time(), Max: amount(max)} }
		if err := confirm(b, "new", start+120, within("1000")); !errors.Is(err, db.ErrConflict) {
			t.Errorf("confirming before it is reconciled gives %v", err)
		}
		reconcileGateway(t, b, true, start+190) // a later settle decides what an earlier one left
		if found, _ := reconcileGateway(t, b, true, start+200, Line{CallBackID: "confirmed since", State: "confirmed"}); len(found) != 2 || !found[0].Settled || found[1].Finding != NotSaid {
			t.Errorf("found %+v", found)
		}
		if err := confirm(b, "new", start+210, within("7.4")); !errors.Is(err, book.ErrChanged) { // 3 orders of 2.5
			t.Errorf("beyond the limit: %v", err)
		}
		if err := confirm(b, "new", start+220, within("7.5")); err != nil {
			t.Errorf("within the limit: %v", err)
		}
	})
}

// What the service says was executed, before the gateway is reconciled, was confirmed after the
// backup. It uses up the limits of a window too.
func TestLimitsCountWhatWasExecuted(t *testing.T) {
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) { testExecutedSince(t, p, false) })
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) { testExecutedSince(t, p, true) }) // the application says it
}

func testExecutedSince(t *testing.T, p *place, said bool) {
	b := restoredBook(t, p, "executed since")
	o := must(b.Order(ctx, "executed since"))(t)
	done := &countersign.WithdrawalDone{Head: countersign.Head{TrackingID: "done", TenantUserID: o.TenantUserID}, CallBackID: o.CallBackID, TxID: "tx",
		ToAddress: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount}
	if r, err := b.Claim(ctx, merchant.Entry{Callback: done, ID: "done", At: (start + 110).Time()}); err != nil || r.State != merchant.StateTaken {
		t.Fatalf("%+v, %v", r, err)
	}
	must2(b.AddOrder(ctx, newOrder("new"), "", start+120))(t)
	if said { // the application knows when it was confirmed
		line := Line{CallBackID: "executed since", State: "executed", TxID: "tx", Confirmed: client.Time(start + 105)}
		reconcileGateway(t, b, true, start+200, line)
		if o := must(b.Order(ctx, "executed since"))(t); o.Confirmed != start+105 || o.State != client.OrderExecuted {
			t.Errorf("it is %s, confirmed at %d", o.State, o.Confirmed)
		}
		if found, _ := reconcileGateway(t, b, false, start+205, line); len(found) != 0 { // a comparison is quiet from now on
			t.Errorf("found again: %+v", found)
		}
	} else {
		reconcileGateway(t, b, true, start+200)
	}
	for _, user := range []string{"", o.TenantUserID} {
		within := func(max string, since db.Millis) policy.Limit {
			return policy.Limit{TenantUserID: user, Since: since.Time(), Max: amount(max)}
		}
		if err := confirm(b, "new", start+210, within("4.9", start)); !errors.Is(err, book.ErrChanged) { // 2 orders of 2.5
			t.Errorf("beyond the limit of user %q: %v", user, err)
		}
		if s := must(b.Spent(ctx, o.Symbol, user, start+111))(t); s.String() != "0" {
			t.Errorf("after it was executed %s is spent", s)
		}
	}
	if err := confirm(b, "new", start+220, policy.Limit{Since: db.Millis(start).Time(), Max: amount("5")}); err != nil {
		t.Errorf("within the limit: %v", err)
	}
}

// A question whose answer was yes in the backup is not answered by repeating it: what was
// confirmed may have ended.
func TestOldAnswerWaits(t *testing.T) {
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
		b := book.New(p.db(false), book.Config{})
		must2(b.AddOrder(ctx, newOrder("order"), "", start))(t)
		ask := merchant.NewEntry(&countersign.WithdrawalRequest{Head: countersign.Head{RequestUUID: "uuid", TrackingID: "order", TenantUserID: "user"}, CallBackID: "order"})
		ask.At, ask.Lease = start.Time(), 1000e6
		c := must(b.Claim(ctx, ask))(t)
		ok(t, confirm(b, "order", start))
		must(b.Settle(ctx, merchant.Settlement{Type: countersign.TypeRequestWithdraw, ID: ask.ID, Claim: c.Claim, Final: true, At: start.Time(),
			Reply: merchant.Reply{TenantUserID: "user", Details: details}}))(t)
		b = book.New(p.restore(p.backup()), book.Config{})
		must(b.Restored(ctx, 0, start+100))(t)
		if c := must(b.Claim(ctx, ask))(t); c.Reply.Code != countersign.CodeNotKnownYet {
			t.Errorf("before it is reconciled: %+v", c)
		}
		reconcileGateway(t, b, true, start+200)
		if c := must(b.Claim(ctx, ask))(t); c.Reply.Code != countersign.CodeNotKnownYet {
			t.Errorf("while nobody says what became of it: %+v", c)
		}
		reconcileGateway(t, b, true, start+300, Line{CallBackID: "order", State: "confirmed"})
		if c := must(b.Claim(ctx, ask))(t); c.Reply.Code != countersign.CodeAccepted {
			t.Errorf("afterwards: %+v", c)
		}
	})
}

// transferOf is a deposit of one transaction under any trackingId.
func transferOf(trackingID string, index int64, sum string, at db.Millis) merchant.Entry {
	e := merchant.NewEntry(&countersign.Deposit{Head: countersign.Head{RequestUUID: "uuid-" + trackingID, TrackingID: trackingID, TenantUserID: "user"},
		TxID: "tx", TxIndex: index, ChainName: "TRON", Symbol: "USDT", Amount: amount(sum), ToAddress: "TTo"})
	e.At = at.Time()
	return e
}

func depositState(t *testing.T, b *book.Book, id string) client.DepositState {
	t.Helper()
	list, _, err := b.SearchDeposits(ctx, client.DepositSearch{TrackingID: id}, 10, 0)
	if err != nil || len(list) != 1 {
		t.Fatalf("%s: %+v, %v", id, list, err)
	}
	return list[0].State
}

// A transfer that was booked under one trackingId is not credited under another, and a
// deposit that was booked under one webhook-id not under another. A file of a second
// reconcile that lacks a line of the first changes nothing.
func TestBookedStaysBooked(t *testing.T) {
	index := int64(3)
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
		b := book.New(p.db(false), book.Config{})
		// Held before the backup as a possible duplicate; credited after it, by a person.
		for _, id := range []string{"first", "credited since"} {
			must(b.Claim(ctx, transferOf(id, 0, "7.4", start)))(t)
		}
		b = book.New(p.restore(p.backup()), book.Config{})
		must(b.Restored(ctx, 0, start+100))(t)
		held, _, err := b.SearchDeposits(ctx, client.DepositSearch{State: client.DepositHeld}, 10, 0)
		ok(t, err)
		if _, err := b.DecideDeposit(ctx, held[0].Seq, client.DepositCredited, "a", "", start+110); !errors.Is(err, db.ErrConflict) {
			t.Errorf("crediting before it is reconciled gives %v", err)
		}
		must(b.Claim(ctx, transferOf("another name", 3, "7.4", start+110)))(t)
		must(b.Claim(ctx, transferOf("a copy", 5, "7.4", start+110)))(t) // the amount of what is lost, under another index
		line := Line{TrackingID: "lost", Symbol: "USDT", Amount: amount("7.40"), TxID: "tx", ChainName: "TRON", ToAddress: "TTo", TxIndex: &index}
		whole := []any{Line{TrackingID: "first"}, Line{TrackingID: "credited since"}, line}
		found, _ := reconcileGateway(t, b, true, start+200, whole...)
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.Finding == BookedNotSent && f.TrackingID == "lost" && f.Settled }) {
			t.Errorf("what was lost is not named: %+v", found)
		}
		must(b.Claim(ctx, transferOf("a third name", 3, "7.4", start+210)))(t)
		lost := transferOf("lost", 3, "7.4", start+220)
		must(b.Claim(ctx, lost))(t)
		must(b.Claim(ctx, transferOf("another index", 4, "9", start+220)))(t)

		check := func(when string) {
			t.Helper()
			for id, want := range map[string]client.DepositState{"credited since": client.DepositRejected, "another name": client.DepositHeld, "a copy": client.DepositHeld, "a third name": client.DepositHeld,
				"lost": client.DepositRejected, "another index": client.DepositTaken} {
				if got := depositState(t, b, id); got != want {
					t.Errorf("%s: %s is %s, not %s", when, id, got, want)
				}
			}
		}
		check("after the first reconcile")
		b = book.New(p.restore(p.backup()), book.Config{})
		must(b.Restored(ctx, 0, start+300))(t)
		reconcileGateway(t, b, true, start+400, whole[:2]...)
		check("after a second whose file lacks a line")
		// The names of what does not count were said: a comparison is quiet about them.
		if found, _ := reconcileGateway(t, b, false, start+500, append(whole, Line{TrackingID: "another index"})...); len(found) != 0 {
			t.Errorf("found again: %+v", found)
		}
	})
}

// What became of a withdrawal after the backup stands: it is neither confirmed, released
// nor cancelled before it is reconciled, and after that only as the core or a person says.
func TestWithdrawalsFromBefore(t *testing.T) {
	type says struct {
		core, merchant string // states; empty: they do not say it
		want           client.WithdrawalState
		finding        Kind // that is left or settled; empty: none
	}
	for name, s := range map[string]says{
		"cancelled by the core":       {core: "cancelled", want: client.WithdrawalCancelled, finding: EndedThere},
		"declined, says the core":     {core: "declined", want: client.WithdrawalDeclined, finding: EndedThere},
		"declined, say both":          {core: "declined", merchant: "declined", want: client.WithdrawalDeclined, finding: EndedThere},
		"expired, says the core":      {core: "expired", want: client.WithdrawalExpired, finding: EndedThere},
		"blocked, says the core":      {core: "blocked", want: client.WithdrawalBlocked, finding: EndedThere},
		"declined at the merchant":    {core: "open", merchant: "declined", want: client.WithdrawalCancelled, finding: EndedThere},
		"nothing became of it":        {core: "open", want: client.WithdrawalAwaiting, finding: Reopened},
		"nobody says":                 {want: client.WithdrawalAwaiting, finding: NotSaid},
		"confirmed, then blocked":     {core: "blocked", want: client.WithdrawalBlocked, finding: EndedThere},
		"confirmed, then ended there": {core: "open", merchant: "ended", want: client.WithdrawalBlocked, finding: EndedThere},
		"confirmed, nobody says":      {want: client.WithdrawalConfirmed, finding: NotSaid},
	} {
		t.Run(name, func(t *testing.T) {
			onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
				n := 1
				if strings.HasPrefix(name, "confirmed") {
					n = released - 1 // with its approvals
				}
				steps(t, p, n)
				o := again(t, p)
				w := order(t, o)
				nothing := func(when string, at db.Millis) {
					t.Helper()
					answer(t, o, at)
					if got := order(t, o); got.State != w.State {
						t.Errorf("%s: %s, then %s", when, w.State, got.State)
					}
					if got, err := release(t, o, "execution"); !errors.Is(err, db.ErrConflict) {
						t.Errorf("%s: a permit %q, %v", when, got, err)
					}
					if _, err := o.CancelWithdrawal(ctx, w.ID, at); !errors.Is(err, db.ErrConflict) {
						t.Errorf("%s: cancelling gives %v", when, err)
					}
				}
				nothing("before it is reconciled", start+700)
				if _, err := o.BlockWithdrawal(ctx, w.ID, "fraud", "a", start+700); !errors.Is(err, db.ErrConflict) {
					t.Errorf("blocking gives %v", err)
				}
				if err := o.ResumeWithdrawal(ctx, w.ID, "looked", false, start+700); !errors.Is(err, db.ErrConflict) {
					t.Errorf("resuming gives %v", err)
				}
				var core, merchant []any
				if s.core != "" {
					core = append(core, Line{Merchant: "shop", CallBackID: "order", State: s.core})
				}
				if s.merchant != "" {
					merchant = append(merchant, Line{Merchant: "shop", CallBackID: "order", State: s.merchant})
				}
				var found []Finding
				config := Config{Executed: lines(t, core...), Booked: lines(t, merchant...), Settle: true, Report: into(&found), Now: start + 800}
				if ended := must(Service(ctx, o, config))(t); !ended {
					t.Error("the epoch is still open")
				}
				got := order(t, o)
				if got.State != s.want {
					t.Errorf("it is %s; found %+v", got.State, found)
				}
				// Who reads the decisions is not told otherwise than before.
				decision := map[client.WithdrawalState]countersign.Decision{client.WithdrawalAwaiting: "", client.WithdrawalBlocked: countersign.DecisionConfirmed}
				want, undecided := decision[s.want]
				if !undecided {
					want = countersign.Decision(s.want)
				}
				if got.Decision != want {
					t.Errorf("its decision is %q, not %q", got.Decision, want)
				}
				if len(found) != 1 || found[0].Finding != s.finding || found[0].Settled == (s.finding == NotSaid) {
					t.Errorf("found %+v", found)
				}
				if s.finding == NotSaid {
					nothing("while nobody says it", start+20_000)
					must(true, o.ResumeWithdrawal(ctx, w.ID, "looked", false, start+30_000))(t)
				}
				if s.finding == NotSaid || s.finding == Reopened {
					answer(t, o, start+60_000)
					for _, step := range withdrawalSteps[answered : released-1] {
						step(t, o)
					}
					if _, err := release(t, o, "execution"); err != nil {
						t.Errorf("in the end: %v", err)
					}
				}
			})
		})
	}
}

// A withdrawal that is lost and that the core had cancelled is not asked for again.
func TestLostAndCancelled(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
		steps(t, p, 0)
		o := again(t, p)
		reconcileService(t, o, true, start+660, Line{Merchant: "shop", CallBackID: "order", TenantUserID: "user", State: "cancelled", Address: details.Address, ChainName: details.ChainName,
			Symbol: details.Symbol, Amount: details.Amount})
		withdrawalSteps[0](t, o) // the core adds it again
		answer(t, o, start+700)
		if got := order(t, o); got.State != client.WithdrawalCancelled {
			t.Errorf("it is %s", got.State)
		}
	})
}

// A line of an order that lacks something does not keep the others from being settled, and the
// epoch stays open until it is mended. A state that nobody knows settles nothing.
func TestOrderLinesThatLack(t *testing.T) {
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
		b := restoredBook(t, p, "declined")
		good, lost := Line{CallBackID: "declined", State: "declined"}, Line{CallBackID: "lost", State: "confirmed"}
		settle := func(said ...any) (ended bool, found []Finding, err error) {
			ended, err = Gateway(ctx, b, Config{Booked: lines(t, said...), Settle: true, Report: into(&found), Now: start + 200})
			return ended, found, err
		}
		if ended, _, err := settle(good, Line{CallBackID: "x", State: "gone"}); ended || err == nil || !strings.Contains(err.Error(), `state "gone" is not known`) || stateOf(t, b, "declined") != client.OrderOpen {
			t.Fatalf("an unknown state: %v, %v, and the other is %s", ended, err, stateOf(t, b, "declined"))
		}
		ended, found, err := settle(lost, good)
		if ended || err != nil || len(found) != 2 || found[0].CallBackID != "lost" || !strings.Contains(found[0].Reason, "tenantUserId") || found[0].Settled {
			t.Fatalf("ended %v with %+v, %v", ended, found, err)
		}
		if got := stateOf(t, b, "declined"); got != client.OrderDeclined {
			t.Errorf("the other is %s", got)
		}
		lost.TenantUserID, lost.Address, lost.ChainName, lost.Symbol, lost.Amount = "user", details.Address, details.ChainName, details.Symbol, details.Amount
		if ended, found, err := settle(good, lost); !ended || err != nil || stateOf(t, b, "lost") != client.OrderConfirmed {
			t.Errorf("mended: %v, %+v, %v", ended, found, err)
		}
	})
}

// TestApprovalsOfOrders restores an order at the gateway, which two persons approve, from between the two. What the
// application says was confirmed is not approved again.
func TestApprovalsOfOrders(t *testing.T) {
	approve := func(b *book.Book, by string, at db.Millis) (book.Order, error) {
		return b.ApproveOrder(ctx, "order", db.Vote{Token: by, Name: by, At: at},
			func(_ context.Context, _ db.Querier, given []db.Vote) (keep, enough bool, err error) {
				again := slices.ContainsFunc(given, func(a db.Vote) bool { return a.Token == by })
				return !again, !again && len(given) == 1, nil
			})
	}
	for _, said := range []string{"open", "confirmed"} {
		onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
			b := book.New(p.db(false), book.Config{})
			must2(b.AddOrder(ctx, newOrder("order"), "", start))(t)
			if o := must(approve(b, "ann", start+10))(t); o.State.Undecided() != true || o.State == client.OrderApproved {
				t.Fatalf("one approval gives %s", o.State)
			}
			backup := p.backup()
			b = book.New(p.db(false), book.Config{})
			if o := must(approve(b, "bob", start+20))(t); o.State != client.OrderApproved {
				t.Fatalf("two approvals give %s", o.State)
			}
			b = book.New(p.restore(backup), book.Config{})
			must(b.Restored(ctx, 0, start+100))(t)
			if _, err := approve(b, "bob", start+110); !errors.Is(err, db.ErrConflict) {
				t.Errorf("approved before it was reconciled: %v", err)
			}
			line := Line{CallBackID: "order", State: said}
			if said == "confirmed" {
				line.TxID = "tx"
			}
			if _, ended := reconcileGateway(t, b, true, start+200, line); !ended {
				t.Fatal("the epoch is still open")
			}
			if said == "confirmed" {
				if o, err := approve(b, "bob", start+300); !errors.Is(err, db.ErrConflict) {
					t.Errorf("what was confirmed is approved: %s, %v", o.State, err)
				}
				return
			}
			if o := must(b.Order(ctx, "order"))(t); o.Restored {
				must(b.ResumeOrder(ctx, "order", "a", "", start+210))(t)
			}
			for i := range 2 {
				if o := must(approve(b, "ann", start+300+db.Millis(i)))(t); o.State == client.OrderApproved {
					t.Errorf("one person approved twice: %s", o.State)
				}
			}
			list := must(b.OrderApprovals(ctx, b, must(b.Order(ctx, "order"))(t)))(t)
			if len(list) != 1 || list[0].Token != "ann" || list[0].At != start+10 {
				t.Errorf("%+v", list)
			}
			if o := must(approve(b, "bob", start+310))(t); o.State != client.OrderApproved {
				t.Errorf("two approvals give %s", o.State)
			}
		})
	}
}
