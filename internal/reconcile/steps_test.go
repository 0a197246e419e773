package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
	"countersign/merchant"
)

// chain is a deposit's whole way: the core, a service, a gateway, and an application
// that reads the gateway's feeds and credits what counts, without a look at trackingIds.
type chain struct {
	t                *testing.T
	service, gateway *place
	now              db.Millis
	sent             []outbox.Claimed // claimed and not settled
	read             map[client.FeedName]int64
	credited         int
	epoch            db.Epoch // of the gateway
}

const onlyDeposit = "17173049-0001"

func (c *chain) outbox() *outbox.Outbox { return outbox.New(c.service.db(true)) }
func (c *chain) book() *book.Book       { return book.New(c.gateway.db(true), book.Config{}) }

func (c *chain) later() db.Millis {
	c.now += 1000
	return c.now
}

// depositSteps are the steps of the way. Each can be taken again.
var depositSteps = []struct {
	name string
	do   func(*chain)
}{
	{"the core adds it", func(c *chain) {
		a := amount("7.4")
		payload := must((&countersign.Deposit{Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: onlyDeposit, TenantUserID: "user"},
			TxID: "tx-" + onlyDeposit, ChainName: "TRON", Symbol: "USDT", Amount: a, ToAddress: "TTo"}).Marshal())(c.t)
		must(c.outbox().Ingest(ctx, []outbox.NewCallback{{Merchant: "shop", Type: countersign.TypeDeposited, EventID: onlyDeposit, TrackingID: onlyDeposit,
			Payload: payload, Due: start, Deadline: db.Never}}, c.later()))(c.t)
	}},
	{"the service claims it", func(c *chain) {
		now := c.later()
		must(c.outbox().Sweep(ctx, now))(c.t)
		c.sent = append(c.sent, must(c.outbox().Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneNotify, Now: now, LeaseUntil: now + 5000, Max: 10}))(c.t)...)
	}},
	{"the gateway takes it", func(c *chain) {
		for range c.sent {
			if got := must(c.book().Claim(ctx, told(onlyDeposit, c.later())))(c.t); got.State != merchant.StateTaken && got.State != merchant.StateSettled {
				c.t.Fatalf("telling gives %+v", got)
			}
		}
	}},
	{"the service settles it", func(c *chain) {
		for _, s := range c.sent {
			must(c.outbox().Settle(ctx, []outbox.Settlement{{Merchant: "shop", CallbackID: s.ID, State: client.CallbackAccepted, Reached: true,
				Repeated: s.Repeated, MerchantVersion: s.MerchantVersion,
				Attempt: outbox.Attempt{Attempt: client.Attempt{Number: s.Attempt, RequestUUID: fmt.Sprint("u", s.Attempt), HTTPStatus: 200, Result: "accepted", Reason: "accepted", Node: "n"}}}}, c.later()))(c.t)
		}
		c.sent = nil
	}},
	{"the application credits it", (*chain).credit},
}

// credit reads both feeds of the gateway on, as docs/operator/backup.md says.
func (c *chain) credit() {
	b := c.book()
	for _, feed := range []client.FeedName{client.FeedOfDeposits, client.FeedOfEvents} {
		if err := b.CheckPage(ctx, string(feed), c.read[feed], 0); errors.Is(err, db.ErrConflict) {
			c.read[feed] = c.epoch.Ends[string(feed)]
		} else if err != nil {
			c.t.Fatal(err)
		}
	}
	for _, d := range must(b.Deposits(ctx, c.read[client.FeedOfDeposits], 100))(c.t) {
		c.read[client.FeedOfDeposits] = d.Seq
		if book.AsTaken(d).State == client.DepositTaken {
			c.credited++
		}
	}
	for _, e := range must(b.Events(ctx, c.read[client.FeedOfEvents], 100))(c.t) {
		c.read[client.FeedOfEvents] = e.Seq
		if e.Kind == client.EventDepositCredited {
			c.credited++
		}
	}
}

// goOn takes every step until nothing is left to do. A lease that is lost ends.
func (c *chain) goOn() {
	c.sent = nil // who had claimed it is gone
	c.now += 10_000
	for range 2 {
		for _, step := range depositSteps[1:] {
			step.do(c)
		}
	}
}

