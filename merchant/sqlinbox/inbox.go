package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"countersign"
	"countersign/merchant"
)

var (
	_ merchant.Transactor = (*Inbox)(nil)
	_ merchant.Renewer    = (*Inbox)(nil)
)

// New checks c, and that the database has the tables, and makes an Inbox. Errors wrap ErrConfig.
func New(c Config) (*Inbox, error) {
	switch {
	case c.DB == nil:
		return nil, fmt.Errorf("%w: DB is missing", ErrConfig)
	case !c.Dialect.known():
		return nil, fmt.Errorf("%w: Dialect is missing: PostgreSQL, MySQL or SQLite", ErrConfig)
	case c.OnDeposit != nil && c.OnPossibleDuplicate == nil:
		return nil, fmt.Errorf("%w: OnPossibleDuplicate is missing: somebody must decide on deposits that may have been credited before; "+
			"KeepForReview leaves them in the table", ErrConfig)
	}
	var none int
	if err := c.DB.QueryRow(`SELECT COUNT(*) FROM countersign_inbox WHERE 1 = 0`).Scan(&none); err != nil {
		return nil, fmt.Errorf("%w: the table countersign_inbox of DB cannot be read; call Create before New if there is none: %w", ErrConfig, err)
	}
	in := &Inbox{c: c}
	if c.Dialect == SQLite {
		in.turn = make(chan struct{}, 1)
	}
	return in, nil
}

// Acts implements merchant.Transactor.
func (in *Inbox) Acts(t countersign.Type) bool {
	switch e := t.Effect(); e {
	case countersign.EffectDeposit:
		return in.c.OnDeposit != nil || in.c.OnPossibleDuplicate != nil
	case countersign.EffectQuestion:
		return in.c.OnWithdrawal != nil
	default:
		return e.IsNotice() && in.c.OnNotice != nil
	}
}

// call runs the function for e.
func (in *Inbox) call(ctx context.Context, tx *sql.Tx, e *merchant.Entry, c merchant.Claimed) (merchant.Answer, error) {
	switch cb := e.Callback.(type) {
	case *countersign.Deposit:
		f := in.c.OnDeposit
		if c.PossibleDuplicate || c.Suspect {
			f = in.c.OnPossibleDuplicate
		}
		if f == nil {
			return merchant.Answer{}, nil
		}
		return merchant.Answer{}, f(ctx, tx, merchant.NewDeposit(cb, c))
	case *countersign.WithdrawalRequest:
		return in.c.OnWithdrawal(ctx, tx, *cb)
	}
	return merchant.Answer{}, in.c.OnNotice(ctx, tx, e.Callback)
}

// errOpen ends a transaction whose function returned no final answer.
var errOpen = errors.New("sqlinbox: not final")

// Act implements merchant.Transactor.
func (in *Inbox) Act(ctx context.Context, e merchant.Entry, conclude merchant.Conclude) (merchant.Claimed, error) {
	if err := check(e); err != nil {
		return merchant.Claimed{}, err
	}
	var c merchant.Claimed
	var failure error // of the function
	err := in.transact(ctx, func(t *transaction) error {
		failure = nil
		var r *row
		var err error
		if r, c, err = t.record(ctx, &e, in.c.withdrawalLock(&e)...); err != nil {
			return err
		}
		if c.State != merchant.StateNone {
			if c.State == merchant.StateSettled && e.Callback.CallbackType() == countersign.TypeRequestWithdraw &&
				c.Reply.Code == countersign.CodeAccepted {
				c, err = in.askAgain(ctx, t, &e, r, conclude)
			}
			return err
		}
		if err := t.setIndex(ctx, r, &e); err != nil {
			return err
		}
		if err := t.begin(ctx, r); err != nil {
			return err
		}
		c = r.claimed(merchant.StateTaken)
		a, err := in.call(ctx, t.tx, &e, c)
		if err != nil {
			failure = err
			return err
		}
		var final bool
		if c.Reply, final = conclude(a, nil); !final {
			return errOpen
		}
		return t.settle(ctx, r, c.Reply, e.At)
	})
	switch {
	case failure != nil:
		reply, final := conclude(merchant.Answer{}, failure)
		return in.note(ctx, &e, reply, final)
	case errors.Is(err, errOpen):
		return in.note(ctx, &e, c.Reply, false)
	case err != nil:
		return merchant.Claimed{}, wrapped(err)
	}
	return c, nil
}

