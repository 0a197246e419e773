package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
	"countersign/merchant"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var ctx = context.Background()

var testKeys = db.NewMasterKey([32]byte{7})

// start is the time of all steps; each takes a little longer.
const start db.Millis = 1_795_000_000_000

func must[T any](v T, err error) func(dbtest.Failer) T { return dbtest.Must(v, err) }

var ok = dbtest.OK

// place is a database that can be put back to an earlier state.
type place struct {
	t    *testing.T
	url  string
	end  db.End
	open *db.DB
}

func onEachDatabase(t *testing.T, end db.End, fn func(*testing.T, *place)) {
	for name, url := range endtest.Kinds(end) {
		t.Run(name, func(t *testing.T) { fn(t, &place{t: t, url: url(t), end: end}) })
	}
}

func (p *place) db(restoring bool) *db.DB {
	p.t.Helper()
	if p.open == nil {
		p.open = must(db.Open(ctx, db.Config{URL: p.url, Keys: testKeys, Restoring: restoring}, p.end))(p.t)
		p.t.Cleanup(func() { p.close() })
	}
	return p.open
}

func (p *place) close() {
	if p.open != nil {
		p.open.Close()
		p.open = nil
	}
}

// backup returns the URL of a copy as of now.
func (p *place) backup() string {
	p.t.Helper()
	if strings.HasPrefix(p.url, "postgres") {
		p.close()
		return dbtest.Copy(p.t, p.url)
	}
	p.db(false)
	to := filepath.Join(p.t.TempDir(), "copy")
	must(db.Backup(ctx, p.url, to))(p.t)
	return to
}

// restore goes on with a copy.
func (p *place) restore(url string) *db.DB {
	p.t.Helper()
	p.close()
	p.url = url
	return p.db(true)
}

// lines writes a file.
func lines(t *testing.T, list ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lines")
	var b strings.Builder
	for _, l := range list {
		b.Write(must(json.Marshal(l))(t))
		b.WriteByte('\n')
	}
	ok(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// into returns a Report that appends to a list.
func into(list *[]Finding) func(Finding) error {
	return func(f Finding) error { *list = append(*list, f); return nil }
}

var details = countersign.Details{Address: "TAddress", ChainName: "TRON", Symbol: "USDT", Amount: amount("2.5")}

func amount(text string) countersign.Amount {
	a, err := countersign.ParseAmount(text)
	if err != nil {
		panic(err)
	}
	return a
}

var shopKey = sync.OnceValues(func() (*envelope.Key, error) { return envelope.GenerateKey(1024) })

// addShop makes the merchant, whose withdrawals two persons approve.
func addShop(t *testing.T, o *outbox.Outbox) {
	t.Helper()
	must(o.CreateMerchant(ctx, outbox.Merchant{KeySet: outbox.KeySet{MerchantKeys: outbox.MerchantKeys{APIKey: "api-key-of-shop", Key: must(shopKey())(t)}}, ID: "shop", State: client.MerchantActive, Scheme: client.SchemeService,
		MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), Name: "Shop", NotifyURL: "https://m.example/", WithdrawURL: "https://m.example/", Concurrency: 10,
			ApproveAbove: client.AmountLimits{{Symbol: "USDT", Above: amount("1")}}}}, start))(t)
}

// ofTwo wants the approvals of two tokens.
func ofTwo(_ context.Context, _ db.Querier, _ outbox.Withdrawal, a outbox.Approval) (why string, err error) {
	if len(a.Approvals) < 2 {
		why = "one more must"
	}
	return why, nil
}

func approve(t *testing.T, o *outbox.Outbox, by string, at db.Millis) error {
	return o.ApproveWithdrawal(ctx, order(t, o).ID, db.Vote{Token: by, Name: by, At: at},
		func(context.Context, db.Querier, outbox.Withdrawal, outbox.Approval) (bool, error) { return true, nil })
}

