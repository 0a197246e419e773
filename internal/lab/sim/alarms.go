package sim

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"countersign"
	"countersign/client"
)

// never are the kinds of alarms for which the simulation gives no cause: nobody changes a database
// past the program, has a key that is not theirs, or puts a backup back without saying so, and an
// honest end contradicts neither itself nor the other one.
var never = []client.AlarmKind{
	client.AlarmAuditBroken, client.AlarmApproverExpires,
	client.AlarmOutcomeDiffers, client.AlarmEvidenceDiffers, client.AlarmAddressChanged, client.AlarmUserDiffers, client.AlarmExecutedDiffers,
	client.AlarmExecutedTwice, client.AlarmExecutedAfterEnd, client.AlarmAddressHeld, client.AlarmNotBound, client.AlarmBindingBroken,
	client.AlarmSpliced, client.AlarmOtherContent, client.AlarmDisproved, client.AlarmUnverified,
}

// neverOf are those for which a merchant gives no cause. The rogue gives cause for most of the
// others. A gateway whose clock is wrong says of signed callbacks that it cannot read them.
func (w *world) neverOf(merchant string) []client.AlarmKind {
	list := never
	if !w.lost["service"] { // a restored service may ask again about what was executed, which is refused, and then tells that end
		list = slices.Concat(list, []client.AlarmKind{client.AlarmEndedAfterExecution})
	}
	if merchant == "shop" {
		list = slices.Concat(list, []client.AlarmKind{client.AlarmWrongAPIKey, client.AlarmAnswerUnbound, client.AlarmOpenFailures, client.AlarmAnswerDiffers})
		if w.signs == nil {
			list = append(list, client.AlarmNotUnderstood)
		}
	}
	return list
}

// end is an end of the link, as far as alarms go.
type end interface {
	AllAlarms(context.Context, client.AlarmFilter) iter.Seq2[client.Alarm, error]
}

// ends are both, by the names of their processes.
func (w *world) ends() map[string]end {
	return map[string]end{"service": w.operator, "gateway": w.shop.api}
}

// alarms reads the alarms of an end, however often it takes.
func (w *world) alarms(of end, f client.AlarmFilter) (list []client.Alarm) {
	w.persist("reading alarms", func() error {
		list = nil
		for a, err := range of.AllAlarms(w.ctx, f) {
			if err != nil {
				return err
			}
			list = append(list, a)
		}
		return nil
	})
	return list
}

// wantAlarm: an alarm that must have been raised was, and is open if it says for how long it lasts.
func (w *world) wantAlarm(of end, f client.AlarmFilter, why string) {
	for _, a := range w.alarms(of, f) {
		if f.Kind.Ended() == "" || a.Open() {
			return
		}
	}
	w.wrong("%s, and no alarm says %s of %q", why, f.Kind, f.Merchant)
}

// resumptions counts how often it was said that what was stopped goes on.
func (w *world) resumptions(merchant string) (n int64) {
	for _, a := range w.alarms(w.operator, client.AlarmFilter{Kind: client.AlarmResumed, Merchant: merchant}) {
		if a.Merchant == merchant {
			n += a.Number
		}
	}
	return n
}

// wantGivenUp: where messages to merchants were given up, one of both alarms says so. A question
// that nobody answered in time is none: its withdrawal has expired.
func (w *world) wantGivenUp() {
	given := map[string]string{}
	w.pages("callbacks", func(o client.PageOptions) (*string, error) {
		page, err := w.operator.Callbacks(w.ctx, client.CallbackFilter{State: client.CallbackExhausted}, o)
		for _, c := range page.Callbacks {
			if c.Type != countersign.TypeRequestWithdraw {
				given[c.Merchant] = c.ID
			}
		}
		return page.Next, err
	})
	for _, a := range w.alarms(w.operator, client.AlarmFilter{State: client.AlarmOpen}) {
		if a.Kind == client.AlarmExhausted || a.Kind == client.AlarmHeldTooLong {
			delete(given, a.Merchant)
		}
	}
	for _, merchant := range sorted(given) {
		w.wrong("%s is exhausted, and no alarm of %s says so", given[merchant], merchant)
	}
}

