package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
	"countersign/merchant"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var ctx = context.Background()

var testKeys = db.NewMasterKey([32]byte{7})

// start is the time of all steps; each takes a little longer.
const start db.Millis = 1_795_000_000_000

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// place is a database that can be put back to an earlier state.
type place struct {
	t    *testing.T
	url  string
	end  db.End
	open *db.DB
}

func onEachDatabase(t *testing.T, end db.End, fn func(*testing.T, *place)) {
	for name, url := range ready.Kinds(end) {
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
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// gather returns a Report and what it was told.
func gather() (*[]Finding, func(Finding) error) {
	var list []Finding
	return &list, func(f Finding) error { list = append(list, f); return nil }
}

var details = countersign.Details{Address: "TAddress", ChainName: "TRON", Symbol: "USDT", Amount: amount("2.5")}

func amount(text string) countersign.Amount {
	a, err := countersign.ParseAmount(text)
	if err != nil {
		panic(err)
	}
	return a
}

// addShop makes the merchant.
func addShop(t *testing.T, o *outbox.Outbox, key *envelope.Key) {
	t.Helper()
	must(o.CreateMerchant(ctx, outbox.Merchant{MerchantKeys: outbox.MerchantKeys{APIKey: "api-key-of-shop", Key: key}, ID: "shop", State: client.MerchantActive, Scheme: client.SchemeService, MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), Name: "Shop", NotifyURL: "https://m.example/", WithdrawURL: "https://m.example/", Concurrency: 10}}, start))(t)
}

// withdrawalSteps are the path of a withdrawal at the service. Each can be taken again.
var withdrawalSteps = []func(*testing.T, *outbox.Outbox){
	func(t *testing.T, o *outbox.Outbox) {
		payload := []byte(`{"type":2,"callBackId":"order"}`)
		must2(createOne(ctx, o, outbox.NewWithdrawal{Merchant: "shop", CallBackID: "order", TenantUserID: "user", TrackingID: "order",
			Details: (*client.Details)(&details), Deadline: start + 1_000_000, Payload: payload}, start))(t)
	},
	func(t *testing.T, o *outbox.Outbox) { answer(t, o, start+500) },
	func(t *testing.T, o *outbox.Outbox) { release(t, o, "execution") },
	func(t *testing.T, o *outbox.Outbox) {
		permit, w := permitOf(t, o)
		must2(recordOne(ctx, o, w.ID, outbox.Outcome{Permit: permit, TxID: "tx", Callback: outbox.NewCallback{Merchant: "shop",
			Type: countersign.TypeWithdraw, Payload: []byte(`{"type":3}`), Due: start, Deadline: db.Never}}, start+800))(t)
	},
}

// answer has the question asked and answered with yes, if it awaits that.
func answer(t *testing.T, o *outbox.Outbox, at db.Millis) {
	w := must(o.WithdrawalByCallBackID(ctx, "shop", "order"))(t)
	if w.State != client.WithdrawalAwaiting {
		return
	}
	must(o.Sweep(ctx, at))(t)
	for _, c := range must(o.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneWithdraw, Node: "n", Now: at, LeaseUntil: at + 1500, Max: 1}))(t) {
		must(o.Settle(ctx, []outbox.Settlement{{Merchant: "shop", CallbackID: c.ID, State: client.CallbackAccepted, Reached: true,
			Attempt:  outbox.Attempt{Attempt: client.Attempt{Number: c.Attempt, RequestUUID: fmt.Sprint("uuid", c.Attempt), Started: at, HTTPStatus: 200, Result: "accepted", Reason: "confirmed", Node: "n"}},
			Decision: countersign.DecisionConfirmed, Details: details, MerchantVersion: c.MerchantVersion}}, at+100))(t)
	}
}

func must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a, b
	}
}

var permits int

// release asks for a permit as the wallet core does, always with a new one to give.
func release(t *testing.T, o *outbox.Outbox, claim string) (string, error) {
	t.Helper()
	permits++
	w := must(o.WithdrawalByCallBackID(ctx, "shop", "order"))(t)
	p, err := releaseOne(ctx, o, w.ID, outbox.Holder{Claim: claim, Origin: "core"}, fmt.Sprint("permit", permits), start+700)
	return p.Permit, err
}

func permitOf(t *testing.T, o *outbox.Outbox) (string, outbox.Withdrawal) {
	t.Helper()
	p, err := release(t, o, "execution")
	if err != nil {
		t.Fatal(err)
	}
	return p, must(o.WithdrawalByCallBackID(ctx, "shop", "order"))(t)
}

