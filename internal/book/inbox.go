package book

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/merchant"
)

// inboxBatch is the most claims of one transaction. With more, the first would wait for the last.
const inboxBatch = 128

// inboxCall is one claim that waits for its transaction.
type inboxCall struct {
	ctx    context.Context // of its caller
	entry  merchant.Entry  // without a Callback, only its blocks are remembered
	result merchant.Claimed
	err    error
	done   chan struct{}
}

// gone reports whether the caller has given up.
func (c *inboxCall) gone() bool { return c.ctx.Err() != nil }

// Claim implements merchant.Inbox. If e.Lease is 0, the entry takes effect in the same transaction: a deposit is
// appended to its feed, and a notice changes its order or appends an event. In the gateway, only type 2 takes a
// lease.
//
// Claims that arrive while another transaction commits share the next transaction. In separate transactions they
// would wait for each other's commits, because entries are numbered one after another.
func (b *Book) Claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	if e.Callback == nil {
		return merchant.Claimed{}, fmt.Errorf("inbox: callback is %w: it is missing", db.ErrInvalid)
	}
	r, err := b.claim(ctx, e)
	if err != nil {
		return merchant.Claimed{}, fmt.Errorf("inbox: %w", err)
	}
	return r, nil
}

// Remember implements merchant.Rememberer. It shares the transactions of claims.
func (b *Book) Remember(ctx context.Context, e merchant.Entry) error {
	_, err := b.claim(ctx, merchant.Entry{Blocks: e.Blocks, At: e.At})
	return err
}

func (b *Book) claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	if err := ctx.Err(); err != nil {
		return merchant.Claimed{}, err
	}
	if err := db.CheckText("id", e.ID); err != nil {
		return merchant.Claimed{}, err
	}
	if b.lease > 0 {
		e.Lease = min(e.Lease, b.lease)
	}
	c := &inboxCall{ctx: ctx, entry: e, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	if !b.working {
		b.working = true
		go b.work()
	}
	b.mu.Unlock()
	select {
	case <-c.done:
		return c.result, c.err
	case <-ctx.Done():
		return merchant.Claimed{}, ctx.Err()
	}
}

// work runs claims until none is waiting.
func (b *Book) work() {
	for {
		b.gather()
		batch := b.nextBatch()
		if batch == nil {
			return
		}
		err := b.claimBatch(batch)
		if err != nil && len(batch) > 1 && !errors.Is(err, db.ErrUnavailable) {
			// One call may be at fault, so each runs alone.
			for i := range batch {
				b.claimBatch(batch[i : i+1])
			}
		}
		for _, c := range batch {
			close(c.done)
		}
	}
}

// gather yields to handlers that are about to claim, so that they share a commit. Without it, a gateway on one core
// commits nearly every deposit alone: 1,660 deposits/s instead of 4,700 (SQLite, 64 callers; on two cores 7,200
// instead of 8,900).
func (b *Book) gather() {
	for n, more := 0, true; more; {
		runtime.Gosched()
		b.mu.Lock()
		more, n = len(b.waiting) > n && len(b.waiting) < inboxBatch, len(b.waiting)
		b.mu.Unlock()
	}
}

// nextBatch returns the next waiting calls, without those whose callers have given up. While the database is
// unavailable there are many of these. They would delay new calls, and lease withdrawals that no caller works on.
// nextBatch returns nil if no work is left.
func (b *Book) nextBatch() []*inboxCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, (*inboxCall).gone)
	n := min(len(b.waiting), inboxBatch)
	if n == 0 {
		b.working = false
		return nil
	}
	batch := b.waiting[:n:n]
	b.waiting = append([]*inboxCall(nil), b.waiting[n:]...)
	return batch
}

// claimBatch runs one transaction for a batch. It takes no longer than a caller waits, so that a dead connection does
// not delay the next batch.
func (b *Book) claimBatch(batch []*inboxCall) error {
	ctx, cancel := context.WithTimeout(context.Background(), merchant.DefaultTimeout)
	defer cancel()
	var in inboxTx
	err := b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		in = inboxTx{b: b, t: t, calls: batch}
		return in.run(ctx)
	})
	for _, c := range batch {
		c.err = cmp.Or(err, c.ctx.Err())
	}
	if err == nil {
		for i, c := range in.calls {
			c.result, c.err = in.results[i], nil
		}
	}
	return err
}

const (
	lockInboxSQL = `
SELECT seq, claims, settled, code, message, address, chain_name, symbol, amount, reply_user FROM inbox
WHERE type = $1 AND id = $2 AND (type = 2 OR call_back_id = $3){lock}`

	keepReplySQL = `
UPDATE inbox SET settled = 1, lease_until = 0, code = $2, message = $3, address = $4, chain_name = $5, symbol = $6, amount = $7, ended = $8,
	reply_user = $9
WHERE seq = $1 AND settled = 0`

	endReplySQL = `
UPDATE inbox SET code = $2, message = $3, address = '', chain_name = '', symbol = '', amount = '', reply_user = ''
WHERE type = 2 AND id = $1 AND settled = 1`

	endLeaseSQL = `UPDATE inbox SET lease_until = 0 WHERE seq = $1 AND claims = $2 AND settled = 0`
)