// books is what the application says.
func (c *chain) books() string {
	if c.credited == 0 {
		return lines(c.t)
	}
	return lines(c.t, Line{Merchant: "shop", TrackingID: onlyDeposit, Symbol: "USDT", Amount: amount("7.40")})
}

// TestEveryStepOfADeposit restores a backup of either end that was taken after each
// step of a deposit's way, after no step more, one, or all, and goes on. The deposit is
// credited once, and what an end has lost is named.
func TestEveryStepOfADeposit(t *testing.T) {
	for _, end := range []string{"service", "gateway"} {
		for backed := range len(depositSteps) + 1 {
			for done := max(backed, 1); done <= len(depositSteps); done++ {
				for _, early := range []bool{true, false} { // it goes on before it is reconciled
					// Copies of PostgreSQL databases take long: one in each row of the table.
					postgres := done == len(depositSteps)
					if done > backed+1 && !postgres {
						continue
					}
					both := end == "gateway" && postgres
					if early == ((backed+done)%2 == 0) && !both || (!dbtest.IsWhole() || dbtest.Race) && backed%2 == 0 {
						continue // each step has one of the two at least
					}
					t.Run(fmt.Sprintf("%s, backup after %d of %d, early %v", end, backed, done, early), func(t *testing.T) {
						t.Run("sqlite", func(t *testing.T) { testDepositStep(newChain(t, "sqlite"), end, backed, done, early) })
						if postgres {
							t.Run("postgres", func(t *testing.T) { testDepositStep(newChain(t, "postgres"), end, backed, done, early) })
						}
					})
				}
			}
		}
	}
}

func newChain(t *testing.T, kind string) *chain {
	return &chain{t: t, service: &place{t: t, url: endtest.Kinds(outbox.End())[kind](t), end: outbox.End()}, gateway: &place{t: t, url: endtest.Kinds(book.End())[kind](t), end: book.End()},
		now: start, read: map[client.FeedName]int64{}}
}

func testDepositStep(c *chain, end string, backed, done int, early bool) {
	t := c.t
	addShop(t, c.outbox())
	c.book()
	place := map[string]*place{"service": c.service, "gateway": c.gateway}[end]
	for _, step := range depositSteps[:backed] {
		step.do(c)
	}
	backup := place.backup()
	for _, step := range depositSteps[backed:done] {
		step.do(c)
	}
	knew := map[string]bool{"service": backed >= 1, "gateway": backed >= 3}[end]
	bookedBefore := c.credited > 0
	place.restore(backup)
	if end == "service" {
		must(c.outbox().Restored(ctx, 0, c.later()))(t)
	} else {
		c.epoch = must(c.book().Restored(ctx, 0, c.later()))(t)
	}
	if early {
		depositSteps[0].do(c) // the core sends again what it is not sure of
		c.goOn()
	}

	var found []Finding
	config := Config{Booked: c.books(), Settle: true, Report: into(&found), Now: c.later()}
	if end == "gateway" {
		if ended := must(Gateway(ctx, c.book(), config))(t); !ended {
			t.Error("the epoch is still open")
		}
	}
	c.credit()
	config.Booked, config.Executed = c.books(), lines(t)
	config.Merchant = "shop" // whose books may be empty
	if ended := must(Service(ctx, c.outbox(), config))(t); ended != (end == "service") {
		t.Error("the epoch is still open")
	}
	depositSteps[0].do(c)
	c.goOn()

	named := func(kind Kind) bool {
		return slices.ContainsFunc(found, func(f Finding) bool { return f.Finding == kind && f.TrackingID == onlyDeposit })
	}
	if c.credited != 1 {
		t.Errorf("credited %d times; found %+v", c.credited, found)
	}
	if bookedBefore && !knew && !early && !named(BookedNotSent) {
		t.Errorf("what the %s lost is not named: %+v", end, found)
	}
	if end == "gateway" && done >= 4 && !bookedBefore && !knew && !named(SentNotBooked) {
		t.Errorf("what the service will not tell again is not named: %+v", found)
	}
	list := must2(c.outbox().SentDeposits(ctx, []string{"shop"}, "", 10))
	if all, _ := list(t); len(all) != 1 || all[0].State != client.CallbackAccepted || all[0].Repeated {
		t.Errorf("at the service: %+v", all)
	}
}