// TestNoSecondPermit restores a backup that was taken before every step of a
// withdrawal, after any number of steps more. The core gets no permit before the restore
// is reconciled, and never a second one.
func TestNoSecondPermit(t *testing.T) {
	key := must(envelope.GenerateKey(1024))(t)
	for backed := range len(withdrawalSteps) + 1 {
		for lost := range len(withdrawalSteps) + 1 - backed {
			t.Run(fmt.Sprintf("backup after %d, %d lost", backed, lost), func(t *testing.T) {
				onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
					o := outbox.New(p.db(false))
					addShop(t, o, key)
					for _, step := range withdrawalSteps[:backed] {
						step(t, o)
					}
					backup := p.backup()
					o = outbox.New(p.db(false))
					for _, step := range withdrawalSteps[backed : backed+lost] {
						step(t, o)
					}
					testRestored(t, p, backup, backed, backed+lost)
				})
			})
		}
	}
}

func testRestored(t *testing.T, p *place, backup string, backed, done int) {
	before := ""
	if done >= 3 {
		before, _ = permitOf(t, outbox.New(p.db(false)))
	}
	o := outbox.New(p.restore(backup))
	e := must(o.Restored(ctx, 0, start+650))(t)
	// The core goes on where it was: it creates what it needs again.
	for _, step := range withdrawalSteps[:2] {
		step(t, o)
	}
	for _, claim := range []string{"execution", "another"} {
		if got, err := release(t, o, claim); !errors.Is(err, db.ErrConflict) {
			t.Fatalf("%s got %q, %v before it was reconciled", claim, got, err)
		}
	}
	executed := []any{Line{Merchant: "shop", CallBackID: "order", State: "open"}}
	if before != "" {
		executed = append(executed, Line{Merchant: "shop", CallBackID: "order", TenantUserID: "user", Claim: "execution", Permit: before,
			Address: "TAddress", ChainName: "TRON", Symbol: "USDT", Amount: amount("2.50")})
	}
	file := lines(t, executed...)
	found, report := gather()
	if ended := must(Service(ctx, o, Config{Executed: file, Report: report, Now: start + 660}))(t); ended {
		t.Error("looking ended the epoch")
	}
	want := Kind("")
	switch {
	case before != "" && backed < 3:
		want = ExecutedNotReleased
	case before == "" && backed > 0:
		want = Reopened
	}
	if len(*found) == 0 && want != "" || len(*found) > 0 && (*found)[0].Finding != want {
		t.Errorf("found %+v, want %q", *found, want)
	}
	if ended := must(Service(ctx, o, Config{Executed: file, Settle: true, Report: report, Now: start + 670}))(t); !ended {
		t.Error("the epoch is still open")
	}
	answer(t, o, start+20_000)
	if before != "" {
		if got, err := release(t, o, "another"); !errors.Is(err, db.ErrConflict) {
			t.Errorf("another claim got %q, %v", got, err)
		}
	}
	first, err := release(t, o, "execution")
	if err != nil || before != "" && first != before {
		t.Errorf("the core gets %q, %v; it had %q", first, err, before)
	}
	if got, err := release(t, o, "execution"); got != first || err != nil {
		t.Errorf("and then %q, %v", got, err)
	}
	for _, step := range withdrawalSteps[3:] {
		step(t, o)
	}
	if w := must(o.WithdrawalByCallBackID(ctx, "shop", "order"))(t); w.State != client.WithdrawalExecuted {
		t.Errorf("it ends as %s", w.State)
	}
	// Numbers of the feed are new ones, and a reader at a lost one is told so.
	list := must(o.Decisions(ctx, 0, 10))(t)
	last := list[len(list)-1].Seq
	if backed < 2 && last <= e.Base() {
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

// tell tells the book of a deposit and gives what the application may credit by its
// feed: all that counts, and what was decided to count.
func tell(t *testing.T, b *book.Book, trackingID string) {
	t.Helper()
	if c := must(b.Claim(ctx, told(trackingID, start)))(t); c.State != merchant.StateTaken && c.State != merchant.StateSettled {
		t.Fatalf("telling gives %+v", c)
	}
}

func credit(t *testing.T, b *book.Book, credited map[string]int, after int64) {
	t.Helper()
	for _, d := range must(b.Deposits(ctx, after, 100))(t) {
		if book.AsTaken(d).State == client.DepositTaken {
			credited[d.TrackingID]++
		}
	}
	for _, e := range must(b.Events(ctx, 0, 100))(t) {
		if e.Kind == client.EventDepositCredited {
			credited[must(b.Deposit(ctx, e.Deposit))(t).TrackingID]++
		}
	}
}

// TestNoSecondCredit restores a book from before, between and after a deposit was taken
// and credited. Whatever the service tells again, it is credited once.
func TestNoSecondCredit(t *testing.T) {
	for name, again := range map[string]bool{"told again before it is reconciled": true, "told again after": false} {
		t.Run(name, func(t *testing.T) {
			onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
				credited := map[string]int{}
				b := book.New(p.db(false), book.Config{})
				tell(t, b, "old")
				backup := p.backup()
				b = book.New(p.db(false), book.Config{})
				tell(t, b, "booked")
				credit(t, b, credited, 0)
				tell(t, b, "lost") // and the application has not seen it

				b = book.New(p.restore(backup), book.Config{})
				e := must(b.Restored(ctx, 0, start+100))(t)
				tellAgain := func() {
					for _, id := range []string{"booked", "lost", "new"} {
						tell(t, b, id)
					}
				}
				if again {
					tellAgain()
				}
				file := lines(t, Line{TrackingID: "old", Symbol: "USDT", Amount: amount("7.40")}, Line{TrackingID: "booked", Symbol: "USDT", Amount: amount("7.4")})
				found, report := gather()
				if ended := must(Gateway(ctx, b, Config{Booked: file, Settle: true, Report: report, Now: start + 200}))(t); !ended {
					t.Error("the epoch is still open")
				}
				if !again {
					if len(*found) != 1 || (*found)[0].Finding != BookedNotSent || (*found)[0].TrackingID != "booked" {
						t.Errorf("found %+v", *found)
					}
					tellAgain()
				}
				credit(t, b, credited, e.Base())
				for _, id := range []string{"old", "booked", "lost", "new"} {
					if credited[id] != 1 {
						t.Errorf("%s was credited %d times", id, credited[id])
					}
				}
			})
		})
	}
}

