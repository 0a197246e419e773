package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"countersign"
)

// MerchantEnd is the merchant's side of a Store: the inbox, the orders, the
// feeds that tell of them and what is forwarded of those. Its methods may be
// used from several goroutines and, with PostgreSQL, from several processes at
// once.
//
// Whoever needs several rows locks them in one order: inbox, orders, then the
// feeds by name. Else two processes could wait for each other.
type MerchantEnd struct {
	s       *Store
	forward bool
	turn    chan struct{} // holds a value while a transaction outside the inbox may lock a feed

	mu      sync.Mutex
	waiting []*inboxCall
	working bool
}

// NewMerchantEnd gives the merchant's side of s. With forward, every entry of
// the two feeds is also queued for the merchant's application.
func NewMerchantEnd(s *Store, forward bool) *MerchantEnd {
	return &MerchantEnd{s: s, forward: forward, turn: make(chan struct{}, 1)}
}

// writeFeeds is write for transactions that append to feeds, claims apart. They
// would wait for each other at the feeds anyway. Of one node they do so here,
// one behind the other: where a node stands still, each of its transactions that
// has come to the front keeps all nodes waiting until the database ends its
// session, and so one does and not as many as there were.
func (m *MerchantEnd) writeFeeds(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	if !m.s.dialect.concurrent {
		return m.s.db.write(ctx, fn)
	}
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-m.turn }()
	return m.s.db.write(ctx, fn)
}

// inboxBatch is how many claims share a transaction. More would make the first
// wait for the last.
const inboxBatch = 128

// inboxTimeout bounds one such transaction where none of its callers has a
// bound of its own.
const inboxTimeout = 30 * time.Second

// inboxCall is one claim that waits for its transaction.
type inboxCall struct {
	ctx    context.Context // of its caller
	entry  InboxEntry
	result InboxResult
	err    error
	done   chan struct{}
}

// gone reports whether its caller has given up.
func (c *inboxCall) gone() bool { return c.ctx.Err() != nil }

// Claim records e, if it is new, and says who is to act on it, by the rules of
// merchant.Inbox. Where e.Lease is 0 the entry takes its effect in the same
// transaction: a deposit joins the feed of deposits, callbacks of types 3 to 7
// move the order or tell of the address. Only type 2 takes a lease in the
// gateway. A repetition finds what the first call left.
//
// Claims that arrive while another transaction commits share the next one:
// entries are numbered one after the other anyway, so side by side they would
// wait for each other's commit.
func (m *MerchantEnd) Claim(ctx context.Context, e InboxEntry) (InboxResult, error) {
	if err := ctx.Err(); err != nil {
		return InboxResult{}, err
	}
	if e.Callback == nil {
		return InboxResult{}, fmt.Errorf("callback is %w: there is none", ErrInvalid)
	}
	if err := checkText("id", e.ID); err != nil {
		return InboxResult{}, err
	}
	c := &inboxCall{ctx: ctx, entry: e, done: make(chan struct{})}
	m.mu.Lock()
	m.waiting = append(m.waiting, c)
	if !m.working {
		m.working = true
		go m.work()
	}
	m.mu.Unlock()
	select {
	case <-c.done:
		return c.result, c.err
	case <-ctx.Done():
		return InboxResult{}, ctx.Err()
	}
}

// work answers claims until none waits.
func (m *MerchantEnd) work() {
	for {
		batch := m.nextBatch()
		if batch == nil {
			return
		}
		err := m.claim(batch)
		if err != nil && len(batch) > 1 && !errors.Is(err, ErrUnavailable) {
			// One of them may be at fault. The others shall not suffer.
			for i := range batch {
				m.claim(batch[i : i+1])
			}
		}
		for _, c := range batch {
			close(c.done)
		}
	}
}

// nextBatch takes what waits, without those whose callers have gone: while the
// database is away many come and go, and what nobody waits for any more would
// keep new ones waiting, and would lease withdrawals that nobody works on. Nil
// ends the work.
func (m *MerchantEnd) nextBatch() []*inboxCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = slices.DeleteFunc(m.waiting, (*inboxCall).gone)
	n := min(len(m.waiting), inboxBatch)
	if n == 0 {
		m.working = false
		return nil
	}
	batch := m.waiting[:n:n]
	m.waiting = append([]*inboxCall(nil), m.waiting[n:]...)
	return batch
}

// claim runs one transaction for a batch, for as long as one of its callers
// waits: a connection on which nothing comes any more must not hold up the next.
func (m *MerchantEnd) claim(batch []*inboxCall) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience(batch))
	defer cancel()
	var b inboxBatchTx
	err := m.s.db.write(ctx, func(ctx context.Context, t *tx) error {
		b = inboxBatchTx{m: m, t: t, calls: batch}
		return b.run(ctx)
	})
	for _, c := range batch {
		c.err = cmp.Or(err, c.ctx.Err())
	}
	if err == nil {
		for i, c := range b.calls {
			c.result, c.err = b.results[i], nil
		}
	}
	return err
}

// patience is how long the most patient caller waits.
func patience(batch []*inboxCall) (longest time.Duration) {
	for _, c := range batch {
		wait := inboxTimeout
		if end, ok := c.ctx.Deadline(); ok {
			wait = min(wait, time.Until(end))
		}
		longest = max(longest, wait)
	}
	return longest
}

const (
	lockInboxSQL = `
SELECT claims, settled, code, message, address, chain_name, symbol, amount FROM inbox WHERE type = $1 AND id = $2{lock}`

	keepOutcomeSQL = `
UPDATE inbox SET settled = 1, lease_until = 0, code = $3, message = $4, address = $5, chain_name = $6, symbol = $7, amount = $8, ended = $9
WHERE type = $1 AND id = $2 AND settled = 0`

	endLeaseSQL = `UPDATE inbox SET lease_until = 0 WHERE type = $1 AND id = $2 AND claims = $3 AND settled = 0`
)

