package sim

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"countersign"
	"countersign/client"
)

// core is the wallet core: it tells of deposits, asks for withdrawals, and executes. Its ledger
// survives everything.
type core struct {
	w    *world
	http *http.Client
	api  *client.Service
	stop chan struct{}
	all  sync.WaitGroup

	mu         sync.Mutex
	told       map[string]countersign.Amount // deposits that it began to tell, by trackingId
	acked      map[string]bool               // and that the service took
	asked      map[string]string             // withdrawals that the service took: callBackId → id
	cancelled  map[string]bool               // whose cancelling the service took
	executions map[string][]execution        // by callBackId
	outcomes   map[string]string             // by callBackId: what was reported and taken
	after      int64                         // the place in the feed of decisions
	confirmed  []client.Withdrawal
	ignored    map[string]bool                 // that it never releases
	deposits   map[string]client.NewDeposit    // as it told them
	wants      map[string]client.NewWithdrawal // as it asked for them
	given      map[string]given                // permits, by callBackId
	acting     chan struct{}                   // holds a token of each executor that acts
	permits    []stop                          // when each permit was asked for and came, and of whom
	stops      []stop                          // when none may come
}

// given is a permit that the core noted before it did anything else.
type given struct {
	claim  string
	permit client.Permit
}

// execution is funds that moved.
type execution struct {
	claim   string
	details client.Details
	at      time.Duration
}

func newCore(w *world) *core {
	return &core{w: w, http: w.http("core", coreToService), stop: make(chan struct{}), told: map[string]countersign.Amount{}, acked: map[string]bool{}, asked: map[string]string{},
		cancelled: map[string]bool{}, executions: map[string][]execution{}, outcomes: map[string]string{}, ignored: map[string]bool{},
		deposits: map[string]client.NewDeposit{}, wants: map[string]client.NewWithdrawal{}, given: map[string]given{}, acting: make(chan struct{}, 2)}
}

// connect begins to execute what is confirmed. Two executors compete for each permit.
func (c *core) connect(token client.Secret) (err error) {
	c.api, err = client.NewService(client.Config{URL: "http://" + serviceAddr, Token: token, HTTPClient: c.http})
	for _, claim := range []string{"a", "b"} {
		c.all.Go(func() { c.execute(claim) })
	}
	return err
}

func (c *core) close() {
	close(c.stop)
	c.all.Wait()
	c.http.CloseIdleConnections()
}

// deposit tells the service of a deposit until it takes it.
func (c *core) deposit(d deposit) {
	time.Sleep(d.at)
	c.mu.Lock()
	c.told[d.id] = d.amount
	c.mu.Unlock()
	new := client.NewDeposit{Merchant: merchantOf(d.id), TrackingID: d.id, TenantUserID: user, TxID: "tx-" + d.id, ChainName: "TRON", Symbol: "USDT", Amount: d.amount,
		FromAddress: "from", ToAddress: "to", TxIndex: 1}
	tell := func() error {
		list, err := c.api.AddDeposits(c.w.ctx, new)
		if err == nil && (len(list) != 1 || list[0].TrackingID != d.id) {
			c.w.wrong("deposit %s was told and %v taken", d.id, list)
		}
		return err
	}
	if !c.w.persist("deposit "+d.id, tell) {
		c.w.wrong("deposit %s is refused", d.id)
		return
	}
	c.mu.Lock()
	c.acked[d.id], c.deposits[d.id] = true, new
	c.mu.Unlock()
	c.w.count("deposits")
	if d.again { // as a core does that lost the answer
		c.w.persist("deposit "+d.id+" again", tell)
	}
	if d.other { // a fault of the core: the same id with another amount
		new.Amount = amount(d.id + "9")
		for range 3 {
			if _, err := c.api.AddDeposits(c.w.ctx, new); err == nil {
				c.w.wrong("deposit %s was taken with another amount", d.id)
			}
		}
	}
}

// withdrawal asks for a withdrawal until the service takes it.
func (c *core) withdrawal(x withdrawal) {
	time.Sleep(x.askAt)
	if x.ignored {
		c.mu.Lock()
		c.ignored[x.id] = true
		c.mu.Unlock()
	}
	new := client.NewWithdrawal{Merchant: merchantOf(x.id), CallBackID: x.id, TenantUserID: user, ConfirmWithin: client.Duration(x.within)}
	if x.told {
		d := x.details
		if x.differs {
			d.Address = "thief"
		}
		new.Details = &d
	}
	var id string
	if !c.w.persist("withdrawal "+x.id, func() error {
		a, err := c.api.CreateWithdrawal(c.w.ctx, new)
		id = a.ID
		return err
	}) {
		c.w.wrong("withdrawal %s is refused", x.id)
		return
	}
	c.mu.Lock()
	c.asked[x.id], c.wants[x.id] = id, new
	c.mu.Unlock()
	if c.w.float(x.id) < 0.05 { // a fault of the core: the same id for another user
		new.TenantUserID = "1"
		if _, err := c.api.CreateWithdrawal(c.w.ctx, new); err == nil {
			c.w.wrong("withdrawal %s was taken for another user", x.id)
		}
	}
	c.w.count("withdrawals")
	if x.cancelAfter > 0 {
		time.Sleep(x.cancelAfter)
		if c.w.persist("cancelling "+x.id, func() error {
			_, err := c.api.CancelWithdrawal(c.w.ctx, id)
			return err
		}) {
			c.mu.Lock()
			c.cancelled[x.id] = true
			c.mu.Unlock()
		}
	}
}

