package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
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
// settle it, as docs/operator/backup.md says.
func (w *world) restore(i int, f fault) {
	w.turn(w.operating, "fault", i) // a backup from before a rotation has other keys
	defer func() { <-w.operating }()
	p := w.service
	backup, ok := w.backUp(i, p)
	if !ok {
		return
	}
	time.Sleep(f.span)
	w.turn(p.busy, "restore", i)
	w.core.hold()
	synctest.Wait()
	ok = w.putBack(p, backup) && p.start(w.ctx) == nil
	w.core.release() // it gets no permit as long as the restore is open
	if ok {
		time.Sleep(20 * time.Minute)
		w.wantAlarm(w.operator, client.AlarmFilter{Kind: client.AlarmRestored}, "", "the service is restored")
	}
	w.core.hold()
	defer w.core.release()
	if ok {
		p.stop()
		ok = w.settle(p, w.serviceBooks(w.shop.books())) && p.start(w.ctx) == nil
	}
	<-p.busy // from now on it is started again where it ends
	if ok {
		w.core.tellAgain()
	}
}

// restoreGateway does the same with the gateway, whose application reads nothing meanwhile. What the
// gateway lost is ordered and told again.
func (w *world) restoreGateway(i int, f fault) {
	w.turn(w.operating, "fault", i)
	defer func() { <-w.operating }()
	p := w.gateway
	backup, ok := w.backUp(i, p)
	if !ok {
		return
	}
	time.Sleep(f.span)
	w.turn(p.busy, "restore", i)
	w.shop.hold()
	synctest.Wait()
	ok = w.putBack(p, backup) && p.start(w.ctx) == nil
	w.shop.release() // no deposit counts as long as the restore is open
	if ok {
		time.Sleep(20 * time.Minute)
		w.wantAlarm(w.shop.api, client.AlarmFilter{Kind: client.AlarmRestored}, "", "the gateway is restored")
		w.shop.hold()
		p.stop()
		ok = w.settle(p, reconcile.Config{Booked: w.write(w.completed(w.shop.own()))}) && p.start(w.ctx) == nil
		w.shop.release()
	}
	<-p.busy
	if ok {
		w.shop.cancelUnsaid()
		w.shop.orderAgain()
		w.compare()
	}
}

// restoreBoth loses both databases. The service is settled first, by books alone.
func (w *world) restoreBoth(i int, f fault) {
	w.turn(w.operating, "fault", i)
	defer func() { <-w.operating }()
	g, s := w.gateway, w.service
	ofGateway, ok := w.backUp(i, g)
	if !ok {
		return
	}
	time.Sleep(f.span / 4) // the backups are not of one moment
	ofService, ok := w.backUp(i, s)
	if !ok {
		return
	}
	time.Sleep(f.span)
	w.turn(s.busy, "restore", i)
	w.turn(g.busy, "restore", i)
	w.core.hold()
	defer w.core.release()
	w.shop.hold()
	synctest.Wait()
	is := w.putBack(g, ofGateway)
	ok = w.putBack(s, ofService) && w.settle(s, w.serviceBooks(w.shop.own())) && s.start(w.ctx) == nil
	<-s.busy
	ok = ok && is && w.settle(g, reconcile.Config{Booked: w.write(w.completed(w.shop.own()))}) && g.start(w.ctx) == nil
	<-g.busy
	w.shop.release()
	if ok {
		w.shop.cancelUnsaid()
		w.shop.orderAgain()
		w.core.tellAgain()
		w.compare()
	}
}

// backUp makes a backup of a process while it runs.
func (w *world) backUp(i int, p *process) (path string, ok bool) {
	w.turn(p.busy, "backup", i)
	defer func() { <-p.busy }()
	w.restores++
	path = filepath.Join(w.c.Dir, fmt.Sprint("backup.", w.restores))
	if _, err := daemon.Backup(w.ctx, p.dir, path); err != nil {
		w.wrong("backing up the %s: %v", p.name, err)
		return "", false
	}
	return path, true
}

