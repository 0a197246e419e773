package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// check is a condition that must hold at the end.
type check struct {
	name  string
	holds bool
	note  string
}

func (d *Demo) check(name string, holds bool, note string) {
	d.checks = append(d.checks, check{name, holds, note})
}

// checkAll compares the merchant's database with what was sent, and both with each other.
func (d *Demo) checkAll(ctx context.Context) error {
	if err := d.checkMerchant(ctx); err != nil {
		return err
	}
	right, wrong := 0, []string{}
	for _, o := range d.asked {
		if o.got == string(o.want) {
			right++
		} else {
			wrong = append(wrong, fmt.Sprintf("%s is %s, not %s", o.name, o.got, o.want))
		}
	}
	d.check("every withdrawal decided as it must be", len(wrong) == 0,
		join(append([]string{fmt.Sprintf("%d of %d", right, len(d.asked))}, wrong...)))
	if err := d.checkFeed(ctx); err != nil {
		return err
	}
	return d.checkNotices(ctx)
}

// tally counts the deposits in one database.
type tally struct {
	count  map[string]int // trackingId
	sums   map[string]countersign.Amount
	broken []string
}

func newTally() *tally {
	return &tally{count: map[string]int{}, sums: map[string]countersign.Amount{}}
}

func (t *tally) add(trackingID, symbol string, amount countersign.Amount) error {
	t.count[trackingID]++
	sum, err := t.sums[symbol].Add(amount)
	t.sums[symbol] = sum
	return err
}

// against reports whether t is exactly what was sent.
func (t *tally) against(d *Demo) (holds bool, note string) {
	for id := range d.sent {
		if t.count[id] != 1 {
			t.broken = append(t.broken, fmt.Sprintf("%s is there %d times", id, t.count[id]))
		}
	}
	for id := range t.count {
		if _, ok := d.sent[id]; !ok {
			t.broken = append(t.broken, id+" was never sent")
		}
	}
	if len(t.broken) > 0 {
		return false, join(t.broken[:min(3, len(t.broken))])
	}
	return true, fmt.Sprintf("%d, each once", len(t.count))
}

func (t *tally) sumsAgainst(d *Demo) (holds bool, note string) {
	symbols := slices.Sorted(maps.Keys(d.sums))
	for _, s := range symbols {
		if !t.sums[s].Equal(d.sums[s]) {
			return false, fmt.Sprintf("%s: %s, sent %s", s, t.sums[s], d.sums[s])
		}
	}
	return len(t.sums) == len(d.sums), fmt.Sprintf("%s %s, and %d more", symbols[0], t.sums[symbols[0]], len(symbols)-1)
}

func (d *Demo) checkTally(where, every string, t *tally) {
	holds, note := t.against(d)
	d.check(where+": "+every, holds, note)
	holds, note = t.sumsAgainst(d)
	d.check(where+": sums to the last digit", holds, note)
}

// delivered is what became of the callbacks, and how long the deposits waited.
type delivered struct {
	all, accepted map[countersign.Type]int
	attempts      int             // of deposits, as all that follows
	waits         []time.Duration // from ingest to settled, sorted
	first, last   time.Time       // ingest of the first, end of the last
}

// at returns the wait that p percent of the deposits stayed below.
func (t delivered) at(p int) time.Duration { return t.waits[min(len(t.waits)-1, len(t.waits)*p/100)] }

// checkService compares the service's database with what was sent, and returns what became of it.
func (d *Demo) checkService(ctx context.Context) (delivered, error) {
	sent, out := newTally(), delivered{all: map[countersign.Type]int{}, accepted: map[countersign.Type]int{}}
	for cursor := ""; ; {
		list, next, err := d.service.Outbox().Callbacks(ctx, nil, client.CallbackFilter{}, 1000, cursor)
		if err != nil {
			return out, err
		}
		for _, c := range list {
			out.all[c.Type]++
			if c.State == client.CallbackAccepted {
				out.accepted[c.Type]++
			}
			if c.Type != countersign.TypeDeposited {
				continue
			}
			if c.State != client.CallbackAccepted {
				sent.broken = append(sent.broken, c.TrackingID+" is "+string(c.State))
			}
			parsed, err := countersign.ParseCallback(c.Payload, countersign.ParseOptions{})
			if err != nil {
				return out, err
			}
			paid := parsed.(*countersign.Deposit)
			if err := sent.add(paid.TrackingID, paid.Symbol, paid.Amount); err != nil {
				return out, err
			}
			created, settled := c.Created.Time(), c.Settled.Time()
			out.attempts += c.Attempt
			out.waits = append(out.waits, settled.Sub(created))
			if out.first.IsZero() || created.Before(out.first) {
				out.first = created
			}
			if settled.After(out.last) {
				out.last = settled
			}
		}
		if next == "" {
			break
		}
		cursor = next
	}
	if len(out.waits) == 0 {
		return out, errors.New("the service has no deposits")
	}
	slices.Sort(out.waits)
	d.checkTally("service's database", "every deposit accepted", sent)
	return out, nil
}

func (d *Demo) checkMerchant(ctx context.Context) error {
	t := newTally()
	var held []string
	for after := int64(0); ; {
		list, err := d.gateway.Book().Deposits(ctx, after, 1000)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for _, e := range list {
			if e.Seq != after+1 {
				t.broken = append(t.broken, fmt.Sprintf("the feed goes from %d to %d", after, e.Seq))
			}
			after = e.Seq
			if e.PossibleDuplicate {
				held = append(held, e.TrackingID)
			}
			if err := t.add(e.TrackingID, e.Symbol, e.Amount); err != nil {
				return err
			}
		}
	}
	d.checkTally("merchant's database", "every deposit, once", t)
	// Of two names for one transfer, the one that came later is held.
	d.check("merchant's database: what was sent twice is held", len(held) == 1, join(held))
	return nil
}

// checkFeed compares the feed of decisions with the merchant's orders.
func (d *Demo) checkFeed(ctx context.Context) error {
	list, err := d.service.Outbox().Decisions(ctx, 0, 1000)
	if err != nil {
		return err
	}
	gaps := false
	for i, e := range list {
		gaps = gaps || e.Seq != int64(i)+1
	}
	d.check("feed of decisions: one each, no gap", !gaps && len(list) == len(d.asked), fmt.Sprint(len(list)))
	agree := true
	for _, e := range list {
		w := e.Withdrawal
		o, err := d.gateway.Book().Order(ctx, w.CallBackID)
		switch {
		case errors.Is(err, db.ErrNotFound):
			agree = agree && w.Decision != countersign.DecisionConfirmed
		case err != nil:
			return err
		case w.Decision == countersign.DecisionConfirmed:
			current, err := d.service.Outbox().Withdrawal(ctx, w.ID)
			if err != nil {
				return err
			}
			asked, err := d.byID(w.ID)
			if err != nil {
				return err
			}
			order, withdrawal := asked.ended()
			agree = agree && o.State == order && current.State == withdrawal &&
				w.Details != nil && countersign.Details(*w.Details).Differs(o.Details()) == ""
		}
	}
	d.check("both books agree on what was executed and what ended", agree, "")
	return nil
}