// order returns the withdrawal as the service has it.
func order(t *testing.T, o *outbox.Outbox) outbox.Withdrawal {
	t.Helper()
	return must(o.WithdrawalByCallBackID(ctx, "shop", "order"))(t)
}

func create(t *testing.T, o *outbox.Outbox, id string, deadline db.Millis) {
	t.Helper()
	must(o.CreateWithdrawals(ctx, []outbox.NewWithdrawal{{Merchant: "shop", CallBackID: id, TenantUserID: "user", TrackingID: id,
		Details: &details, Deadline: deadline, Payload: []byte(`{"type":2,"callBackId":"` + id + `"}`)}}, start))(t)
}

// end reports how the withdrawal ended.
func end(t *testing.T, o *outbox.Outbox, x outbox.Outcome, at db.Millis) (outbox.Withdrawal, error) {
	t.Helper()
	x.ID = order(t, o).ID
	if x.Permit == "" {
		x.Permit = must(release(t, o, "execution"))(t)
	}
	x.Callback = outbox.NewCallback{Merchant: "shop", Type: countersign.TypeWithdraw, Payload: []byte(`{"type":3}`), Due: start, Deadline: db.Never}
	if x.TxID == "" {
		x.Callback.Type, x.Callback.Payload = countersign.TypeInvalidAddress, []byte(`{"type":5}`)
	}
	done := must(o.RecordOutcomes(ctx, []outbox.Outcome{x}, at))(t)
	return done[0].Withdrawal, done[0].Err
}

// withdrawalSteps are the path of a withdrawal at the service. Each can be taken again.
var withdrawalSteps = []func(*testing.T, *outbox.Outbox){
	func(t *testing.T, o *outbox.Outbox) { create(t, o, "order", start+1_000_000) },
	func(t *testing.T, o *outbox.Outbox) { answer(t, o, start+500) },
	func(t *testing.T, o *outbox.Outbox) { must(true, approve(t, o, "ann", start+610))(t) },
	func(t *testing.T, o *outbox.Outbox) { must(true, approve(t, o, "bob", start+620))(t) },
	func(t *testing.T, o *outbox.Outbox) { must(release(t, o, "execution"))(t) },
	func(t *testing.T, o *outbox.Outbox) { must(end(t, o, outbox.Outcome{TxID: "tx"}, start+800))(t) },
}

const (
	answered = 2 // after so many steps
	released = 5
)

// steps returns a service whose withdrawal took n steps.
func steps(t *testing.T, p *place, n int) *outbox.Outbox {
	t.Helper()
	o := outbox.New(p.db(false))
	addShop(t, o)
	for _, step := range withdrawalSteps[:n] {
		step(t, o)
	}
	return o
}

// again returns the service from a backup of now.
func again(t *testing.T, p *place) *outbox.Outbox {
	t.Helper()
	o := outbox.New(p.restore(p.backup()))
	must(o.Restored(ctx, 0, start+650))(t)
	return o
}

// reconcileService compares a service with what the core says.
func reconcileService(t *testing.T, o *outbox.Outbox, settle bool, at db.Millis, executed ...any) (found []Finding, ended bool) {
	t.Helper()
	ended = must(Service(ctx, o, Config{Executed: lines(t, executed...), Settle: settle, Report: into(&found), Now: at}))(t)
	return found, ended
}

// reconcileGateway compares a book with what the application says.
func reconcileGateway(t *testing.T, b *book.Book, settle bool, at db.Millis, booked ...any) (found []Finding, ended bool) {
	t.Helper()
	ended = must(Gateway(ctx, b, Config{Booked: lines(t, booked...), Settle: settle, Report: into(&found), Now: at}))(t)
	return found, ended
}