// askAgain calls OnWithdrawal about the question r, which was confirmed. What it writes is kept
// only with a refusal, which takes the place of the confirmation.
func (in *Inbox) askAgain(ctx context.Context, t *transaction, e *merchant.Entry, r *row,
	conclude merchant.Conclude) (merchant.Claimed, error) {
	c := r.claimed(merchant.StateSettled)
	c.Reply = r.reply
	if _, err := t.exec(ctx, `SAVEPOINT countersign_asked`); err != nil {
		return c, err
	}
	a, failure := in.call(ctx, t.tx, e, c)
	if t.d.transient(failure) {
		return c, failure
	}
	reply, final := conclude(a, failure)
	refused := final && reply.Code != countersign.CodeAccepted
	end := `ROLLBACK TO SAVEPOINT countersign_asked`
	if refused && failure == nil {
		end = `RELEASE SAVEPOINT countersign_asked`
	}
	if _, err := t.exec(ctx, end); err != nil {
		return c, err
	}
	switch {
	case refused:
		c.State, c.Reply, c.Revoked = merchant.StateTaken, reply, true
		return c, t.refuse(ctx, r, reply, e.At)
	case reply.Code != countersign.CodeAccepted:
		c.State, c.Reply = merchant.StateOpen, reply
	}
	return c, nil
}

// noteTime bounds the transaction of note if the context of the call has ended.
const noteTime = 5 * time.Second

// note records what is kept of a callback whose function's transaction was rolled back:
// a final refusal; of a withdrawal, that it was asked about; and the blocks of the
// request.
func (in *Inbox) note(ctx context.Context, e *merchant.Entry, reply merchant.Reply,
	final bool) (merchant.Claimed, error) {
	withdrawal := e.Callback.CallbackType() == countersign.TypeRequestWithdraw
	c := merchant.Claimed{State: merchant.StateOpen}
	if !final && !withdrawal && e.Blocks == nil {
		return c, nil
	}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), noteTime)
		defer cancel()
	}
	err := in.transact(ctx, func(t *transaction) error {
		if !final && !withdrawal {
			return t.rememberOnly(ctx, e)
		}
		var r *row
		var err error
		r, c, err = t.record(ctx, e)
		switch {
		case err != nil || c.State != merchant.StateNone: // by another process, meanwhile
			return err
		case !final:
			c = r.claimed(merchant.StateOpen)
			return nil
		}
		c = r.claimed(merchant.StateTaken)
		c.Reply = reply
		return t.settle(ctx, r, reply, e.At)
	})
	if err != nil {
		return merchant.Claimed{}, wrapped(err)
	}
	return c, nil
}

// Claim implements merchant.Inbox. Without a lease it calls the function for e, if
// there is one, and an error of the function is its error.
func (in *Inbox) Claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	if err := check(e); err != nil {
		return merchant.Claimed{}, err
	}
	if e.Lease == 0 && in.Acts(e.Callback.CallbackType()) {
		return in.claimNow(ctx, e)
	}
	var c merchant.Claimed
	err := in.transact(ctx, func(t *transaction) error {
		var r *row
		var err error
		r, c, err = t.record(ctx, &e)
		switch {
		case err != nil || c.State != merchant.StateNone:
			return err
		case e.Lease == 0:
			if err := t.setIndex(ctx, r, &e); err != nil {
				return err
			}
			c = r.claimed(merchant.StateTaken)
			return t.settle(ctx, r, merchant.Reply{}, e.At)
		case e.At.UnixMilli() < r.leaseUntil:
			c = r.claimed(merchant.StateBusy)
		default:
			if err := t.setIndex(ctx, r, &e); err != nil {
				return err
			}
			r.claims++
			r.leaseUntil = leaseEnd(e.At, e.Lease)
			c = r.claimed(merchant.StateClaimed)
			c.Claim = r.claims
			return t.lease(ctx, r)
		}
		return nil
	})
	if err != nil {
		return merchant.Claimed{}, wrapped(err)
	}
	return c, nil
}