// Settle ends a claim and returns what stands from then on, by the rules of
// merchant.Inbox. What was never claimed is ErrNotFound.
func (m *MerchantEnd) Settle(ctx context.Context, s InboxSettlement) (InboxOutcome, error) {
	if err := checkText("message", s.Outcome.Message); err != nil {
		return InboxOutcome{}, err
	}
	if checkText("id", s.ID) != nil {
		return InboxOutcome{}, ErrNotFound
	}
	stands := s.Outcome
	err := m.s.db.write(ctx, func(ctx context.Context, t *tx) error {
		stands = s.Outcome
		var claims, settled int64
		var kept InboxOutcome
		var details [4]string
		found, err := one(ctx, t, lockInboxSQL, []any{int64(s.Type), s.ID}, &claims, &settled, &kept.Code, &kept.Message,
			&details[0], &details[1], &details[2], &details[3])
		switch {
		case err != nil:
			return err
		case !found:
			return ErrNotFound
		case settled != 0:
			kept.Details, err = keptDetails(details)
			stands = kept
			return err
		case s.Final:
			d := s.Outcome.Details
			_, err = t.exec(ctx, keepOutcomeSQL, int64(s.Type), s.ID, int64(s.Outcome.Code), s.Outcome.Message,
				d.Address, d.ChainName, d.Symbol, d.Amount.String(), int64(s.At))
		default:
			_, err = t.exec(ctx, endLeaseSQL, int64(s.Type), s.ID, s.Claim)
		}
		return err
	})
	if err != nil {
		return InboxOutcome{}, err
	}
	return stands, nil
}

func keptDetails(text [4]string) (countersign.Details, error) {
	d, err := readDetails(text)
	if err != nil || d == nil {
		return countersign.Details{}, err
	}
	return *d, nil
}

// BlockRetention is how long first blocks are remembered at least
// (PROTOCOL.md, Binding), in milliseconds: 30 days.
const BlockRetention Millis = 30 * 24 * 3_600_000

const pruneBlocksSQL = `
DELETE FROM first_blocks WHERE first IN (SELECT first FROM first_blocks WHERE seen < $1 ORDER BY seen LIMIT $2)`

// PruneBlocks forgets at most limit first blocks that are older than
// BlockRetention and says how many; as many as limit means that there may be
// more.
func (m *MerchantEnd) PruneBlocks(ctx context.Context, now Millis, limit int) (n int64, err error) {
	err = m.s.db.write(ctx, func(ctx context.Context, t *tx) error {
		// Among the claims, or one could find a block known and then gone.
		var last int64
		if _, err := one(ctx, t, lockFeedSQL, []any{"inbox"}, &last); err != nil {
			return err
		}
		n, err = t.exec(ctx, pruneBlocksSQL, int64(now-BlockRetention), limit)
		return err
	})
	return n, err
}

const inboxColumns = `seq, type, id, tenant_user_id, call_back_id, duplicate, settled, claims, created, ended, code, message,
	address, chain_name, symbol, amount`

// Entries lists the inbox, newest first, from below seq before on (0: from the
// newest). next is 0 at the end.
func (m *MerchantEnd) Entries(ctx context.Context, f InboxFilter, limit int, before int64) (list []InboxRecord, next int64, err error) {
	var q conditions
	if f.Type != 0 {
		q.add("type = ?", int64(f.Type))
	}
	if f.ID != "" {
		q.add("id = ?", f.ID)
	}
	if f.CallBackID != "" {
		q.add("call_back_id <> '' AND call_back_id = ?", f.CallBackID)
	}
	if f.Open {
		q.add("settled = 0")
	}
	if before > 0 {
		q.add("seq < ?", before)
	}
	if checkText("", f.ID) != nil || checkText("", f.CallBackID) != nil {
		return nil, 0, nil
	}
	text := `SELECT ` + inboxColumns + ` FROM inbox` + q.where() + q.newestSeq(limit)
	err = each(ctx, m.s.db, text, q.args, func(r rows) error {
		var e InboxRecord
		var duplicate, settled int64
		var d [4]string
		err := r.Scan(&e.Seq, &e.Type, &e.ID, &e.TenantUserID, &e.CallBackID, &duplicate, &settled, &e.Claims, &e.Created, &e.Ended,
			&e.Outcome.Code, &e.Outcome.Message, &d[0], &d[1], &d[2], &d[3])
		if err == nil {
			e.Outcome.Details, err = keptDetails(d)
		}
		e.PossibleDuplicate, e.Settled = duplicate != 0, settled != 0
		list = append(list, e)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if len(list) > limit {
		list = list[:limit]
		next = list[limit-1].Seq
	}
	return list, next, nil
}

// newestSeq asks for one more than limit, to know whether there is one.
func (q *conditions) newestSeq(limit int) string {
	q.args = append(q.args, limit+1)
	return fmt.Sprintf(" ORDER BY seq DESC LIMIT $%d", len(q.args))
}

const freeLeasesSQL = `UPDATE inbox SET lease_until = 0 WHERE settled = 0 AND lease_until > 0`

// FreeLeases ends every lease in the inbox and says how many there were. It is
// for the start of a process that is known to be the only one.
func (m *MerchantEnd) FreeLeases(ctx context.Context) (n int64, err error) {
	err = m.s.db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err = t.exec(ctx, freeLeasesSQL)
		return err
	})
	return n, err
}