// restoredBook returns a book with orders, from a backup.
func restoredBook(t *testing.T, p *place, orders ...string) *book.Book {
	t.Helper()
	b := book.New(p.db(false), book.Config{})
	for _, id := range orders {
		must2(b.AddOrder(ctx, newOrder(id), "", start))(t)
	}
	b = book.New(p.restore(p.backup()), book.Config{})
	must(b.Restored(ctx, 0, start+100))(t)
	return b
}

func newOrder(id string) client.NewOrder {
	return client.NewOrder{CallBackID: id, TenantUserID: "user"}.Paying(details)
}

// answer has the question asked and answered with yes, if it awaits that.
func answer(t *testing.T, o *outbox.Outbox, at db.Millis) {
	if order(t, o).State != client.WithdrawalAwaiting {
		return
	}
	must(o.Sweep(ctx, at))(t)
	for _, c := range must(o.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneWithdraw, Now: at, LeaseUntil: at + 1500, Max: 1}))(t) {
		must(o.Settle(ctx, []outbox.Settlement{{Merchant: "shop", CallbackID: c.ID, State: client.CallbackAccepted, Reached: true,
			Attempt:  outbox.Attempt{Attempt: client.Attempt{Number: c.Attempt, RequestUUID: fmt.Sprint("uuid", c.Attempt), Started: at, HTTPStatus: 200, Result: "accepted", Reason: "confirmed", Node: "n"}},
			Decision: countersign.DecisionConfirmed, Details: details, MerchantVersion: c.MerchantVersion}}, at+100))(t)
	}
}

func must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		ok(t, err)
		return a, b
	}
}

var permits int

// release asks for a permit as the wallet core does, always with a new one to give.
func release(t *testing.T, o *outbox.Outbox, claim string) (string, error) {
	t.Helper()
	permits++
	done := must(o.ReleaseMany(ctx, []outbox.ReleaseRequest{{ID: order(t, o).ID, Holder: outbox.Holder{Claim: claim, Origin: "core"}, Permit: fmt.Sprint("permit", permits)}}, ofTwo, start+700))(t)
	return done[0].Issued.Permit, done[0].Err
}

// TestNoSecondPermit restores a backup that was taken before every step of a withdrawal that two persons approve, after
// any number of steps more. The core gets no permit before the restore is reconciled, and never a second one. Whoever
// approved it counts once, and an approval that was lost does not count.
func TestNoSecondPermit(t *testing.T) {
	for backed := range len(withdrawalSteps) + 1 {
		for done := backed; done <= len(withdrawalSteps); done++ {
			t.Run(fmt.Sprintf("backup after %d, %d done", backed, done), func(t *testing.T) {
				onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
					if strings.HasPrefix(p.url, "postgres") && done != released && (done != backed || backed != released-1) {
						t.Skip("copies of PostgreSQL take long: one backup of each step, and one with all approvals and no permit")
					}
					steps(t, p, backed)
					backup := p.backup()
					o := outbox.New(p.db(false))
					for _, step := range withdrawalSteps[backed:done] {
						step(t, o)
					}
					testRestored(t, p, backup, backed, done)
				})
			})
		}
	}
}