// lasting returns an alarm that says of itself that it ends, and has not.
func (w *world) lasting() string {
	for _, name := range sorted(w.ends()) {
		for _, a := range w.alarms(w.ends()[name], client.AlarmFilter{State: client.AlarmOpen}) {
			if a.Kind.Ended() != "" {
				return fmt.Sprintf("%s of the %s about %s %q", a.Kind, name, a.Merchant, a.Subject)
			}
		}
	}
	return ""
}

// checkAlarms: those that must have risen did, those that must not did not, and those that end by
// themselves have ended.
func (w *world) checkAlarms() {
	kinds := map[string]bool{}
	for _, name := range sorted(w.ends()) {
		for _, a := range w.alarms(w.ends()[name], client.AlarmFilter{}) {
			w.count("alarms")
			kinds[alarmOf(name, a.Merchant, a.Kind)] = true
			if slices.Contains(w.neverOf(a.Merchant), a.Kind) {
				w.wrong("the %s raised the alarm %s about %s %q", name, a.Kind, a.Merchant, a.Subject)
			}
		}
	}
	if text := w.lasting(); text != "" {
		w.wrong("an alarm does not end: %s", text)
	}
	if !w.lost["service"] {
		w.checkRaised(kinds)
	}
	if !w.lost["gateway"] {
		w.checkUnordered()
	}
}

func alarmOf(end, merchant string, kind client.AlarmKind) string {
	return fmt.Sprint(end, " ", merchant, " ", kind)
}

// checkRaised: what the service's rows say has raised its alarm. A restore loses alarms with the
// rows, and what is told again after it need not raise them again.
func (w *world) checkRaised(kinds map[string]bool) {
	want := func(merchant string, kind client.AlarmKind, why string, args ...any) {
		if !kinds[alarmOf("service", merchant, kind)] && !kinds[alarmOf("service", "", kind)] { // a freeze is of all
			w.wrong("%s, and no alarm says %s of %s", fmt.Sprintf(why, args...), kind, merchant)
		}
	}
	w.pages("callbacks", func(o client.PageOptions) (*string, error) {
		page, err := w.operator.Callbacks(w.ctx, client.CallbackFilter{}, o)
		for _, c := range page.Callbacks {
			full, err := w.operator.Callback(w.ctx, c.ID)
			if err != nil {
				return nil, err
			}
			for _, a := range full.Attempts {
				// A reason that is a kind of alarm raises it.
				if kind := client.AlarmKind(a.Reason); slices.Contains(client.AlarmKind("").AtService(), kind) {
					want(c.Merchant, kind, "attempt %d of %s came to %s", a.Number, c.ID, a.Reason)
				}
			}
		}
		return page.Next, err
	})
	w.core.mu.Lock()
	defer w.core.mu.Unlock()
	for _, id := range sorted(w.core.asked) {
		x, err := w.operator.Withdrawal(w.ctx, w.core.asked[id])
		switch {
		case err != nil: // checkWithdrawals says so
		case x.State == client.WithdrawalLapsed:
			want(x.Merchant, client.AlarmLapsed, "withdrawal %s lapsed", id)
		case x.Decision == countersign.DecisionDeclined && x.Reason == client.ReasonDetailsDiffer:
			want(x.Merchant, client.AlarmDetailsDiffer, "withdrawal %s was confirmed with other details", id)
		}
	}
}

// checkUnordered: the gateway says of each order that it was asked for and nobody had made.
func (w *world) checkUnordered() {
	told := map[string]bool{}
	for _, a := range w.alarms(w.shop.api, client.AlarmFilter{Kind: client.AlarmOrderUnknown}) {
		told[a.Subject] = true
	}
	w.pages("orders", func(o client.PageOptions) (*string, error) {
		page, err := w.shop.api.Orders(w.ctx, client.OrderFilter{State: client.OrderUnknown}, o)
		for _, o := range page.Orders {
			if !told[o.CallBackID] && !strings.Contains(o.Reason, "ended") {
				w.wrong("order %s is unknown (%s), and no alarm says so", o.CallBackID, o.Reason)
			}
		}
		return page.Next, err
	})
}

// pages reads all pages of a list.
func (w *world) pages(what string, read func(client.PageOptions) (next *string, err error)) {
	var o client.PageOptions
	for next := new(string); next != nil; {
		if !w.persist("reading "+what, func() (err error) {
			next, err = read(o)
			return err
		}) {
			return
		}
		if next != nil {
			o.Cursor = *next
		}
	}
}
