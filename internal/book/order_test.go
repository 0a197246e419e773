package book

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
	"countersign/merchant"
)

func testOrder(id string, amount string) client.NewOrder {
	a, err := countersign.ParseAmount(amount)
	if err != nil {
		panic(err)
	}
	return client.NewOrder{CallBackID: id, TenantUserID: "7", Labels: map[string]string{"tier": "gold"},
		Address: "T", ChainName: "TRON", Symbol: "USDT", Amount: a}
}

// reach brings an order to a state, as it gets there; "" is no order.
func reach(b *Book, o client.NewOrder, state client.OrderState) error {
	if state == "" {
		return nil
	}
	if state == client.OrderUnknown {
		return b.RefuseUnknown(ctx, o.CallBackID, o.TenantUserID, 2)
	}
	if _, _, err := b.AddOrder(ctx, o, "", 1); err != nil || state == client.OrderOpen {
		return err
	}
	to := state
	if state == client.OrderEnded || state == client.OrderExecuted {
		to = client.OrderConfirmed
	}
	_, err := b.ChangeOrder(ctx, OrderChange{CallBackID: o.CallBackID, TenantUserID: o.TenantUserID, From: client.OrderOpen, To: to}, 2)
	switch state {
	case client.OrderEnded:
		err = errors.Join(err, notice(b, countersign.TypeInvalidAddress, o, "reach", ""))
	case client.OrderExecuted:
		err = errors.Join(err, notice(b, countersign.TypeWithdraw, o, "reach", "tx0"))
	}
	return err
}

// notice lets the service say what became of an order, under a trackingId.
func notice(b *Book, typ countersign.Type, o client.NewOrder, tracking, tx string) error {
	head := countersign.Head{TrackingID: o.CallBackID + tracking, TenantUserID: o.TenantUserID}
	var cb countersign.Callback
	switch typ {
	case countersign.TypeWithdraw:
		cb = &countersign.WithdrawalDone{Head: head, CallBackID: o.CallBackID, TxID: tx, ChainName: o.ChainName, Symbol: o.Symbol, ToAddress: o.Address, Amount: o.Amount}
	case countersign.TypeInvalidAddress:
		cb = &countersign.WithdrawalEnded{Head: head, CallBackID: o.CallBackID}
	default:
		cb = &countersign.WithdrawalNotice{Head: head, Type: typ, CallBackID: o.CallBackID}
	}
	e := merchant.NewEntry(cb)
	e.At = time.UnixMilli(60)
	_, err := b.Claim(ctx, e)
	return err
}

