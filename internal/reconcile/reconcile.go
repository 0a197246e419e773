package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
)

// Kind is the kind of a disagreement.
type Kind string

// The kinds of findings. "Sent" is what the service sent, "booked" what the merchant says, "executed" what the wallet
// core says.
const (
	SentNotBooked        Kind = "sent_not_booked"        // sent and acknowledged, but not booked by the merchant
	SentNotCounting      Kind = "sent_not_counting"      // sent and acknowledged, but held or rejected at the merchant
	BookedNotSent        Kind = "booked_not_sent"        // booked by the merchant and unknown here
	AmountDiffers        Kind = "amount_differs"         // both have it, with another amount or symbol, or a withdrawal with another address
	BookedTwice          Kind = "booked_twice"           // lines repeat an identifier; Count says how many
	BookedNotCounting    Kind = "booked_not_counting"    // the merchant booked a deposit that is held or was rejected
	ExecutedNotReleased  Kind = "executed_not_released"  // it was executed, and has no permit here
	ExecutedUnknown      Kind = "executed_unknown"       // executed and unknown here
	ExecutedNotConfirmed Kind = "executed_not_confirmed" // it has a permit, and the merchant has not confirmed it
	ConfirmedUnknown     Kind = "confirmed_unknown"      // confirmed by the merchant and unknown to the service
	PermitDiffers        Kind = "permit_differs"         // the permit given here is not the core's
	ReleasedNotExecuted  Kind = "released_not_executed"  // a permit was given here that the core does not know
	AddedUnknown         Kind = "added_unknown"          // added by the core or ordered by the application, and unknown here
	OutcomeUnknown       Kind = "outcome_unknown"        // the core says how it ended, and nobody reported it here
	EndDiffers           Kind = "end_differs"            // it ended differently here than the other side says
	EndedThere           Kind = "ended_there"            // it ended before the restore, but not in the backup
	Reopened             Kind = "reopened"               // from before a restore, and the other side says that nothing became of it
	NotSaid              Kind = "not_said"               // from before a restore, and no file says what became of it
)

// Left returns the findings that a person must decide on, and those that only need to be sent again: what the core
// added or how it ended, and at the gateway what the application ordered. A finding that the merchant has an item
// counts as open only if the item is not among these.
func Left(all []Finding) (open, again []Finding) {
	key := func(f Finding) [3]string { return [3]string{f.Merchant, f.TrackingID, f.CallBackID} }
	added := map[[3]string]bool{}
	for _, f := range all {
		if f.Finding == AddedUnknown && !f.Settled {
			added[key(f)] = true
		}
	}
	for _, f := range all {
		switch {
		case f.Settled:
		case f.Finding == AddedUnknown, f.Finding == OutcomeUnknown:
			again = append(again, f)
		case (f.Finding == BookedNotSent || f.Finding == ConfirmedUnknown) && added[key(f)]:
		default:
			open = append(open, f)
		}
	}
	return open, again
}

// Finding is one disagreement.
type Finding struct {
	Finding    Kind   `json:"finding"`
	Merchant   string `json:"merchant,omitempty"`
	TrackingID string `json:"trackingId,omitempty"`
	CallBackID string `json:"callBackId,omitempty"`
	State      string `json:"state,omitempty"`  // here
	Here       string `json:"here,omitempty"`   // symbol and amount
	There      string `json:"there,omitempty"`  // symbol and amount, or the state there
	Count      int    `json:"count,omitempty"`  // of BookedTwice
	Reason     string `json:"reason,omitempty"` // why it could not be settled
	Settled    bool   `json:"settled,omitempty"`
}