// An order of a restored book does not end before it is reconciled: it may have been
// confirmed and executed.
func TestOrdersWait(t *testing.T) {
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
		b := book.New(p.db(false), book.Config{})
		must2(b.AddOrder(ctx, client.NewOrder{CallBackID: "order", TenantUserID: "user", ExpiresAt: start + 150}.Paying(details), "", start))(t)
		b = book.New(p.restore(p.backup()), book.Config{})
		must(b.Restored(ctx, 0, start+100))(t)
		if _, err := b.CancelOrder(ctx, "order", "app", "", start+110); !errors.Is(err, db.ErrConflict) {
			t.Errorf("cancelling gives %v", err)
		}
		if n := must(b.ExpireOrders(ctx, start+200, 10))(t); n != 0 {
			t.Errorf("%d orders expired", n)
		}
		if err := b.RefuseUnknown(ctx, "unknown", "user", start+110); !errors.Is(err, db.ErrConflict) {
			t.Errorf("refusing one that may be lost gives %v", err)
		}
		_, report := gather()
		must(Gateway(ctx, b, Config{Booked: lines(t, Line{CallBackID: "order", State: "open"}), Settle: true, Report: report, Now: start + 200}))(t)
		if n := must(b.ExpireOrders(ctx, start+200, 10))(t); n != 1 {
			t.Errorf("%d orders expired afterwards", n)
		}
	})
}

// A backup that was made while an earlier restore was not reconciled holds deposits of that
// epoch: they are decided on with the others.
func TestRestoredTwice(t *testing.T) {
	onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
		b := book.New(p.db(false), book.Config{})
		first := must(b.Restored(ctx, 0, start+100))(t)
		tell(t, b, "held")
		b = book.New(p.restore(p.backup()), book.Config{})
		must(b.Restored(ctx, 0, start+200))(t)
		tell(t, b, "held too")
		_, report := gather()
		if ended := must(Gateway(ctx, b, Config{Booked: lines(t), Settle: true, Report: report, Now: start + 300}))(t); !ended {
			t.Error("the epoch is still open")
		}
		credited := map[string]int{}
		credit(t, b, credited, first.Base())
		if credited["held"] != 1 || credited["held too"] != 1 {
			t.Errorf("credited %v", credited)
		}
	})
}