func testRestored(t *testing.T, p *place, backup string, backed, done int) {
	before := ""
	if done >= released {
		before = must(release(t, outbox.New(p.db(false)), "execution"))(t)
	}
	o := outbox.New(p.restore(backup))
	e := must(o.Restored(ctx, 0, start+650))(t)
	// The core goes on where it was: it creates what it needs again.
	for _, step := range withdrawalSteps[:answered] {
		step(t, o)
	}
	for _, claim := range []string{"execution", "another"} {
		if got, err := release(t, o, claim); !errors.Is(err, db.ErrConflict) {
			t.Fatalf("%s got %q, %v before it was reconciled", claim, got, err)
		}
	}
	if err := approve(t, o, "ann", start+655); !errors.Is(err, db.ErrConflict) && backed > 0 && backed < released { // a new one waits for its release
		t.Errorf("approved before it was reconciled: %v", err)
	}
	executed := []any{Line{Merchant: "shop", CallBackID: "order", State: "open"}}
	if before != "" {
		executed = append(executed, Line{Merchant: "shop", CallBackID: "order", TenantUserID: "user", Claim: "execution", Permit: before,
			Address: "TAddress", ChainName: "TRON", Symbol: "USDT", Amount: amount("2.50")})
	}
	found, ended := reconcileService(t, o, false, start+660, executed...)
	if ended {
		t.Error("looking ended the epoch")
	}
	want := Kind("")
	switch {
	case before != "" && backed < released:
		want = ExecutedNotReleased
	case before == "" && backed > 0:
		want = Reopened
	}
	if len(found) == 0 && want != "" || len(found) > 0 && found[0].Finding != want {
		t.Errorf("found %+v, want %q", found, want)
	}
	if _, ended := reconcileService(t, o, true, start+670, executed...); !ended {
		t.Error("the epoch is still open")
	}
	answer(t, o, start+20_000)
	if before != "" {
		if got, err := release(t, o, "another"); !errors.Is(err, db.ErrConflict) {
			t.Errorf("another claim got %q, %v", got, err)
		}
	} else { // it goes on with the approvals that were not lost
		for range 2 {
			must(true, approve(t, o, "ann", start+20_200))(t)
		}
		kept := min(max(backed-answered, 1), 2)
		if a := must(o.WithdrawalApproval(ctx, order(t, o)))(t); len(a.Approvals) != kept {
			t.Errorf("%d approvals, want %d: %+v", len(a.Approvals), kept, a.Approvals)
		}
		if kept == 1 {
			if got, err := release(t, o, "execution"); err == nil {
				t.Errorf("with one approval: %q", got)
			}
			must(true, approve(t, o, "bob", start+20_300))(t)
		}
	}
	first, err := release(t, o, "execution")
	if err != nil || before != "" && first != before {
		t.Errorf("the core gets %q, %v; it had %q", first, err, before)
	}
	if got, err := release(t, o, "execution"); got != first || err != nil {
		t.Errorf("and then %q, %v", got, err)
	}
	if err := approve(t, o, "ann", start+20_400); !errors.Is(err, db.ErrConflict) {
		t.Errorf("approved after its release: %v", err)
	}
	withdrawalSteps[released](t, o)
	if w := order(t, o); w.State != client.WithdrawalExecuted {
		t.Errorf("it ends as %s", w.State)
	}
	// Numbers of the feed are new ones, and a reader at a lost one is told so.
	list := must(o.Decisions(ctx, 0, 10))(t)
	last := list[len(list)-1].Seq
	if backed < answered && last <= e.Base() {
		t.Errorf("the decision has number %d, again", last)
	}
	if err := o.CheckPage(ctx, outbox.FeedOfDecisions, 2, 0); !errors.Is(err, db.ErrConflict) {
		t.Errorf("a reader behind a number that is lost: %v", err)
	}
	for _, after := range []int64{0, last} {
		if err := o.CheckPage(ctx, outbox.FeedOfDecisions, after, 0); err != nil {
			t.Errorf("a reader behind number %d: %v", after, err)
		}
	}
}

func told(trackingID string, at db.Millis) merchant.Entry {
	e := merchant.NewEntry(&countersign.Deposit{Head: countersign.Head{RequestUUID: "uuid-" + trackingID, TrackingID: trackingID, TenantUserID: "user"},
		TxID: "tx-" + trackingID, ChainName: "TRON", Symbol: "USDT", Amount: amount("7.4"), ToAddress: "TTo"})
	e.At = at.Time()
	return e
}

