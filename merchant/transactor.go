package merchant

import (
	"context"
	"errors"

	"countersign"
)

// Transactor is an Inbox that calls the merchant's functions itself, each in the
// transaction that records its result: what the function wrote and the record are
// committed together, or neither is. Package sqlinbox has one.
type Transactor interface {
	Inbox

	// Acts reports whether Act has a function for callbacks of type t. For these
	// types a Handler calls Act, and its Config has no function.
	Acts(t countersign.Type) bool

	// Act is Claim, the function and Settle in one transaction. In this order:
	//
	//  1. The rules 1 to 4 of Claim apply.
	//  2. The function is called, whether a lease has ended or not, and conclude
	//     turns its result into a Reply.
	//  3. If the Reply is final, it is recorded for ever, and the transaction is
	//     committed. The state is Taken, with the Reply.
	//  4. Otherwise nothing that the function wrote is kept, and the state is Open.
	//     Blocks are remembered nevertheless. A callback of type 2 is recorded by
	//     rule 2 of Claim, any other is not.
	//
	// No two calls for the same identifier run their functions at the same time.
	// The transaction may be rolled back and repeated, and the function and
	// conclude with it; the last call counts.
	Act(ctx context.Context, e Entry, conclude Conclude) (Claimed, error)
}

// Conclude returns the Reply to a callback whose function returned a and err, and whether the Reply is recorded for
// ever. a counts for type 2 only. It changes nothing and may be called more than once.
type Conclude func(a Answer, err error) (r Reply, final bool)

// function names a function of c that is set and is called for callbacks of type t.
func (c *Config) function(t countersign.Type) string {
	switch e := t.Effect(); {
	case e == countersign.EffectDeposit && c.OnDeposit != nil:
		return "OnDeposit"
	case e == countersign.EffectDeposit && c.OnPossibleDuplicate != nil:
		return "OnPossibleDuplicate"
	case e == countersign.EffectQuestion && c.OnWithdrawal != nil:
		return "OnWithdrawal"
	case e.IsNotice() && c.OnNotice != nil:
		return "OnNotice"
	}
	return ""
}

// oneFunction refuses a function that would never be called.
func (c *Config) oneFunction() error {
	inbox, ok := c.Inbox.(Transactor)
	if !ok {
		return nil
	}
	for _, t := range countersign.TypeUnknown.Values() {
		if name := c.function(t); name != "" && inbox.Acts(t) {
			return configError("%s is set, but the Inbox has a function of its own for type %d", name, t)
		}
	}
	return nil
}

// transactor returns the Inbox if it has the function for callbacks of type t.
func (h *Handler) transactor(t countersign.Type) Transactor {
	if inbox, ok := h.c.Inbox.(Transactor); ok && inbox.Acts(t) {
		return inbox
	}
	return nil
}

// acted is what Act returned, with the verdict of its function.
type acted struct {
	claimed Claimed
	verdict verdict
}

// act calls Act in a goroutine of its own, so that a function that ignores its
// context blocks no request. ran is false if one for an earlier delivery still runs
// in this process. After the end of ctx the transaction can no longer be committed.
func (h *Handler) act(ctx context.Context, inbox Transactor, key entryKey, e Entry) (a acted, ran bool) {
	running, _ := h.startCall(key)
	if running == nil {
		return acted{}, false
	}
	var result acted
	go h.runCall(ctx, running, key, func() verdict {
		result = h.callAct(ctx, inbox, e)
		return result.verdict
	}, func(v verdict) verdict { return v }) // Act has settled it
	if !inTime(ctx, running.done) {
		return acted{verdict: failed(ReasonTimeout,
			errors.New("the function or its transaction did not end in time; nothing is recorded unless its commit is under way"))}, true
	}
	result.verdict = running.verdict
	return result, true
}

func (h *Handler) callAct(ctx context.Context, inbox Transactor, e Entry) acted {
	var v verdict
	c, err := inbox.Act(ctx, e, func(a Answer, err error) (Reply, bool) {
		v = h.verdictOf(e.Callback, a, err)
		return v.Reply, v.final
	})
	switch {
	case err != nil:
		return acted{verdict: failed(ReasonInbox, err)}
	case c.State == StateTaken:
		v.Reply = c.Reply
		v.doubt(c)
		v.revoked(c.Revoked)
	}
	return acted{claimed: c, verdict: v}
}