// What a restore does not know may have been executed: while it is not reconciled no
// withdrawal expires or lapses, and nobody is told that its funds are free.
func TestNothingEndsUnreconciled(t *testing.T) {
	key := must(envelope.GenerateKey(1024))(t)
	onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
		o := outbox.New(p.db(false))
		addShop(t, o, key)
		for _, step := range withdrawalSteps[:2] {
			step(t, o)
		}
		payload := []byte(`{"type":2,"callBackId":"late"}`)
		must2(createOne(ctx, o, outbox.NewWithdrawal{Merchant: "shop", CallBackID: "late", TenantUserID: "user", TrackingID: "late",
			Details: (*client.Details)(&details), Deadline: start + 1000, Payload: payload}, start))(t)
		o = outbox.New(p.restore(p.backup()))
		must(o.Restored(ctx, 0, start+650))(t)
		const year = db.Millis(365 * 86400e3)
		if done := must(o.Sweep(ctx, start+year))(t); len(done.Expired)+len(done.Lapsed) > 0 {
			t.Errorf("ended before it was reconciled: %+v", done)
		}
		executed := lines(t, Line{Merchant: "shop", CallBackID: "order", Claim: "execution", Permit: "cpt_before"}, Line{Merchant: "shop", CallBackID: "late", State: "open"})
		found, report := gather()
		if ended := must(Service(ctx, o, Config{Executed: executed, Settle: true, Report: report, Now: start + year}))(t); !ended || len(*found) != 2 || !(*found)[0].Settled || (*found)[1].Finding != Reopened {
			t.Errorf("ended %v, found %+v", ended, *found)
		}
		if done := must(o.Sweep(ctx, start+year))(t); len(done.Expired) != 1 || len(done.Lapsed) != 0 {
			t.Errorf("and then: %+v", done)
		}
		if w := must(o.WithdrawalByCallBackID(ctx, "shop", "order"))(t); w.State != client.WithdrawalReleased {
			t.Errorf("what was executed is %s", w.State)
		}
	})
}

// What the service lost before its merchant and the core's executor had it, only the core
// misses.
func TestAddedUnknown(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
		c := &chain{t: t, service: p, now: start}
		o := c.outbox()
		addShop(t, o, must(envelope.GenerateKey(1024))(t))
		for _, step := range withdrawalSteps[:1] {
			step(t, o)
		}
		depositSteps[0].do(c)
		added := []any{
			Line{TrackingID: onlyDeposit, Symbol: "USDT", Amount: amount("7.40")}, Line{Merchant: "shop", CallBackID: "order", TrackingID: "order"},
			Line{Merchant: "other", TrackingID: onlyDeposit}, Line{TrackingID: "order"}, Line{CallBackID: onlyDeposit}, Line{TrackingID: "lost", Symbol: "USDT", Amount: amount("1")},
		}
		found, report := gather()
		config := Config{Added: lines(t, added...), Executed: lines(t, Line{Merchant: "shop", CallBackID: "executed", TenantUserID: "user", Claim: "c", Address: "T", ChainName: "TRON", Symbol: "USDT", Amount: amount("1")}),
			Merchant: "shop", Report: report, Now: start}
		must(Service(ctx, o, config))(t)
		var names []string
		for _, f := range *found {
			names = append(names, fmt.Sprint(f.Finding, " ", f.Merchant, " ", f.TrackingID, f.CallBackID))
		}
		want := []string{"executed_unknown shop executed", "added_unknown other " + onlyDeposit, "added_unknown shop order", "added_unknown shop " + onlyDeposit, "added_unknown shop lost"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
		*found = nil
		config.Added, config.Executed = lines(t, Line{TrackingID: onlyDeposit, Symbol: "USDT", Amount: amount("7.41")}), ""
		must(Service(ctx, o, config))(t)
		if len(*found) != 1 || (*found)[0].Finding != AmountDiffers {
			t.Errorf("with another amount: %+v", *found)
		}
	})
}

func releaseOne(ctx context.Context, o *outbox.Outbox, id string, h outbox.Holder, permit string, now db.Millis) (outbox.Permit, error) {
	done, err := o.ReleaseMany(ctx, []outbox.ReleaseRequest{{ID: id, Holder: h, Permit: permit}}, nil, now)
	if err != nil {
		return outbox.Permit{}, err
	}
	return done[0].Issued, done[0].Err
}

func recordOne(ctx context.Context, o *outbox.Outbox, id string, x outbox.Outcome, now db.Millis) (outbox.Withdrawal, bool, error) {
	x.ID = id
	done, err := o.RecordOutcomes(ctx, []outbox.Outcome{x}, now)
	if err != nil {
		return outbox.Withdrawal{}, false, err
	}
	return done[0].Withdrawal, done[0].Duplicate, done[0].Err
}

func createOne(ctx context.Context, o *outbox.Outbox, n outbox.NewWithdrawal, now db.Millis) (outbox.Withdrawal, bool, error) {
	made, err := o.CreateWithdrawals(ctx, []outbox.NewWithdrawal{n}, now)
	if err != nil {
		return outbox.Withdrawal{}, false, err
	}
	return made[0].Withdrawal, made[0].Duplicate, nil
}
