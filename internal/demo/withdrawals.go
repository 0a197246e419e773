package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// policyText is the merchant's policy: orders are confirmed, and above a thousand a person is asked.
const policyText = `
default = "allow"

[[limit]]
name = "large amounts need a person"
symbol = "USDT"
max = "1000"
above = "ask"
`

const (
	user = "75746" // whose withdrawals they are
	// grace is how long the gateway waits for an unknown order.
	grace = time.Second
	// shortestExpiry is the shortest deadline that the service accepts.
	shortestExpiry = 10 * time.Second
)

// withdrawal is one withdrawal and how it must end.
type withdrawal struct {
	name     string
	ordered  string // amount in the merchant's book; empty: not in it
	asked    string // amount sent to the service; empty: the merchant's
	person   string // what a person at the merchant does: approve or decline
	deadline time.Duration
	waits    bool // once released, for funds and for fees
	fails    bool // in place of being executed
	want     countersign.Decision
	note     string
}

// result is how it ended.
type result struct {
	withdrawal
	got        string
	id         string
	callBackID string
	permit     string // the one that a wallet got, empty where none did
}

func withdrawals() []withdrawal {
	return []withdrawal{
		{name: "ordered", ordered: "12.50", asked: "12.5", want: countersign.DecisionConfirmed,
			note: "amounts agree by value"},
		{name: "known to the merchant alone", ordered: "7", want: countersign.DecisionConfirmed,
			note: "the details are the merchant's"},
		{name: "that fails", ordered: "3", asked: "3", fails: true, want: countersign.DecisionConfirmed,
			note: "released and not executed: its funds are free again"},
		{name: "never ordered", asked: "12.5", want: countersign.DecisionDeclined,
			note: "errCode 2001 after a moment's grace"},
		{name: "with other details", ordered: "12.5", asked: "125", want: countersign.DecisionDeclined,
			note: "the answer has other details than the request"},
		{name: "of a large amount, approved", ordered: "5000", asked: "5000", person: "approve", waits: true,
			want: countersign.DecisionConfirmed, note: "held until a person approves; waits for funds, then for fees"},
		{name: "of a large amount, declined", ordered: "6000", asked: "6000", person: "decline",
			want: countersign.DecisionDeclined, note: "held until a person declines"},
		{name: "of a large amount, forgotten", ordered: "7000", asked: "7000", deadline: shortestExpiry,
			want: countersign.DecisionExpired, note: "nobody decides before the deadline"},
	}
}

func (w withdrawal) details(i int, amount string) (*client.Details, error) {
	if amount == "" {
		return nil, nil
	}
	a, err := countersign.ParseAmount(amount)
	if err != nil {
		return nil, err
	}
	return &client.Details{Address: fmt.Sprintf("0x%040x", 0xdec0de+i), ChainName: "ETH", Symbol: "USDT", Amount: a}, nil
}

// withdraw asks about every withdrawal, lets a person act where one is needed, and waits for the decisions.
func (d *Demo) withdraw(ctx context.Context) error {
	for i, w := range withdrawals() {
		callBackID := fmt.Sprintf("demo-withdrawal-%d", i+1)
		now := db.MillisOf(time.Now())
		ordered, err := w.details(i, w.ordered)
		if err != nil {
			return err
		}
		if ordered != nil {
			if _, _, err := d.gateway.Book().AddOrder(ctx, client.NewOrder{CallBackID: callBackID,
				TenantUserID: user}.Paying(*ordered), "", now); err != nil {
				return err
			}
		}
		asked, err := w.details(i, w.asked)
		if err != nil {
			return err
		}
		in := client.NewWithdrawal{Merchant: merchantID, CallBackID: callBackID, TenantUserID: user,
			ConfirmWithin: client.Duration(w.deadline), Details: asked}
		out, err := d.api.CreateWithdrawal(ctx, in)
		if err != nil {
			return err
		}
		d.asked = append(d.asked, result{withdrawal: w, id: out.ID, callBackID: callBackID})
	}
	return d.awaitDecisions(ctx)
}