// execute takes permits for what is confirmed, executes and reports, under a claim of its own.
func (c *core) execute(claim string) {
	open := map[string]client.Withdrawal{}
	var read int
	var permits = map[string]client.Permit{}
	for {
		select {
		case <-c.stop:
			return
		case <-c.w.look(claim, 5):
		}
		c.w.turn(c.acting, claim)
		c.follow()
		c.mu.Lock()
		for _, x := range c.confirmed[read:] {
			if !c.ignored[x.CallBackID] {
				open[x.CallBackID] = x
			}
		}
		read = len(c.confirmed)
		c.mu.Unlock()
		for _, id := range sorted(open) {
			if c.step(claim+"-"+id, open[id], permits) {
				delete(open, id)
			}
		}
		<-c.acting
	}
}

// follow reads the feed of decisions.
func (c *core) follow() {
	c.mu.Lock()
	after := c.after
	c.mu.Unlock()
	page, err := c.api.Decisions(c.w.ctx, client.FeedOptions{After: after, Limit: 1000})
	if errors.Is(err, client.ErrConflict) { // that number is lost with the database
		c.mu.Lock()
		defer c.mu.Unlock()
		c.after = 0
		return
	}
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range page.Items {
		if d.Seq <= c.after {
			continue // the other was faster
		}
		if d.Seq != c.after+1 && d.Seq%newEpoch != 1 {
			c.w.wrong("the feed of decisions goes on with %d after %d", d.Seq, c.after)
		}
		c.after = d.Seq
		if _, has := c.given[d.Withdrawal.CallBackID]; d.Withdrawal.Decision == countersign.DecisionConfirmed && !has {
			c.confirmed = append(c.confirmed, d.Withdrawal)
		}
	}
}

// newEpoch divides the numbers of a feed: with a restore they begin one above a multiple of it.
const newEpoch = 1_000_000

// step makes the next step with a confirmed withdrawal, and reports whether it was the last.
func (c *core) step(claim string, x client.Withdrawal, permits map[string]client.Permit) bool {
	id := x.CallBackID
	c.mu.Lock()
	if now := c.asked[id]; now != "" { // a reconciled restore made it again
		x.ID = now
	}
	c.mu.Unlock()
	permit, has := permits[id]
	if !has {
		var err error
		began := time.Since(c.w.begun)
		permit, err = c.api.ReleaseWithdrawal(c.w.ctx, x.ID, claim)
		switch {
		case errors.Is(err, client.ErrConflict), errors.Is(err, client.ErrInvalid):
			w, err := c.api.Withdrawal(c.w.ctx, x.ID)
			c.mu.Lock()
			if g, has := c.given[id]; err == nil && has && g.claim == claim && (w.State == client.WithdrawalExecuted || w.State == client.WithdrawalFailed) {
				c.outcomes[id] = string(w.State) // the answer to its report was lost
			}
			c.mu.Unlock()
			// Frozen is no end, nor is a restore that is open. A permit that a reconciled restore gave back
			// shows its claim to nobody until the claim asks again.
			return err == nil && w.State != client.WithdrawalAwaiting && w.State != client.WithdrawalConfirmed && (w.State != client.WithdrawalReleased || w.Holder != "" && w.Holder != claim)
		case err != nil:
			return false
		}
		permits[id] = permit
		c.mu.Lock()
		c.given[id] = given{claim, permit}
		c.permits = append(c.permits, stop{merchantOf(x.CallBackID), began, time.Since(c.w.begun)})
		c.mu.Unlock()
	}
	c.mu.Lock()
	list := c.executions[id]
	done := false
	for _, e := range list {
		done = done || e.claim == claim // only this executor's own record says whether it did it before
	}
	fails := id[len(id)-1] == '7'
	if !done && !fails {
		c.executions[id] = append(list, execution{claim, permit.Details, time.Since(c.w.begun)})
		c.w.count("executions")
	}
	c.mu.Unlock()
	if !done && c.w.float(claim) < 0.1 { // it dies, and knows no permit any more
		delete(permits, id)
		return false
	}
	o := client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "tx-" + id}}
	what := "executed"
	if fails {
		o, what = client.Outcome{Permit: permit.Permit, Failed: &client.Failed{Reason: "no funds"}}, "failed"
	}
	if _, err := c.api.ReportOutcome(c.w.ctx, x.ID, o); err != nil {
		if errors.Is(err, client.ErrConflict) || errors.Is(err, client.ErrInvalid) {
			c.w.wrong("the outcome of %s is refused: %v", id, err)
			return true
		}
		return false
	}
	c.mu.Lock()
	c.outcomes[id] = what
	c.mu.Unlock()
	return true
}
