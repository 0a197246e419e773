package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/journal"
)

// left returns something that is due and has not been done, as far as the ledgers say; empty:
// nothing.
func (w *world) left() string {
	w.shop.read()
	if text := w.waits(); text != "" {
		return text
	}
	w.shop.mu.Lock()
	credited, forwarded := len(w.shop.credits), len(w.shop.forwarded)
	w.shop.mu.Unlock()
	w.core.mu.Lock()
	deposits, asked := 0, maps.Clone(w.core.asked)
	for id := range w.core.acked {
		if !ofRogue(id) {
			deposits++
		}
	}
	w.core.mu.Unlock()
	if credited < deposits || forwarded < deposits {
		return fmt.Sprintf("of %d deposits %d are credited and %d forwarded", deposits, credited, forwarded)
	}
	for _, callBackID := range sorted(asked) {
		if w.ended[callBackID] { // it stays so
			continue
		}
		x, err := w.operator.Withdrawal(w.ctx, asked[callBackID])
		switch {
		case err != nil:
			return err.Error()
		case !ended(x.State):
			return fmt.Sprintf("withdrawal %s is %s", callBackID, x.State)
		}
		if text := w.differs(callBackID, x); text != "" {
			return "withdrawal " + callBackID + ": " + text
		}
		w.ended[callBackID] = true
	}
	return w.lasting()
}

// waits returns something that the service has still to tell a merchant.
func (w *world) waits() string {
	for _, s := range []client.CallbackState{client.CallbackPending, client.CallbackSending} {
		page, err := w.operator.Callbacks(w.ctx, client.CallbackFilter{State: s}, client.PageOptions{})
		if err != nil {
			return err.Error()
		}
		if len(page.Items) > 0 {
			return fmt.Sprintf("%s of %s is %s", page.Items[0].Name, page.Items[0].ID, s)
		}
	}
	return ""
}

func ended(s client.WithdrawalState) bool {
	switch s {
	case client.WithdrawalAwaiting, client.WithdrawalConfirmed, client.WithdrawalReleased:
		return false
	}
	return true
}

// differs returns how the merchant's record of an ended withdrawal differs from what it must be.
func (w *world) differs(callBackID string, x client.Withdrawal) string {
	if ofRogue(callBackID) {
		return "" // it keeps nothing of an end
	}
	o, err := w.shop.api.Order(w.ctx, callBackID)
	state := string(o.State)
	if err != nil {
		state = err.Error()
	}
	is := o.State
	switch {
	case is == client.OrderOpen && x.State != client.WithdrawalExecuted:
		// Whoever was never asked is not told of the end.
		if asked, err := w.operator.Callback(w.ctx, x.Callback); err == nil && len(asked.Attempts) == 0 {
			return ""
		}
		return "the service says " + string(x.State) + " and the merchant's end " + state
	case x.State == client.WithdrawalExecuted && is != client.OrderExecuted,
		x.State != client.WithdrawalExecuted && (err == nil && (is == client.OrderOpen || is == client.OrderHeld || is == client.OrderApproved || is == client.OrderConfirmed || is == client.OrderExecuted)):
		return "the service says " + string(x.State) + " and the merchant's end " + state
	}
	return ""
}

// check compares the ledgers of all parties.
func (w *world) check() {
	w.checkDeposits()
	w.checkWithdrawals()
	if text := w.waits(); text != "" {
		w.wrong("something waits still: %s", text)
	}
	if n := len(w.shop.held); n > 0 {
		w.wrong("%d deposits are held, and nobody decides on them", n)
	}
	w.rogue.check()
	w.checkLog(w.service)
	w.checkLog(w.gateway)
	w.checkAlarms()
}

// holdMost is how many checkpoints of a log are held: the first, and the last ones.
const holdMost = 6

// holdLog keeps a checkpoint of a process's log, with its key. The caller has the process's token,
// so that no restore comes between.
func (w *world) holdLog(p *process) error {
	proof, err := w.logOf(p).AuditCheckpoint(w.ctx, 0)
	if err != nil {
		return err
	}
	if p.held = append(p.held, proof); len(p.held) > holdMost {
		p.held = slices.Delete(p.held, 1, 2)
	}
	return nil
}

func (w *world) logOf(p *process) journal.Source {
	if p == w.gateway {
		return w.shop.api
	}
	return w.operator
}

// checkLog: a log verifies whole, and continues each checkpoint that was held.
func (w *world) checkLog(p *process) {
	var b bytes.Buffer
	err := journal.Export(w.ctx, &b, w.logOf(p))
	for _, held := range p.held {
		if err == nil {
			_, err = journal.Verify(bytes.NewReader(b.Bytes()), held.Key, []byte(held.Checkpoint))
		}
	}
	if err != nil {
		w.wrong("the audit log of the %s: %v", p.name, err)
	}
}

