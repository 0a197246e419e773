package book

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// vectorKeys opens the secrets in the databases of earlier schemas.
func vectorKeys(t testing.TB) *db.MasterKey {
	t.Helper()
	text, err := os.ReadFile("testdata/TEST-VECTOR-master.key")
	if err != nil {
		t.Fatal(err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return db.NewMasterKey([32]byte(key))
}

// TestUpgrade: a gateway's database of schema 2 is brought over, and the work in it
// goes on. See internal/outbox/testdata/README.md.
func TestUpgrade(t *testing.T) {
	keys := vectorKeys(t)
	open := func(url string) *db.DB {
		d, err := db.Open(ctx, db.Config{URL: url, Keys: keys}, End())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for kind, path := range map[string]string{"sqlite": "testdata/schema2.db.gz", "postgres": "testdata/schema2.sql.gz"} {
		t.Run(kind, func(t *testing.T) {
			d := open(dbtest.CheckUpgrade(t, path, End().Foreign, func(url string) { open(url).Close() }, "inbox.transfer", "first_blocks", "tokens.role"))
			defer d.Close()
			testGoesOn(t, New(d, Config{}))
		})
	}
}

// TestEverySchema: a database of any schema since then is brought over, and the work in it
// goes on.
func TestEverySchema(t *testing.T) {
	keys := vectorKeys(t)
	for kind, path := range map[string]string{"sqlite": "testdata/schema2.db.gz", "postgres": "testdata/schema2.sql.gz"} {
		dbtest.EachSchema(t, kind, End().Migrations, func(t *testing.T, before fs.FS) {
			url := dbtest.Restore(t, path)
			earlier := End()
			earlier.Migrations = before
			if _, _, _, err := db.Migrate(ctx, db.Config{URL: url}, earlier); err != nil {
				t.Fatal(err)
			}
			d, err := db.Open(ctx, db.Config{URL: url, Keys: keys}, End())
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			testGoesOn(t, New(d, Config{}))
		})
	}
}

// TestMigrations: the same numbers for both databases.
func TestMigrations(t *testing.T) { dbtest.CheckMigrations(t, End().Migrations) }

// seenBlock is a first block that the database of schema 2 has seen.
func seenBlock(t *testing.T) (d merchant.BlockDigest) {
	if _, err := hex.Decode(d[:], []byte("9dcf97a184f32623d11a73124ceb99a5")); err != nil {
		t.Fatal(err)
	}
	return d
}

func testGoesOn(t *testing.T, b *Book) {
	const later db.Millis = 1_760_000_100_000 // every lease has ended
	last, err := db.LastSeqs(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"alarms": 5, "deposits": 5, "events": 17, "inbox": 18}, last); diff != "" {
		t.Errorf("feeds: %s", diff)
	}
	for id, want := range map[string]OrderState{
		"open": OrderOpen, "held": OrderHeld, "approved": OrderApproved, "confirmed": OrderConfirmed, "executed": OrderExecuted, "ended": OrderEnded,
		"declined": OrderDeclined, "cancelled": OrderCancelled, "expired": OrderExpired, "waiting": OrderConfirmed, "asked": OrderOpen, "unknown": OrderUnknown,
	} {
		if o, err := b.Order(ctx, id); err != nil || o.State != want {
			t.Errorf("order %s is %+v, %v", id, o, err)
		}
	}

	// Nobody is recorded as who ordered them, so anybody may approve them.
	if o, err := b.Order(ctx, "approved"); err != nil || o.OrderedBy != "" {
		t.Errorf("ordered by %q, %v", o.OrderedBy, err)
	}

	// The inbox: what was taken is known with its outcome, what was under way goes on.
	claim := func(cb countersign.Callback, lease time.Duration) merchant.Claimed {
		t.Helper()
		e := merchant.NewEntry(cb)
		e.At, e.Lease = later.Time(), lease
		r, err := b.Claim(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	amount, _ := countersign.ParseAmount("20.50")
	transfer := func(trackingID, tx string) *countersign.Deposit {
		return &countersign.Deposit{Head: countersign.Head{TrackingID: trackingID, TenantUserID: "75746"}, TxID: tx, ChainName: "TRON", Symbol: "USDT",
			Amount: amount, FromAddress: "TFrom", ToAddress: "TTo", TxIndex: -1}
	}
	question := func(id string) *countersign.WithdrawalRequest {
		return &countersign.WithdrawalRequest{Head: countersign.Head{TrackingID: "track-" + id, TenantUserID: "75746"}, CallBackID: id}
	}
	if r := claim(transfer("taken-1", "tx1"), 0); r.State != merchant.StateSettled || r.Seq != 1 {
		t.Errorf("a deposit that was taken: %+v", r)
	}
	spliced := merchant.NewEntry(transfer("spliced", "tx8"))
	spliced.At, spliced.Blocks = later.Time(), &merchant.Blocks{List: []merchant.Block{{Digest: seenBlock(t), Own: true}}}
	if r, err := b.Claim(ctx, spliced); err != nil || r.State != merchant.StateSpliced {
		t.Errorf("a first block that was seen: %+v, %v", r, err)
	}
	if r := claim(transfer("again", "tx2"), 0); r.State != merchant.StateTaken || r.Seq != 19 || !r.PossibleDuplicate {
		t.Errorf("its transfer under another name: %+v", r)
	}
	if r := claim(transfer("new", "tx9"), 0); r.State != merchant.StateTaken || r.PossibleDuplicate {
		t.Errorf("a new deposit: %+v", r)
	}
	if r := claim(question("confirmed"), time.Minute); r.State != merchant.StateSettled || r.Reply.Details.Amount.String() != "12.50" {
		t.Errorf("a question that was confirmed: %+v", r)
	}
	if r := claim(question("unknown"), time.Minute); r.State != merchant.StateSettled || r.Reply.Code != 2001 {
		t.Errorf("a question for no order: %+v", r)
	}
	r := claim(question("asked"), time.Minute)
	if r.State != merchant.StateClaimed || r.Claim != 2 {
		t.Fatalf("a question that was under way: %+v", r)
	}
	if list, err := b.Deposits(ctx, 5, 10); err != nil || len(list) != 2 || list[0].Seq != 6 || list[0].State != DepositHeld || list[1].State != DepositTaken {
		t.Errorf("deposits %+v, %v", list, err)
	}

	// Orders: confirmed under a limit that counts what was confirmed before.
	most, _ := countersign.ParseAmount("50")
	change := OrderChange{CallBackID: "asked", TenantUserID: "75746", From: OrderOpen, To: OrderConfirmed, Ceilings: []Ceiling{{Since: 1, Max: most}}}
	o, err := b.ChangeOrder(ctx, change, later) // 37.50 and 12.50
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Settle(ctx, merchant.Settlement{Type: 2, ID: "asked", Claim: r.Claim, Final: true, Reply: merchant.Reply{Details: o.Details}, At: later.Time()}); err != nil {
		t.Error(err)
	}
	change.CallBackID, change.From = "approved", OrderApproved
	if _, err := b.ChangeOrder(ctx, change, later); err == nil {
		t.Error("confirmed beyond the limit")
	}
	if _, duplicate, err := b.AddOrder(ctx, NewOrder{CallBackID: "new", TenantUserID: "75746", Expires: db.Never, Details: o.Details}, later); err != nil || duplicate {
		t.Errorf("a new order: %v, %v", duplicate, err)
	}
	if list, err := b.Events(ctx, 17, 10); err != nil || len(list) != 1 || list[0].Seq != 18 || list[0].CallBackID != "asked" {
		t.Errorf("events %+v, %v", list, err)
	}
	if c, err := b.MoveCursor(ctx, "ledger", 7, 0, later); err != nil || c.Deposits != 7 || c.Events != 2 {
		t.Errorf("the cursor %+v, %v", c, err)
	}
	if list, err := b.Alarms(ctx, 5, 10); err != nil || len(list) != 1 || list[0].Seq != 6 || list[0].Kind != AlarmPossibleDuplicate {
		t.Errorf("alarms %+v, %v", list, err)
	}

	// Forwards: one of five was told, so 4 deposits and 17 events wait, and three more.
	feeds, moved, err := b.BeginForwarding(ctx, ForwardFrom{}, later)
	if err != nil || feeds[0].Seq != 5 || feeds[1].Seq != 17 || moved != [2]bool{true, true} {
		t.Errorf("forwarding begins %+v, %v, %v", feeds, moved, err)
	}
	if told := tell(t, b, later); len(told) != 24 {
		t.Errorf("forwarded: %v", told)
	}

	// Deposits that earlier releases recorded are suspected in any spelling.
	for i, spell := range []func(d *countersign.Deposit){
		func(d *countersign.Deposit) { d.TxID = "0xTX1" },
		func(d *countersign.Deposit) { d.ChainName, d.Symbol = "tron ", "usdt" },
		func(d *countersign.Deposit) { d.ToAddress = "TTO" },
	} {
		d := transfer(fmt.Sprintf("spelt-%d", i), "tx1")
		spell(d)
		if r := claim(d, 0); r.State != merchant.StateTaken || !r.PossibleDuplicate {
			t.Errorf("in another spelling: %+v", r)
		}
	}
}