// A backup that was made while an earlier restore was not reconciled holds deposits of that
// epoch: they are decided on with the others.
func TestRestoredTwice(t *testing.T) {
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
		b := restoredBook(t, p)
		must(b.Claim(ctx, told("held", start)))(t)
		b = book.New(p.restore(p.backup()), book.Config{})
		must(b.Restored(ctx, 0, start+200))(t)
		must(b.Claim(ctx, told("held too", start)))(t)
		found, ended := reconcileGateway(t, b, true, start+300)
		if !ended {
			t.Error("the epoch is still open")
		}
		if len(found) != 2 || found[0].Finding != SentNotBooked || found[1].Finding != SentNotBooked { // and the service sends neither again
			t.Errorf("found %+v", found)
		}
		for _, id := range []string{"held", "held too"} {
			if got := depositState(t, b, id); got != client.DepositCredited {
				t.Errorf("%s is %s", id, got)
			}
		}
	})
}

// What a restore does not know may have been executed: while it is not reconciled no
// withdrawal expires or lapses, and nobody is told that its funds are free.
func TestNothingEndsUnreconciled(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
		create(t, steps(t, p, answered), "late", start+1000)
		o := again(t, p)
		const year = db.Millis(365 * 86400e3)
		if done := must(o.Sweep(ctx, start+year))(t); len(done.Expired)+len(done.Lapsed) > 0 {
			t.Errorf("ended before it was reconciled: %+v", done)
		}
		found, ended := reconcileService(t, o, true, start+year, Line{Merchant: "shop", CallBackID: "order", Claim: "execution", Permit: "cpt_before"}, Line{Merchant: "shop", CallBackID: "late", State: "open"})
		if !ended || len(found) != 2 || !found[0].Settled || found[1].Finding != Reopened {
			t.Errorf("ended %v, found %+v", ended, found)
		}
		if done := must(o.Sweep(ctx, start+year))(t); len(done.Expired) != 1 || len(done.Lapsed) != 0 {
			t.Errorf("and then: %+v", done)
		}
		if w := order(t, o); w.State != client.WithdrawalReleased {
			t.Errorf("what was executed is %s", w.State)
		}
	})
}

const onlyDeposit = "17173049-0001"

// ingest adds the one deposit.
func ingest(t *testing.T, o *outbox.Outbox) {
	t.Helper()
	payload := must((&countersign.Deposit{Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: onlyDeposit, TenantUserID: "user"},
		TxID: "tx-" + onlyDeposit, ChainName: "TRON", Symbol: "USDT", Amount: amount("7.4"), ToAddress: "TTo"}).Marshal())(t)
	must(o.Ingest(ctx, []outbox.NewCallback{{Merchant: "shop", Type: countersign.TypeDeposited, EventID: onlyDeposit, TrackingID: onlyDeposit,
		Payload: payload, Due: start, Deadline: db.Never}}, start))(t)
}

// What was acknowledged and is not in the merchant's books is sent again, once, unless a backup has it as not sent yet.
func TestSentAgain(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
		o := steps(t, p, 0)
		ingest(t, o)
		send := func(at db.Millis, repeated bool) {
			t.Helper()
			list := must(o.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneNotify, Now: at, LeaseUntil: at + 5000, Max: 10}))(t)
			if len(list) != 1 || list[0].Repeated != repeated {
				t.Fatalf("claimed %+v, want one, repeated %v", list, repeated)
			}
			must(o.Settle(ctx, []outbox.Settlement{{Merchant: "shop", CallbackID: list[0].ID, State: client.CallbackAccepted, Reached: true, Repeated: list[0].Repeated,
				MerchantVersion: list[0].MerchantVersion, Attempt: outbox.Attempt{Attempt: client.Attempt{Number: list[0].Attempt, RequestUUID: fmt.Sprint("u", at), HTTPStatus: 200, Result: "accepted", Reason: "accepted", Node: "n"}}}}, at+10))(t)
		}
		settle := func(at db.Millis, booked string) []Finding {
			t.Helper()
			var found []Finding
			must(Service(ctx, o, Config{Booked: booked, Executed: lines(t), Merchant: "shop", Settle: true, Report: into(&found), Now: at}))(t)
			return found
		}
		empty := lines(t)
		if found := settle(start+10, empty); len(found) != 0 {
			t.Errorf("before it was sent: found %+v", found)
		}
		send(start+20, false)
		for n := range db.Millis(2) {
			if found := settle(start+100+n, empty); len(found) != 1 || found[0].Finding != SentNotBooked || found[0].Settled != (n == 0) {
				t.Errorf("found %+v", found)
			}
		}
		send(start+1000, true)
		booked := lines(t, Line{TrackingID: onlyDeposit, Symbol: "USDT", Amount: amount("7.40")}, Line{TrackingID: "unknown here"})
		if found := settle(start+2000, booked); len(found) != 1 || found[0].Finding != BookedNotSent || found[0].TrackingID != "unknown here" {
			t.Errorf("once it is booked: found %+v", found)
		}
	})
}

