package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"countersign"
	"countersign/client"
)

// told is an alarm with its cause: words of its subject; empty: any.
type told struct {
	kind  client.AlarmKind
	cause string
}

// is reports whether a is the alarm t.
func (t told) is(a client.Alarm) bool {
	return a.Kind == t.kind && slices.ContainsFunc(append(a.Examples, a.Subject), func(s string) bool { return strings.Contains(s, t.cause) })
}

// never are the alarms for which the simulation gives no cause: nobody changes a database
// past the program, has a key that is not theirs, or puts a backup back without saying so, and an
// honest end contradicts neither itself nor the other one.
var never = []told{
	{client.AlarmAuditBroken, ""}, {client.AlarmApprovalWaits, "token "},
	{client.AlarmWalletDiffers, "outcome_differs"}, {client.AlarmEvidenceDiffers, ""}, {client.AlarmAddressChanged, ""},
	{client.AlarmOrderUnknown, "another tenantUserId"}, {client.AlarmExecutedDiffers, "executed with other details"},
	{client.AlarmExecutedTwice, "a second transaction"}, {client.AlarmExecutedTwice, "executed after its end"},
	{client.AlarmRequestSuspect, "(not_bound)"}, {client.AlarmRequestSuspect, "(binding_broken)"},
	{client.AlarmRequestSuspect, "(spliced)"}, {client.AlarmRequestSuspect, "(other_content)"},
	{client.AlarmDepositRefused, "disproved"}, {client.AlarmDepositRefused, "unverified"},
}

// alarmOfReason has the reasons of attempts that raise an alarm.
var alarmOfReason = map[client.Reason]client.AlarmKind{
	client.ReasonWrongAPIKey: client.AlarmAnswerUnusable, client.ReasonNotUnderstood: client.AlarmAnswerUnusable,
	client.ReasonAnswerUnbound: client.AlarmAnswerUnusable,
	client.ReasonAnswerDiffers: client.AlarmAnswerDiffers, client.ReasonOtherAttempt: client.AlarmAnswerDiffers,
	client.ReasonOtherCallback: client.AlarmAnswerDiffers, client.ReasonOtherType: client.AlarmAnswerDiffers,
	client.ReasonDetailsDiffer: client.AlarmAnswerDiffers,
	client.ReasonUnsigned:      client.AlarmAnswerDiffers, client.ReasonSignatureInvalid: client.AlarmAnswerDiffers,
	client.ReasonSignatureOld: client.AlarmAnswerDiffers,
	client.ReasonFrozen:       client.AlarmFrozen, client.ReasonRestored: client.AlarmRestored,
}

// neverAt returns the reasons that no attempt at a merchant may have; the rogue gives cause for all. A gateway whose
// clock is wrong says of signed callbacks that it cannot read them.
func (w *world) neverAt(merchant string) (list []client.Reason) {
	if merchant == "shop" {
		list = []client.Reason{client.ReasonWrongAPIKey, client.ReasonAnswerUnbound,
			client.ReasonAnswerDiffers, client.ReasonOtherAttempt, client.ReasonOtherCallback, client.ReasonOtherType}
		if w.signs == nil {
			list = append(list, client.ReasonNotUnderstood)
		}
	}
	return list
}

// neverOf returns the alarms for which a merchant gives no cause.
func (w *world) neverOf(merchant string) []told {
	list := slices.Clone(never)
	if !w.lost["service"] { // a restored service may ask again about what was executed, which is refused, and then tells that end
		list = append(list, told{client.AlarmExecutedTwice, "ended after its execution"})
	}
	if merchant == "shop" {
		list = append(list, told{client.AlarmOpenFailures, ""})
	}
	for _, r := range w.neverAt(merchant) {
		list = append(list, told{alarmOfReason[r], " " + string(r)})
	}
	return list
}

// end is an end of the link, as far as alarms go.
type end interface {
	Alarms(context.Context, client.AlarmFilter, client.PageOptions) (client.List[client.Alarm], error)
}

// ends returns both ends, by the names of their processes.
func (w *world) ends() map[string]end {
	return map[string]end{"service": w.operator, "gateway": w.shop.api}
}

