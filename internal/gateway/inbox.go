package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign/internal/store"
	"countersign/merchant"
)

// inbox is the durable merchant.Inbox. It translates; the rules are kept in the
// store's transactions.
type inbox struct {
	end *store.MerchantEnd
	// lease bounds the lease of a question. Zero: it is as asked for.
	lease time.Duration
}

// questionLease is how long others leave a question to the node that works on
// it. A handler asks for more than the work can take; here, what a node does
// with a question takes milliseconds, and two that work on one at once agree:
// whatever they answer for good has been made the order's state before, by one
// guarded statement, and the later of the two finds it. So a lease only spares
// work, and a short one lets the next node answer soon, within the same request,
// where one has died or lost its database.
const questionLease = 5 * time.Second

var _ merchant.Inbox = inbox{}

var inboxStates = map[store.InboxState]merchant.State{
	store.InboxTaken:        merchant.StateTaken,
	store.InboxClaimed:      merchant.StateClaimed,
	store.InboxSettled:      merchant.StateSettled,
	store.InboxBusy:         merchant.StateBusy,
	store.InboxOtherContent: merchant.StateOtherContent,
	store.InboxSpliced:      merchant.StateSpliced,
}

// Claim implements merchant.Inbox.
func (in inbox) Claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	entry := store.InboxEntry{
		Callback: e.Callback, ID: e.ID, Content: e.Content, Transfer: e.Transfer, TxIndex: e.TxIndex,
		At: store.MillisOf(e.At), Lease: e.Lease,
	}
	if in.lease > 0 {
		entry.Lease = min(entry.Lease, in.lease)
	}
	if e.Blocks != nil {
		entry.First, entry.Whole = e.Blocks.First, e.Blocks.Whole
	}
	r, err := in.end.Claim(ctx, entry)
	if err != nil {
		return merchant.Claimed{}, fmt.Errorf("inbox: %w", err)
	}
	return merchant.Claimed{
		State: inboxStates[r.State], Seq: r.Seq, Claim: r.Claim, PossibleDuplicate: r.PossibleDuplicate, Outcome: outcomeOf(r.Outcome),
	}, nil
}

// Settle implements merchant.Inbox.
func (in inbox) Settle(ctx context.Context, s merchant.Settlement) (merchant.Outcome, error) {
	stands, err := in.end.Settle(ctx, store.InboxSettlement{
		Type: s.Type, ID: s.ID, Claim: s.Claim, Final: s.Final, At: store.MillisOf(s.At),
		Outcome: store.InboxOutcome{Code: s.Outcome.Code, Message: s.Outcome.Message, Details: s.Outcome.Details},
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return merchant.Outcome{}, merchant.ErrNotClaimed
	case err != nil:
		return merchant.Outcome{}, fmt.Errorf("inbox: %w", err)
	}
	return outcomeOf(stands), nil
}

func outcomeOf(o store.InboxOutcome) merchant.Outcome {
	return merchant.Outcome{Code: o.Code, Message: o.Message, Details: o.Details}
}