// place is the database of a process.
func (w *world) place(p *process) daemon.Place {
	return daemon.Place{Storage: daemon.Storage{Dir: p.dir}, Gateway: p == w.gateway, Log: slog.New(slog.DiscardHandler)}
}

// putBack kills a process and puts a backup in the place of its database.
func (w *world) putBack(p *process, backup string) bool {
	p.now.die()
	r, err := w.place(p).Restore(w.ctx, backup, true)
	if err != nil {
		w.wrong("restoring the %s: %v", p.name, err)
		return false
	}
	w.lost[p.name] = true
	p.held = p.held[:1] // the others may be of what is lost
	w.say(p.name, "is restored, epoch %d, %d undecided", r.Epoch, r.Undecided)
	return true
}

// settle compares a restored end with the books of the others, and settles it.
func (w *world) settle(p *process, c reconcile.Config) bool {
	c.Settle, c.Report = true, w.finding
	if p == w.service {
		c.Merchant = "shop"
	}
	if _, err := w.place(p).Reconcile(w.ctx, c); err != nil {
		w.wrong("reconciling the %s: %v", p.name, err)
		return false
	}
	return true
}

func (w *world) finding(f reconcile.Finding) error {
	if f.Finding == reconcile.NotSaid && f.Merchant == "" {
		w.unsaid = append(w.unsaid, f.CallBackID)
	}
	w.say("reconcile", "%s %s%s here %q there %q, settled %v %s", f.Finding, f.TrackingID, f.CallBackID, f.State+f.Here, f.There, f.Settled, f.Reason)
	return nil
}

// serviceBooks returns what the service is compared with.
func (w *world) serviceBooks(booked []reconcile.Line) reconcile.Config {
	executed, added := w.core.books()
	return reconcile.Config{Executed: w.write(executed), Added: w.write(added), Booked: w.write(booked)}
}

// write returns a file of books.
func (w *world) write(lines []reconcile.Line) string {
	w.files++
	path := filepath.Join(w.c.Dir, fmt.Sprint("books.", w.files))
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			w.wrong("writing books: %v", err)
		}
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		w.wrong("writing books: %v", err)
	}
	return path
}

// completed returns books of the application with what the service says of orders whose end the
// application does not know.
func (w *world) completed(lines []reconcile.Line) []reconcile.Line {
	for i := range lines {
		l := &lines[i]
		if l.CallBackID == "" || l.State != "open" && l.State != string(client.OrderConfirmed) {
			continue
		}
		w.persist("looking at "+l.CallBackID, func() error {
			page, err := w.operator.Withdrawals(w.ctx, client.WithdrawalFilter{Merchant: "shop", CallBackID: l.CallBackID}, client.PageOptions{})
			if err != nil || len(page.Items) == 0 {
				return err
			}
			switch x := page.Items[0]; x.State {
			case client.WithdrawalAwaiting:
			case client.WithdrawalConfirmed, client.WithdrawalReleased:
				l.State, l.Confirmed = string(client.OrderConfirmed), x.Decided
			case client.WithdrawalExecuted:
				l.State, l.Confirmed, l.TxID = string(client.OrderExecuted), x.Decided, x.TxID
			default:
				l.State = string(client.OrderEnded)
			}
			return nil
		})
	}
	return lines
}