// Config is what Service, Remote and Gateway need.
type Config struct {
	// Booked is a file of deposits that the merchant's application has booked. Executed is a file of withdrawals for
	// which the wallet core had a permit. Empty: not compared.
	Booked, Executed string
	// Added is a file of deposits and withdrawals that the wallet core has added. A line with a callBackId is a
	// withdrawal. Empty: not compared.
	Added string
	// Merchant is the merchant of lines that name none. Required with There.
	Merchant string
	// There is the API of the merchant's gateway, whose deposits and orders are compared instead of Booked. Nil: not
	// compared.
	There *client.Gateway
	// Epoch is called with the epoch of each end whose API is asked: service or gateway. Nil: nothing is called.
	Epoch func(end string, e client.Epoch)
	// Settle settles and ends what a restore left open. It also makes the service send again what was sent and not
	// booked.
	Settle bool
	// Report gets each finding. Required.
	Report func(Finding) error
	// Now is the time of the settlement. Required.
	Now   db.Millis
	alone bool // set by Gateway
}

// merchant returns whose line l is; a gateway has one merchant, whatever its file calls it.
func (c Config) merchant(l Line) string {
	if c.alone {
		return ""
	}
	return cmp.Or(l.Merchant, c.Merchant)
}

var errNoMerchant = errors.New("merchant is missing: give it in the line, or --merchant")

// checkFiles reads every line of the merchant's file and of the file of added items, so that a bad line is found before
// anything is settled.
func (c Config) checkFiles() error {
	for _, path := range []string{c.Booked, c.Added} {
		if path == "" {
			continue
		}
		err := Lines(path, func(l Line) error {
			if path == c.Added || !l.isOrder() {
				return nil
			}
			return l.checkOrder()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkOrder refuses a line of an order if the state is unknown or contradicts the line's members.
func (l Line) checkOrder() error {
	switch state := client.OrderState(l.State); {
	case state == "":
		return nil
	case !slices.Contains(client.Values[client.OrderState](), state):
		return fmt.Errorf("state %q is not known: %s", l.State, client.Values[client.OrderState]())
	case state == client.OrderConfirmed || state == client.OrderExecuted:
		return nil
	case state.Undecided() && l.Confirmed != 0:
		return fmt.Errorf("state %q is contradicted by confirmed; write confirmed, or what became of it since", l.State)
	}
	return l.checkEnd(true)
}

// read indexes a file. core means that the wallet core wrote it; see Line.name. says returns what else to keep of a line
// than its name; its error ends the reading. Of the merchant's file it reports how many lines repeat a deposit.
func (c Config) read(path string, core bool, says func(Line) (sum string, is flags, err error)) (*Index, error) {
	x := &Index{path: path, c: c, core: core}
	err := Lines(path, func(l Line) error {
		name := l.name(core)
		switch {
		case name == "":
			return errors.New("the identifier is missing")
		case !c.alone && c.merchant(l) == "":
			return errNoMerchant
		}
		sum, is, err := says(l)
		x.Add(c.merchant(l), name, sum, is)
		return err
	})
	if err == nil && !core && x.twice > 0 {
		err = c.Report(Finding{Finding: BookedTwice, Count: x.twice})
	}
	return x, err
}

// The names of deposits and withdrawals in an Index.
func depositName(id string) string    { return "deposit " + id }
func withdrawalName(id string) string { return "withdrawal " + id }

// name returns what a line is about, or "" if it does not say that. A withdrawal of the core may have a trackingId; with
// the merchant, only deposits have one.
func (l Line) name(core bool) string {
	switch {
	case l.CallBackID != "" && (core || l.TrackingID == ""):
		return withdrawalName(l.CallBackID)
	case l.TrackingID != "":
		return depositName(l.TrackingID)
	}
	return ""
}

// isOrder reports whether a line of the merchant's file is about an order.
func (l Line) isOrder() bool { return l.TrackingID == "" }

// depositSum returns what both sides must agree on for a deposit.
func (l Line) depositSum() string { return book.SumOf(l.Symbol, l.Amount) }

func (l Line) details() *countersign.Details {
	if l.Address == "" || !l.Amount.IsSet() {
		return nil
	}
	return &countersign.Details{Address: l.Address, ChainName: l.ChainName, Symbol: l.Symbol, Amount: l.Amount}
}