// TestTransitions holds every change of an order to the states from which it may be made, and to its event, its alarm
// and what the limits count then. Repeated, it changes nothing.
func TestTransitions(t *testing.T) {
	const undecided = "open held approved"
	in := func(list string, s client.OrderState) bool { return slices.Contains(strings.Fields(list), string(s)) }
	type outcome struct {
		state  client.OrderState
		event  client.EventKind // of the order; empty: none
		alarm  string
		counts string
		waits  client.WaitingFor
	}
	stays := func(from client.OrderState) outcome {
		return outcome{state: from, counts: map[bool]string{true: "10", false: "0"}[in("confirmed executed", from)]}
	}
	person := func(to client.OrderState, of string) func(client.OrderState) outcome {
		return func(from client.OrderState) outcome {
			if !in(of, from) || from == to {
				return stays(from)
			}
			return outcome{state: to, event: client.EventKind("order." + to), counts: map[bool]string{true: "10", false: "0"}[to == client.OrderConfirmed]}
		}
	}
	// paid is what becomes of an order by a transaction that pays counts in all, with a cause of an alarm if it was confirmed.
	paid := func(counts, cause string) func(client.OrderState) outcome {
		return func(from client.OrderState) outcome {
			x := outcome{state: from, event: client.EventOrderExecuted, alarm: "executed_differs: executed without confirmation", counts: counts}
			switch {
			case from == "":
				x.state, x.alarm = client.OrderUnknown, "order_unknown: never ordered"
			case in(undecided, from):
				x.state = client.OrderExecuted
			case from == client.OrderConfirmed:
				x.state, x.alarm = client.OrderExecuted, cause
			case from == client.OrderExecuted:
				x.alarm, x.counts = "executed_twice: a second transaction", map[string]string{"10": "20", "100": "110"}[counts]
			case from == client.OrderEnded:
				x.alarm = "executed_twice: executed after its end"
			}
			return x
		}
	}
	change := func(to client.OrderState, now db.Millis) func(*Book, client.NewOrder, int) error {
		return func(b *Book, o client.NewOrder, _ int) error {
			c := OrderChange{CallBackID: o.CallBackID, TenantUserID: o.TenantUserID, From: client.OrderOpen, To: to, Clock: func() db.Millis { return now }}
			_, err := b.ChangeOrder(ctx, c, 50)
			return err
		}
	}
	pays := func(change func(*client.NewOrder)) func(*Book, client.NewOrder, int) error {
		return func(b *Book, o client.NewOrder, round int) error {
			change(&o)
			return notice(b, countersign.TypeWithdraw, o, fmt.Sprint(round), "tx")
		}
	}
	waits := func(b *Book, o client.NewOrder, round int) error {
		return notice(b, countersign.TypeNotEnoughMoney, o, fmt.Sprint(round), "")
	}
	ends := func(from client.OrderState) outcome {
		x := stays(from)
		switch {
		case from == "":
			x.state = client.OrderUnknown
		case in(undecided+" confirmed", from):
			x = outcome{state: client.OrderEnded, event: "order.ended", counts: "0"}
		case from == client.OrderExecuted:
			x.alarm = "executed_twice: ended after its execution"
		}
		return x
	}
	const differs = "executed_differs: executed with other details"
	cases := map[string]struct {
		do   func(b *Book, o client.NewOrder, round int) error
		want func(from client.OrderState) outcome
	}{
		"confirmed":          {change(client.OrderConfirmed, 99), person(client.OrderConfirmed, "open")},
		"confirmed too late": {change(client.OrderConfirmed, 100), stays},
		"held":               {change(client.OrderHeld, 99), person(client.OrderHeld, "open")},
		"declined by a rule": {change(client.OrderDeclined, 99), person(client.OrderDeclined, "open")},
		"asked for another user": {func(b *Book, o client.NewOrder, _ int) error {
			_, err := b.ChangeOrder(ctx, OrderChange{CallBackID: o.CallBackID, From: client.OrderOpen, To: client.OrderDeclined, OtherUser: true}, 50)
			return err
		}, func(from client.OrderState) outcome {
			x := person(client.OrderDeclined, "open")(from)
			if x.event != "" {
				x.alarm = "order_unknown: another tenantUserId"
			}
			return x
		}},
		"declined": {func(b *Book, o client.NewOrder, _ int) error {
			_, err := b.DeclineOrder(ctx, o.CallBackID, "tok", "no", 50)
			return err
		}, person(client.OrderDeclined, undecided)},
		"cancelled": {func(b *Book, o client.NewOrder, _ int) error {
			_, err := b.CancelOrder(ctx, o.CallBackID, "tok", "", 50)
			return err
		}, person(client.OrderCancelled, undecided)},
		"approved": {func(b *Book, o client.NewOrder, _ int) error {
			_, err := b.ApproveOrder(ctx, o.CallBackID, db.Vote{Token: "tok", At: 50}, func(context.Context, db.Querier, []db.Vote) (bool, bool, error) { return true, true, nil })
			return err
		}, person(client.OrderApproved, undecided)},
		"expired": {func(b *Book, o client.NewOrder, _ int) error {
			_, early := b.ExpireOrders(ctx, 99, 10)
			_, err := b.ExpireOrders(ctx, 100, 10)
			return errors.Join(early, err)
		}, person(client.OrderExpired, undecided)},
		"unknown": {func(b *Book, o client.NewOrder, _ int) error {
			return b.RefuseUnknown(ctx, o.CallBackID, o.TenantUserID, 50)
		},
			func(from client.OrderState) outcome {
				if from != "" {
					return stays(from)
				}
				return outcome{state: client.OrderUnknown, event: client.EventOrderUnknown, alarm: "order_unknown: never ordered", counts: "0"}
			}},
		"ended": {func(b *Book, o client.NewOrder, _ int) error {
			return notice(b, countersign.TypeInvalidAddress, o, "", "")
		}, ends},
		"waiting": {waits, func(from client.OrderState) outcome {
			x := stays(from)
			if in(undecided+" confirmed", from) {
				x.event, x.waits = client.EventOrderWaiting, client.WaitingForFunds
			}
			return x
		}},
		"waiting, then ended": {func(b *Book, o client.NewOrder, round int) error {
			return errors.Join(waits(b, o, round), notice(b, countersign.TypeInvalidAddress, o, "", ""))
		}, func(from client.OrderState) outcome {
			x := ends(from)
			if x.event != "" {
				x.event = client.EventOrderWaiting + x.event
			}
			return x
		}},
		"executed":                        {pays(func(*client.NewOrder) {}), paid("10", "")},
		"executed with another amount":    {pays(func(o *client.NewOrder) { o.Amount = testOrder("", "100").Amount }), paid("100", differs)},
		"executed with another address":   {pays(func(o *client.NewOrder) { o.Address = "elsewhere" }), paid("10", differs)},
		"executed with another chainName": {pays(func(o *client.NewOrder) { o.ChainName = "ETH" }), paid("10", differs)},
		"executed with another symbol": {pays(func(o *client.NewOrder) { o.Symbol += " other" }), func(from client.OrderState) outcome {
			x := paid("10", differs)(from)
			x.counts = stays(from).counts
			return x
		}},
		"executed for another user": {pays(func(o *client.NewOrder) { o.TenantUserID = "8" }), func(from client.OrderState) outcome {
			x := paid("10", "")(from)
			if from != "" {
				x.state, x.alarm = from, "order_unknown: another tenantUserId"
			}
			if in("confirmed executed", from) {
				x.counts = "20" // the order counts too
			}
			return x
		}},
		"executed under one trackingId": {func(b *Book, o client.NewOrder, round int) error {
			return notice(b, countersign.TypeWithdraw, o, "reach", "tx") // another transaction than that of reach is refused, and counts
		}, paid("10", "")},
	}
	eachBook(t, func(t *testing.T, b *Book) {
		n, events := 0, int64(0)
		for name, c := range cases {
			for _, from := range append(client.Values[client.OrderState](), "") {
				n++
				o := testOrder(fmt.Sprint("o", n), "10")
				o.Symbol, o.ExpiresAt = fmt.Sprint("S", n), 100 // the limits count it by itself
				if err := reach(b, o, from); err != nil {
					t.Fatalf("%s, %s: %v", name, from, err)
				}
				raised := func() (list []string) {
					all := must(endtest.Alarms(ctx, b))(t)
					for _, a := range all {
						if cause, is := strings.CutPrefix(a.Subject, o.CallBackID+" ("); is {
							list = append(list, strings.Repeat(string(a.Kind)+": "+strings.TrimSuffix(cause, ")"), int(a.Number)))
						}
					}
					return list
				}
				before := len(raised())
				list := must(b.Events(ctx, events, 1000))(t)
				events += int64(len(list))
				want, failed := c.want(from), [2]error{}
				for round := range failed {
					failed[round] = c.do(b, o, round)
				}
				if errs := failed[0] != nil; errs != (failed[1] != nil) && want.state == from {
					t.Errorf("%s, %s: %v", name, from, failed)
				}
				got := outcome{}
				list, err := b.Events(ctx, events, 10)
				for _, e := range list {
					if got.event += e.Kind; e.CallBackID != o.CallBackID {
						t.Errorf("%s, %s: %+v", name, from, e)
					}
				}
				events += int64(len(list))
				is, err2 := b.Order(ctx, o.CallBackID)
				sum, err3 := b.Spent(ctx, o.Symbol, "", 0)
				got.state, got.counts, got.alarm, got.waits = is.State, sum.String(), strings.Join(raised()[before:], ", "), is.Waiting
				if other, err := b.Spent(ctx, o.Symbol+" other", "7", 0); err != nil || (other.String() == "10") != (name == "executed with another symbol") {
					t.Errorf("%s, %s: of another symbol %s count, %v", name, from, other, err)
				}
				if from == client.OrderConfirmed && strings.HasPrefix(name, "executed with another") && is.Reason != name {
					t.Errorf("%s: %q", name, is.Reason)
				}
				if is.State == client.OrderUnknown { // it would wait for a question that never comes
					if _, _, late := b.AddOrder(ctx, o, "", 50); !errors.Is(late, db.ErrConflict) {
						t.Errorf("%s, %s: ordered afterwards: %v", name, from, late)
					}
				}
				_, _ = b.CancelOrder(ctx, o.CallBackID, "tok", "", 50) // so that no later case ends it
				if want != got || err != nil || err2 != nil && !errors.Is(err2, db.ErrNotFound) || err3 != nil {
					t.Errorf("%s, %s: %+v, want %+v (%v, %v)", name, from, got, want, failed, errors.Join(err, err2, err3))
				}
			}
		}
	})
}
