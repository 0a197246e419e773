package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing/synctest"
	"time"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/reconcile"
)

// restore loses the database of the service: a backup from before takes its place, the service
// runs for a while with what that leaves open, and then the books of the core and of the application
// settle it, as docs/backup.md says.
func (w *world) restore(f fault) {
	w.operating <- struct{}{} // a backup from before a rotation has other keys
	defer func() { <-w.operating }()
	p := w.service
	p.busy <- struct{}{}
	w.restores++
	backup := filepath.Join(w.c.Dir, fmt.Sprint("backup.", w.restores))
	_, err := daemon.Backup(w.ctx, p.dir, backup)
	<-p.busy
	if err != nil {
		w.wrong("backing up: %v", err)
		return
	}
	time.Sleep(f.span)
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	w.core.hold()
	synctest.Wait()
	p.now.die()
	r, err := daemon.Restore(w.ctx, daemon.RestoreConfig{Storage: daemon.Storage{Dir: p.dir}, From: backup, Replace: true})
	if err != nil {
		w.wrong("restoring: %v", err)
		return
	}
	w.say(p.name, "is restored, epoch %d, %d undecided", r.Epoch, r.Undecided)
	if p.start(w.ctx) != nil {
		return
	}
	w.core.release() // it gets no permit as long as the restore is open
	time.Sleep(20 * time.Minute)
	w.core.hold()
	defer w.core.release()
	p.stop()
	if err := w.settle(p); err != nil {
		w.wrong("reconciling: %v", err)
		return
	}
	if p.start(w.ctx) != nil {
		return
	}
	w.core.tellAgain()
}

// settle compares the restored service with the books of the others, and settles it.
func (w *world) settle(p *process) error {
	c := reconcile.Config{Settle: true, Merchant: "shop", Report: func(f reconcile.Finding) error {
		w.say("reconcile", "%s %s%s here %q there %q, settled %v %s", f.Finding, f.TrackingID, f.CallBackID, f.State+f.Here, f.There, f.Settled, f.Reason)
		return nil
	}}
	executed, added := w.core.books()
	for to, lines := range map[*string][]reconcile.Line{&c.Executed: executed, &c.Added: added, &c.Booked: w.shop.books()} {
		f, err := os.CreateTemp(w.c.Dir, "books")
		if err != nil {
			return err
		}
		*to = f.Name()
		e := json.NewEncoder(f)
		for _, l := range lines {
			if err := e.Encode(l); err != nil {
				return err
			}
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	_, err := daemon.Reconcile(w.ctx, daemon.Storage{Dir: p.dir}, false, c)
	return err
}

// hold waits until no executor acts, and lets none begin until release.
func (c *core) hold() {
	for range cap(c.acting) {
		c.acting <- struct{}{}
	}
}

func (c *core) release() {
	for range cap(c.acting) {
		<-c.acting
	}
}

// books are what the core has of withdrawals and what it has added.
func (c *core) books() (executed, added []reconcile.Line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range sorted(c.acked) {
		d := c.deposits[id]
		added = append(added, reconcile.Line{Merchant: d.Merchant, TrackingID: id, Symbol: d.Symbol, Amount: d.Amount})
	}
	for _, id := range sorted(c.asked) {
		l := reconcile.Line{Merchant: merchantOf(id), CallBackID: id, TenantUserID: user, State: "open"}
		added = append(added, l)
		if d := c.wants[id].Details; d != nil { // it is made again from its line
			l.Address, l.ChainName, l.Symbol, l.Amount = d.Address, d.ChainName, d.Symbol, d.Amount
		}
		if g, has := c.given[id]; has {
			d := g.permit.Details
			l.Claim, l.Permit, l.Address, l.ChainName, l.Symbol, l.Amount = g.claim, string(g.permit.Permit), d.Address, d.ChainName, d.Symbol, d.Amount
			l.State = c.outcomes[id]
		} else if c.cancelled[id] {
			l.State = "cancelled"
		}
		executed = append(executed, l)
	}
	return executed, added
}

// tellAgain adds everything again that the core has added, and reports every outcome again.
func (c *core) tellAgain() {
	c.mu.Lock()
	deposits, asked, outcomes, cancelled := sorted(c.acked), sorted(c.asked), sorted(c.outcomes), sorted(c.cancelled)
	c.mu.Unlock()
	for _, id := range deposits {
		c.w.persist("adding "+id+" again", func() error {
			_, err := c.api.AddDeposits(c.w.ctx, c.deposits[id])
			return err
		})
	}
	for _, id := range asked {
		c.w.persist("asking for "+id+" again", func() error {
			is, err := c.askAgain(id)
			if err == nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.asked[id] = is
			}
			return err
		})
	}
	for _, id := range cancelled {
		c.w.persist("cancelling "+id+" again", func() error {
			_, err := c.api.CancelWithdrawal(c.w.ctx, c.asked[id])
			return err
		})
	}
	for _, id := range outcomes {
		o := client.Outcome{Permit: c.given[id].permit.Permit, Executed: &client.Executed{TxID: "tx-" + id}}
		if c.outcomes[id] == "failed" {
			o.Executed, o.Failed = nil, &client.Failed{Reason: "no funds"}
		}
		c.w.persist("reporting "+id+" again", func() error {
			_, err := c.api.ReportOutcome(c.w.ctx, c.asked[id], o)
			return err
		})
	}
}

// askAgain gives the id that a withdrawal has now. One with a permit was in the core's books, with
// the details of the permit.
func (c *core) askAgain(callBackID string) (id string, err error) {
	if _, has := c.given[callBackID]; !has {
		a, err := c.api.CreateWithdrawal(c.w.ctx, c.wants[callBackID])
		return a.ID, err
	}
	page, err := c.api.Withdrawals(c.w.ctx, client.WithdrawalFilter{Merchant: merchantOf(callBackID), CallBackID: callBackID}, client.PageOptions{})
	if err == nil && len(page.Withdrawals) != 1 {
		c.w.wrong("withdrawal %s has a permit and is there %d times", callBackID, len(page.Withdrawals))
		return "", client.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	return page.Withdrawals[0].ID, nil
}

// books are the deposits that the application has credited, and its orders.
func (s *shop) books() (lines []reconcile.Line) {
	s.read()
	s.mu.Lock()
	for _, d := range s.credits {
		lines = append(lines, reconcile.Line{Merchant: "shop", TrackingID: d.TrackingID, Symbol: d.Symbol, Amount: d.Amount})
	}
	ordered := sorted(s.ordered)
	s.mu.Unlock()
	for _, id := range ordered {
		s.w.persist("reading order "+id, func() error {
			o, err := s.api.Order(s.w.ctx, id)
			if err == nil {
				lines = append(lines, reconcile.Line{Merchant: "shop", CallBackID: id, State: string(o.State), TxID: o.TxID, Confirmed: o.Confirmed,
					TenantUserID: o.TenantUserID, Address: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount})
			}
			return err
		})
	}
	return lines
}