// Settle implements merchant.Inbox.
func (b *Book) Settle(ctx context.Context, s merchant.Settlement) (stands merchant.Reply, err error) {
	if err := db.CheckText("message", s.Reply.Message); err != nil {
		return merchant.Reply{}, fmt.Errorf("inbox: %w", err)
	}
	if db.CheckText("id", s.ID) != nil {
		return merchant.Reply{}, merchant.ErrNotClaimed
	}
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		var o Order
		if s.Type == countersign.TypeRequestWithdraw { // locked before the inbox, as claims do
			if o, err = findOrder(ctx, t, lockOrderSQL, s.ID); err != nil && !isNotFound(err) {
				return err
			}
		}
		stands = s.Reply
		var seq, claims, settled int64
		var kept merchant.Reply
		var details [4]string
		found, err := db.One(ctx, t, lockInboxSQL, []any{int64(s.Type), s.ID, s.Order}, &seq, &claims, &settled, &kept.Code,
			&kept.Message, &details[0], &details[1], &details[2], &details[3], &kept.TenantUserID)
		switch {
		case err != nil:
			return err
		case !found:
			return merchant.ErrNotClaimed
		}
		final := s.Final
		if settled != 0 {
			kept.Details, err = keptDetails(details)
			stands = kept
		}
		ended := false
		if err == nil && confirms(s.Type, stands) {
			var holds bool
			stands, holds = standing(o, stands)
			final = final && holds
			if ended = holds && !confirms(s.Type, stands); ended {
				l := ledger{}
				l.alarm(client.AlarmEndedAgain, s.ID, db.MillisOf(s.At))
				err = l.write(ctx, t)
			}
		}
		switch {
		case err != nil:
			return err
		case settled != 0 && ended:
			_, err = t.Exec(ctx, endReplySQL, s.ID, int64(stands.Code), stands.Message)
		case settled != 0:
		case final:
			d := stands.Details
			_, err = t.Exec(ctx, keepReplySQL, seq, int64(stands.Code), stands.Message,
				d.Address, d.ChainName, d.Symbol, d.Amount.String(), int64(db.MillisOf(s.At)), stands.TenantUserID)
		default:
			_, err = t.Exec(ctx, endLeaseSQL, seq, s.Claim)
		}
		return err
	})
	switch {
	case errors.Is(err, merchant.ErrNotClaimed):
		return merchant.Reply{}, err
	case err != nil:
		return merchant.Reply{}, fmt.Errorf("inbox: %w", err)
	}
	return stands, nil
}

func confirms(typ countersign.Type, r merchant.Reply) bool {
	return typ == countersign.TypeRequestWithdraw && r.Code == countersign.CodeAccepted
}

// standing checks a confirmation again. o is its order, locked, or the zero Order if there is none. r stands while
// the order is confirmed. If nobody has checked the order since a restore, the service must ask again. Any other
// order has ended for good (PROTOCOL.md, I1).
func standing(o Order, r merchant.Reply) (stands merchant.Reply, final bool) {
	code := countersign.CodeOrderCancelled
	switch {
	case o.Restored:
		code = countersign.CodeNotKnownYet
	case o.State == client.OrderConfirmed:
		return r, true
	}
	return merchant.Reply{Code: code, Message: code.Message()}, code == countersign.CodeOrderCancelled
}

// keptDetails returns the details in four texts. It returns the zero Details if all are empty.
func keptDetails(text [4]string) (countersign.Details, error) {
	if text == [4]string{} {
		return countersign.Details{}, nil
	}
	amount, err := countersign.ParseAmount(text[3])
	return countersign.Details{Address: text[0], ChainName: text[1], Symbol: text[2], Amount: amount}, err
}

const inboxColumns = `seq, type, id, tenant_user_id, call_back_id, duplicate, suspect, settled, created, ended, code, message`

// Entries returns a page of the inbox; see list.
func (b *Book) Entries(ctx context.Context, f client.InboxFilter, limit int,
	before int64) ([]client.InboxEntry, int64, error) {
	number := func(e client.InboxEntry) int64 { return e.Seq }
	return list(ctx, b, "inbox", inboxColumns, inboxMembers(f), limit, before, number,
		func(r db.Rows) (e client.InboxEntry, err error) {
			var duplicate, suspect, settled, code int64
			err = r.Scan(&e.Seq, &e.Type, &e.ID, &e.TenantUserID, &e.CallBackID, &duplicate, &suspect, &settled, &e.Created,
				&e.Ended, &code, &e.Message)
			e.PossibleDuplicate, e.Suspect, e.Settled = duplicate != 0, suspect != 0, settled != 0
			if e.Settled {
				e.ErrCode = &code
			}
			return e, err
		})
}

func inboxMembers(f client.InboxFilter) []member {
	typ := member{is: f.Type != countersign.TypeUnknown, filter: "type + 0 = ?", value: int64(f.Type)}
	if f.Type > countersign.TypeDeposited {
		typ.walk = fmt.Sprintf("type <> 1 AND type = %d", f.Type) // a literal: PostgreSQL sees whether it is rare
	}
	return []member{text("id", f.ID), text("call_back_id", f.CallBackID).where("call_back_id <> ''"),
		{is: f.Settled != "", walk: "settled = 0", filter: "settled + 0 = 0"}, typ}
}