func (d *Demo) awaitDecisions(ctx context.Context) error {
	for {
		decided := 0
		for i := range d.asked {
			o := &d.asked[i]
			if o.got != "" {
				decided++
				continue
			}
			w, err := d.api.Withdrawal(ctx, o.id)
			if err != nil {
				return err
			}
			if o.got = string(w.Decision); o.got == "" && o.person != "" {
				if err := d.person(ctx, w.CallBackID, o.person); err != nil {
					return err
				}
			}
		}
		d.progress("decisions", decided, len(d.asked))
		if decided == len(d.asked) {
			return d.execute(ctx)
		}
		if !db.Sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// person acts as a person would, once the gateway holds the order.
func (d *Demo) person(ctx context.Context, callBackID, act string) error {
	o, err := d.gateway.Book().Order(ctx, callBackID)
	if err != nil || o.State != client.OrderHeld {
		return err
	}
	decide := d.shop.ApproveTask
	if act == "decline" {
		decide = d.shop.DeclineTask
	}
	_, err = decide(ctx, client.TaskID(client.TaskOrder, callBackID), "seen in the demo")
	return err
}

// execute takes the permits of all confirmed withdrawals, with two executors that want the same ones, and reports the
// outcomes.
func (d *Demo) execute(ctx context.Context) error {
	one := true
	released := 0
	for i := range d.asked {
		o := &d.asked[i]
		permits := map[string]string{}
		for _, claim := range []string{"execution A", "execution B", "execution A"} {
			p, err := d.api.ReleaseWithdrawal(ctx, o.id, claim)
			if errors.Is(err, client.ErrConflict) {
				continue
			}
			if err != nil {
				return err
			}
			before, again := permits[claim]
			if again != p.Duplicate || again && before != p.Permit.Reveal() {
				one = false
			}
			permits[claim] = p.Permit.Reveal()
		}
		confirmed := o.got == string(countersign.DecisionConfirmed)
		if len(permits) > 1 || len(permits) == 1 != confirmed {
			one = false
		}
		if o.permit = permits["execution A"]; o.permit != "" {
			released++
		}
	}
	d.check("one permit for each confirmed withdrawal, none for the others", one,
		fmt.Sprintf("%d released to the first of two executions", released))
	alarms, err := d.api.Alarms(ctx, client.AlarmFilter{Kind: client.AlarmWalletDiffers}, client.PageOptions{Limit: 100})
	if err != nil {
		return err
	}
	foreign := len(alarms.Items)
	d.check("an alarm for each second execution", foreign == released, fmt.Sprintf("%d alarms wallet_differs", foreign))
	if err := d.wait(ctx); err != nil {
		return err
	}
	return d.end(ctx)
}

// wait reports what the waiting withdrawals wait for, and returns when the merchant knows it.
func (d *Demo) wait(ctx context.Context) error {
	for _, o := range d.asked {
		if o.permit == "" || !o.waits {
			continue
		}
		for _, what := range client.Values[client.WaitingFor]() {
			if _, err := d.api.ReportWaiting(ctx, o.id, what); err != nil {
				return err
			}
		}
	}
	return d.settled(ctx, nil)
}

// end reports the outcome of every released withdrawal.
func (d *Demo) end(ctx context.Context) error {
	for _, o := range d.asked {
		if o.permit == "" {
			continue
		}
		out := client.Outcome{Permit: client.Secret(o.permit), Executed: &client.Executed{TxID: "0xdemo" + o.id}}
		if o.fails {
			out.Executed, out.Failed = nil, &client.Failed{Reason: "the address takes nothing"}
		}
		if _, err := d.api.ReportOutcome(ctx, o.id, out); err != nil {
			return err
		}
	}
	return d.settled(ctx, nil)
}