// compare has the service tell again what the gateway lost.
func (w *world) compare() {
	w.persist("comparing both ends", func() error {
		return reconcile.Remote(w.ctx, w.operator, reconcile.Config{There: w.shop.api, Merchant: "shop", Settle: true, Report: w.finding})
	})
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
	told := maps.Clone(c.deposits)
	c.mu.Unlock()
	for _, id := range deposits {
		c.w.persist("adding "+id+" again", func() error {
			_, err := c.api.AddDeposits(c.w.ctx, told[id])
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

// askAgain returns the id that a withdrawal has now. One with a permit was in the core's books, with
// the details of the permit.
func (c *core) askAgain(callBackID string) (id string, err error) {
	if _, has := c.given[callBackID]; !has {
		a, err := c.api.CreateWithdrawal(c.w.ctx, c.wants[callBackID])
		return a.ID, err
	}
	page, err := c.api.Withdrawals(c.w.ctx, client.WithdrawalFilter{Merchant: merchantOf(callBackID), CallBackID: callBackID}, client.PageOptions{})
	if err == nil && len(page.Items) != 1 {
		c.w.wrong("withdrawal %s has a permit and is there %d times", callBackID, len(page.Items))
		return "", client.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	return page.Items[0].ID, nil
}

// hold stops the application until release: it reads no feed, and what it was being told of it
// forgets.
func (s *shop) hold() {
	s.reading <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped++
}

func (s *shop) release() { <-s.reading }

// books are the deposits that the application has credited, and its orders as the gateway has them.
func (s *shop) books() (lines []reconcile.Line) {
	s.read()
	s.mu.Lock()
	for _, d := range s.credits {
		lines = append(lines, booked(d))
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

func booked(d client.DepositEntry) reconcile.Line {
	return reconcile.Line{Merchant: "shop", TrackingID: d.TrackingID, Symbol: d.Symbol, Amount: d.Amount, TxID: d.TxID, TxIndex: &d.TxIndex, ChainName: d.ChainName, ToAddress: d.ToAddress}
}

// own are the books that the application keeps by itself. Its two ledgers of deposits become one:
// what either has was booked.
func (s *shop) own() (lines []reconcile.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	credited, forwarded := map[string]bool{}, map[string]bool{}
	for _, d := range s.credits {
		credited[d.TrackingID] = true
	}
	for _, id := range sorted(s.forwarded) {
		d := s.forwarded[id]
		if forwarded[d.TrackingID] = true; !credited[d.TrackingID] {
			s.credits = append(s.credits, d)
			s.deposits.seen[d.Seq] = true
			delete(s.held, d.Seq) // the event that it counts may come later
		}
	}
	for _, d := range s.credits {
		if !forwarded[d.TrackingID] {
			s.forwarded[bookedAs(d.Seq)] = d
		}
		lines = append(lines, booked(d))
	}
	for _, id := range sorted(s.ordered) {
		o := s.orders[id]
		l := reconcile.Line{Merchant: "shop", CallBackID: id, State: "open", TenantUserID: o.TenantUserID, Address: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount}
		switch state, known := s.became[id]; {
		case state == client.OrderConfirmed:
			l.State, l.Confirmed = string(state), s.at[id]
		case known:
			l.State = string(state)
		}
		lines = append(lines, l)
	}
	return lines
}

// cancelUnsaid cancels orders that a restored gateway has and the application does not, since it was
// told that they were refused: a repeated request made them when the gateway had lost why.
func (s *shop) cancelUnsaid() {
	ids := s.w.unsaid
	s.w.unsaid = nil
	for _, id := range ids {
		s.mu.Lock()
		refused := s.refused[id]
		s.mu.Unlock()
		if refused {
			s.w.persist("cancelling order "+id, func() error {
				_, err := s.api.ApproveTask(s.w.ctx, client.TaskID(client.TaskRestored, id), "no books have it")
				if err == nil {
					_, err = s.api.CancelOrder(s.w.ctx, id, "it was refused, and nobody waits for it")
				}
				return err
			})
		}
	}
}

// orderAgain orders everything again that the gateway had taken.
func (s *shop) orderAgain() {
	s.mu.Lock()
	ids, orders := sorted(s.ordered), maps.Clone(s.orders)
	s.mu.Unlock()
	for _, id := range ids {
		s.w.persist("ordering "+id+" again", func() error {
			_, err := s.api.AddOrder(s.w.ctx, orders[id])
			return err
		})
	}
}