// alarms reads the alarms of an end, and tries again until it can.
func (w *world) alarms(of end, f client.AlarmFilter) (list []client.Alarm) {
	w.persist("reading alarms", func() error {
		list = nil
		for a, err := range client.All(w.ctx, of.Alarms, f) {
			if err != nil {
				return err
			}
			list = append(list, a)
		}
		return nil
	})
	return list
}

// wantAlarm: an alarm that must have been raised was, about that, and is open if it says for how long it
// lasts.
func (w *world) wantAlarm(of end, f client.AlarmFilter, about, why string) {
	for _, a := range w.alarms(of, f) {
		if (told{f.Kind, about}).is(a) && (f.Kind.Ended() == "" || a.Open()) {
			return
		}
	}
	w.wrong("%s, and no alarm says %s of %q", why, f.Kind, f.Merchant)
}

// resumptions counts how often it was said that what was stopped goes on.
func (w *world) resumptions(merchant string) (n int64) {
	for _, a := range w.alarms(w.operator, client.AlarmFilter{Kind: client.AlarmControlChanged, Merchant: merchant}) {
		if a.Merchant == merchant && strings.Contains(a.Subject, " was ended") {
			n += a.Number
		}
	}
	return n
}

// wantGivenUp: where messages to merchants were given up, an alarm says so. A question
// that nobody answered in time is none: its withdrawal has expired.
func (w *world) wantGivenUp() {
	given := map[string]string{}
	w.pages("callbacks", func(o client.PageOptions) (*string, error) {
		page, err := w.operator.Callbacks(w.ctx, client.CallbackFilter{State: client.CallbackExhausted}, o)
		for _, c := range page.Items {
			if c.Type != countersign.TypeRequestWithdraw {
				given[c.Merchant] = c.ID
			}
		}
		return page.Next, err
	})
	for _, a := range w.alarms(w.operator, client.AlarmFilter{State: client.AlarmOpen}) {
		if a.Kind == client.AlarmExhausted {
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
			if slices.ContainsFunc(w.neverOf(a.Merchant), func(t told) bool { return t.is(a) }) {
				w.wrong("the %s raised the alarm %s about %s %q", name, a.Kind, a.Merchant, a.Examples)
			}
		}
	}
	if text := w.lasting(); text != "" {
		w.wrong("an alarm does not end: %s", text)
	}
	w.checkRaised(kinds)
	if !w.lost["gateway"] {
		w.checkUnordered()
	}
}

func alarmOf(end, merchant string, kind client.AlarmKind) string {
	return fmt.Sprint(end, " ", merchant, " ", kind)
}

// checkRaised: what the service's rows say has raised its alarm, and no attempt says what none may. A
// restore loses alarms with the rows, and what is told again after it need not raise them again.
func (w *world) checkRaised(kinds map[string]bool) {
	want := func(merchant string, kind client.AlarmKind, why string, args ...any) {
		if w.lost["service"] {
			return
		}
		if !kinds[alarmOf("service", merchant, kind)] && !kinds[alarmOf("service", "", kind)] { // a freeze is of all
			w.wrong("%s, and no alarm says %s of %s", fmt.Sprintf(why, args...), kind, merchant)
		}
	}
	w.pages("callbacks", func(o client.PageOptions) (*string, error) {
		page, err := w.operator.Callbacks(w.ctx, client.CallbackFilter{}, o)
		for _, c := range page.Items {
			full, err := w.operator.Callback(w.ctx, c.ID)
			if err != nil {
				return nil, err
			}
			for _, a := range full.Attempts {
				if slices.Contains(w.neverAt(c.Merchant), a.Reason) {
					w.wrong("attempt %d of %s came to %s", a.Number, c.ID, a.Reason)
				}
				if kind := alarmOfReason[a.Reason]; kind != "" {
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
			want(x.Merchant, client.AlarmAnswerDiffers, "withdrawal %s was confirmed with other details", id)
		}
	}
}

// checkUnordered: the gateway says of each order that it was asked for and nobody had made.
func (w *world) checkUnordered() {
	told := map[string]bool{}
	for _, a := range w.alarms(w.shop.api, client.AlarmFilter{Kind: client.AlarmOrderUnknown}) {
		id, _, _ := strings.Cut(a.Subject, " (")
		told[id] = true
	}
	w.pages("orders", func(o client.PageOptions) (*string, error) {
		page, err := w.shop.api.Orders(w.ctx, client.OrderFilter{State: client.OrderUnknown}, o)
		for _, o := range page.Items {
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
