package book

import (
	"context"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/merchant"
)

// effect applies a callback that was just accepted.
func (in *inboxTx) effect(ctx context.Context, e *merchant.Entry, row *inboxRow) error {
	at := db.MillisOf(e.At)
	switch c := e.Callback.(type) {
	case *countersign.Deposit:
		d := taken(c, at)
		switch {
		case row.suspect:
			d.State, d.Suspect = client.DepositHeld, true
			in.ledger.alarm(client.AlarmRequestSuspect, c.TrackingID+" ("+string(merchant.ReasonSpliced)+")", at)
		case in.booked.same(c):
			d.State, d.Decided, d.DecidedBy, d.Reason = client.DepositRejected, at, ByReconcile, reasonBooked
		case row.duplicate:
			d.State = client.DepositHeld
			in.ledger.alarm(client.AlarmPossibleDuplicate, c.TrackingID, at)
		case in.restored:
			d.State = client.DepositHeld // client.AlarmRestored was raised
		}
		in.ledger.deposits = append(in.ledger.deposits, d)
		in.ledger.deposited(c)
	case *countersign.AddressChange:
		return in.takeAddress(ctx, c, at)
	case *countersign.WithdrawalDone:
		return in.takeExecution(ctx, e, c)
	case *countersign.WithdrawalEnded:
		return in.moveOrder(ctx, e, Order.withdrawn)
	case *countersign.WithdrawalNotice:
		if c.Type.Effect() == countersign.EffectWaiting {
			return in.moveOrder(ctx, e, func(o, to Order) (Order, bool, cause) {
				return o.waits(to, client.WaitingFor(c.Type.Report()))
			})
		}
		return noEffect(c)
	default: // a withdrawal request, which only gets an answer, or a type without an effect here
		return noEffect(c)
	}
	return nil
}

func noEffect(c countersign.Callback) error {
	return fmt.Errorf("a callback of type %d has no effect to record", int(c.CallbackType()))
}