// claimNow is Claim without a lease where there is a function. A Handler calls Act; this
// is for callers that know merchant.Inbox alone, so that what they record has its
// effect.
func (in *Inbox) claimNow(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	if e.Callback.CallbackType() == countersign.TypeRequestWithdraw {
		return merchant.Claimed{}, wrapped(errNeedsAct)
	}
	var failure error
	c, err := in.Act(ctx, e, func(_ merchant.Answer, err error) (merchant.Reply, bool) {
		failure = err
		return merchant.Reply{}, err == nil
	})
	if err == nil && c.State == merchant.StateOpen {
		return merchant.Claimed{}, failure
	}
	return c, err
}

var errNeedsAct = errors.New("the Inbox has a function for this type, which only Act calls")

// Settle implements merchant.Inbox. It records nothing for ever if there is a function
// for callbacks of type s.Type: only Act may, together with what the function wrote.
func (in *Inbox) Settle(ctx context.Context, s merchant.Settlement) (stands merchant.Reply, err error) {
	if s.Final && in.Acts(s.Type) {
		return merchant.Reply{}, wrapped(errNeedsAct)
	}
	err = in.withEntry(ctx, entryKey(s.Type, s.ID, s.Order), func(t *transaction, r *row) error {
		stands = s.Reply
		if r != nil && s.Type == countersign.TypeRequestWithdraw {
			if err := t.judge(ctx, entryKey(s.Type, s.ID, s.Order), r, s.At); err != nil {
				return err
			}
		}
		switch {
		case r == nil:
			return merchant.ErrNotClaimed
		case r.settled && s.Revokes(r.reply):
			return t.refuse(ctx, r, s.Reply, s.At)
		case r.settled:
			stands = r.reply
		case s.Final:
			return t.settle(ctx, r, s.Reply, s.At)
		case r.claims == s.Claim:
			r.leaseUntil = 0
			return t.lease(ctx, r)
		}
		return nil
	})
	if err != nil {
		return merchant.Reply{}, wrapped(err)
	}
	return stands, nil
}

// Renew implements merchant.Renewer.
func (in *Inbox) Renew(ctx context.Context, n merchant.Renewal) error {
	return wrapped(in.withEntry(ctx, entryKey(n.Type, n.ID, n.Order), func(t *transaction, r *row) error {
		if r == nil || r.settled || r.claims != n.Claim {
			return merchant.ErrNotClaimed
		}
		r.leaseUntil = leaseEnd(n.At, n.Lease)
		return t.lease(ctx, r)
	}))
}

// Remember implements merchant.Rememberer.
func (in *Inbox) Remember(ctx context.Context, e merchant.Entry) error {
	return wrapped(in.transact(ctx, func(t *transaction) error { return t.rememberOnly(ctx, &e) }))
}

// withEntry runs fn in a transaction that has locked an entry.
func (in *Inbox) withEntry(ctx context.Context, key []byte, fn func(t *transaction, r *row) error) error {
	return in.transact(ctx, func(t *transaction) error {
		if err := t.lock(ctx, key); err != nil {
			return err
		}
		r, err := t.read(ctx, key)
		if err != nil {
			return err
		}
		return fn(t, r)
	})
}

func check(e merchant.Entry) error {
	if e.Callback == nil {
		return wrapped(errors.New("the entry has no callback"))
	}
	return nil
}