// What the service lost before its merchant and the core's executor had it, only the core
// misses.
func TestAddedUnknown(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
		o := steps(t, p, 1)
		ingest(t, o)
		added := []any{
			Line{TrackingID: onlyDeposit, Symbol: "USDT", Amount: amount("7.40")}, Line{Merchant: "shop", CallBackID: "order", TrackingID: "order"},
			Line{Merchant: "other", TrackingID: onlyDeposit}, Line{TrackingID: "order"}, Line{CallBackID: onlyDeposit}, Line{TrackingID: "lost", Symbol: "USDT", Amount: amount("1")},
		}
		var found []Finding
		config := Config{Added: lines(t, added...), Executed: lines(t, Line{Merchant: "shop", CallBackID: "executed", TenantUserID: "user", Claim: "c", Address: "T", ChainName: "TRON", Symbol: "USDT", Amount: amount("1")}),
			Merchant: "shop", Report: into(&found), Now: start}
		must(Service(ctx, o, config))(t)
		var names []string
		for _, f := range found {
			names = append(names, fmt.Sprint(f.Finding, " ", f.Merchant, " ", f.TrackingID, f.CallBackID))
		}
		want := []string{"executed_unknown shop executed", "added_unknown other " + onlyDeposit, "added_unknown shop order", "added_unknown shop " + onlyDeposit, "added_unknown shop lost"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
		found = nil
		config.Added, config.Executed = lines(t, Line{TrackingID: onlyDeposit, Symbol: "USDT", Amount: amount("7.41")}), ""
		must(Service(ctx, o, config))(t)
		if len(found) != 1 || found[0].Finding != AmountDiffers {
			t.Errorf("with another amount: %+v", found)
		}
	})
}

// TestLeft: what the core says that it added, and how it ended, is only sent again; what the merchant
// alone has, and what both sides say differently, a person decides.
func TestLeft(t *testing.T) {
	added := Finding{Finding: AddedUnknown, Merchant: "shop", TrackingID: "d-1"}
	question := Finding{Finding: AddedUnknown, Merchant: "shop", CallBackID: "w-1"}
	outcome := Finding{Finding: OutcomeUnknown, Merchant: "shop", CallBackID: "w-2"}
	alone := Finding{Finding: BookedNotSent, Merchant: "shop", TrackingID: "d-2"}
	others := Finding{Finding: BookedNotSent, Merchant: "other", TrackingID: "d-1"}
	differs := Finding{Finding: EndDiffers, Merchant: "shop", CallBackID: "w-1"}
	open, again := Left([]Finding{
		{Finding: BookedNotSent, Merchant: "shop", TrackingID: "d-1"}, added, question, {Finding: ConfirmedUnknown, Merchant: "shop", CallBackID: "w-1"},
		outcome, alone, others, differs, {Finding: SentNotBooked, Merchant: "shop", TrackingID: "d-3", Settled: true},
	})
	if diff := cmp.Diff([]Finding{alone, others, differs}, open); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Finding{added, question, outcome}, again); diff != "" {
		t.Error(diff)
	}
}