// checkDeposits: each deposit that was acknowledged is credited, once, and no other one.
func (w *world) checkDeposits() {
	c, s := w.core, w.shop
	c.mu.Lock()
	defer c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	times := map[string]int{}
	for _, d := range s.credits {
		times[d.TrackingID]++
		sent, known := c.told[d.TrackingID]
		switch {
		case !known:
			w.wrong("deposit %s was credited, and nobody told of it", d.TrackingID)
		case sent.String() != d.Amount.String():
			w.wrong("deposit %s of %s was credited for %s", d.TrackingID, sent, d.Amount)
		case times[d.TrackingID] == 2:
			w.wrong("deposit %s was credited twice", d.TrackingID)
		}
	}
	forwarded := map[string]int{}
	for _, d := range s.forwarded {
		if forwarded[d.TrackingID]++; forwarded[d.TrackingID] == 2 {
			w.wrong("deposit %s was forwarded as two", d.TrackingID)
		}
	}
	for _, id := range sorted(c.acked) {
		if ofRogue(id) {
			continue
		}
		if times[id] == 0 {
			w.wrong("deposit %s was acknowledged and is not credited", id)
		}
		if forwarded[id] == 0 {
			w.wrong("deposit %s was acknowledged and is not forwarded", id)
		}
	}
}

// checkWithdrawals: each is executed once at most, as it was ordered, and not after an ending;
// each has ended, and the merchant's end knows how.
func (w *world) checkWithdrawals() {
	c, s := w.core, w.shop
	c.mu.Lock()
	defer c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range sorted(c.executions) {
		list := c.executions[id]
		if ofRogue(id) {
			if c.cancelled[id] {
				w.wrong("withdrawal %s was executed although the core cancelled it", id)
			}
			continue // rogue.check
		}
		ordered, known := s.ordered[id]
		if len(list) > 1 {
			w.wrong("withdrawal %s was executed %d times", id, len(list))
		}
		for _, e := range list {
			switch {
			case !known:
				w.wrong("withdrawal %s was executed, and the merchant did not order it", id)
			case !same(e.details, ordered):
				w.wrong("withdrawal %s was executed as %v and ordered as %v", id, e.details, ordered)
			}
		}
		if s.cancelled[id] {
			w.wrong("withdrawal %s was executed although the merchant cancelled it", id)
		}
		s.checkApproved(id, ordered.Amount)
		if c.cancelled[id] {
			w.wrong("withdrawal %s was executed although the core cancelled it", id)
		}
	}
	for _, p := range c.permits {
		for _, s := range c.stops {
			if (s.merchant == "" || s.merchant == p.merchant) && p.from >= s.from && p.to <= s.to {
				w.wrong("a permit was given at %v, during a stop from %v to %v", p.to, s.from, s.to)
			}
		}
	}
	for _, id := range sorted(c.asked) {
		x, err := w.operator.Withdrawal(w.ctx, c.asked[id])
		if err != nil {
			w.wrong("withdrawal %s was acknowledged and is not there: %v", id, err)
			continue
		}
		w.count(string(x.State))
		switch {
		case !ended(x.State):
			w.wrong("withdrawal %s has not ended: %s", id, x.State)
		case c.outcomes[id] != "" && c.outcomes[id] != string(x.State):
			w.wrong("withdrawal %s was reported as %s and is %s", id, c.outcomes[id], x.State)
		case (x.State == client.WithdrawalExecuted) != (len(c.executions[id]) > 0):
			w.wrong("withdrawal %s is %s and was executed %d times", id, x.State, len(c.executions[id]))
		default:
			if text := w.differs(id, x); text != "" {
				w.wrong("withdrawal %s: %s", id, text)
			}
		}
	}
}

// check: each deposit that was acknowledged had its effect, once, and nothing was executed that
// no answer confirmed.
func (r *rogue) check() {
	c := r.w.core
	c.mu.Lock()
	defer c.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range sorted(c.acked) {
		if !ofRogue(id) {
			continue
		}
		switch n := r.merchant.Taken(id); {
		case n == 0 && !r.refused[id]:
			r.w.wrong("deposit %s was acknowledged, and the rogue never took it", id)
		case n > 1 && !r.twice[id]:
			r.w.wrong("deposit %s had its effect %d times at the rogue", id, n)
		}
	}
	for _, id := range sorted(c.executions) {
		list := c.executions[id]
		if !ofRogue(id) {
			continue
		}
		if !r.confirmed[id] {
			r.w.wrong("withdrawal %s was executed, and the rogue did not confirm it", id)
		}
		for _, e := range list {
			if !same(e.details, r.ordered[id]) && !r.lied[id] {
				r.w.wrong("withdrawal %s was executed as %v, and the rogue's order is %v", id, e.details, r.ordered[id])
			}
		}
		if len(list) > 1 {
			r.w.wrong("withdrawal %s was executed %d times", id, len(list))
		}
	}
}

func same(a, b client.Details) bool {
	return a.Address == b.Address && a.ChainName == b.ChainName && a.Symbol == b.Symbol && countersign.Amount.String(a.Amount) == b.Amount.String()
}
