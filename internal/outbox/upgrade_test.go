package outbox

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// schema2 are databases that the tree before wrote. See testdata/README.md.
var schema2 = map[string]string{"sqlite": "testdata/schema2.db.gz", "postgres": "testdata/schema2.sql.gz"}

// vectorKeys opens the secrets in them.
func vectorKeys(t testing.TB) *db.MasterKey {
	t.Helper()
	text := must(os.ReadFile("testdata/TEST-VECTOR-master.key"))(t)
	return db.NewMasterKey([32]byte(must(hex.DecodeString(strings.TrimSpace(string(text))))(t)))
}

// TestUpgrade: a service's database of schema 2 is brought over, and the work in it
// goes on.
func TestUpgrade(t *testing.T) {
	for kind, path := range schema2 {
		t.Run(kind, func(t *testing.T) {
			keys := vectorKeys(t)
			open := func(url string) *db.DB { return must(db.Open(ctx, db.Config{URL: url, Keys: keys}, End()))(t) }
			url := dbtest.CheckUpgrade(t, path, End().Foreign, func(url string) { open(url).Close() }, "tokens.role")
			if diff := cmp.Diff([]string{"core", "admin", "viewer"}, dbtest.Query(t, url, "SELECT role FROM tokens WHERE root = id ORDER BY id")); diff != "" {
				t.Errorf("roles: %s", diff)
			}
			d := open(url)
			defer d.Close()
			testGoesOn(t, New(d))
		})
	}
}

// TestEverySchema: a database of any schema since then is brought over, and the work in it
// goes on.
func TestEverySchema(t *testing.T) {
	keys := vectorKeys(t)
	for kind, path := range schema2 {
		dbtest.EachSchema(t, kind, End().Migrations, func(t *testing.T, before fs.FS) {
			url := dbtest.Restore(t, path)
			earlier := End()
			earlier.Migrations = before
			if _, _, _, err := db.Migrate(ctx, db.Config{URL: url}, earlier); err != nil {
				t.Fatal(err)
			}
			d := must(db.Open(ctx, db.Config{URL: url, Keys: keys}, End()))(t)
			defer d.Close()
			testGoesOn(t, New(d))
		})
	}
}

// TestBesideALaterVersion: the work goes on beside a node of a later version that adds a
// column to every table, with statements that were prepared before.
func TestBesideALaterVersion(t *testing.T) {
	keys := vectorKeys(t)
	url := dbtest.Restore(t, schema2["postgres"])
	d := must(db.Open(ctx, db.Config{URL: url, Keys: keys}, End()))(t)
	defer d.Close()
	prepared := New(d)
	must(prepared.Merchant(ctx, "shop"))(t)
	must(prepared.Merchants(ctx, false, "", 10))(t)
	must(prepared.Decisions(ctx, 0, 10))(t)
	must(prepared.Claim(ctx, ClaimRequest{Lane: countersign.LaneNotify, Node: "early", Now: 1, LeaseUntil: 2, Max: 50}))(t)
	wide := End()
	wide.Migrations = dbtest.Widened(t, wide.Migrations, dbtest.Tables(t, url))
	newer := must(db.Open(ctx, db.Config{URL: url, Keys: keys}, wide))(t)
	defer newer.Close()
	testGoesOn(t, prepared)
	again := must(db.Open(ctx, db.Config{URL: url, Keys: keys}, End()))(t)
	again.Close()
}

func testGoesOn(t *testing.T, s *Outbox) {
	const later = 1_760_000_100_000 // every lease has ended, no deadline has passed
	m := must(s.Merchant(ctx, "shop"))(t)
	if m.Name != "The shop" || m.APIKey.Reveal() != "test-vector-api-key-of-shop" || m.CallbackAPIKey.Reveal() != "test-vector-callback-key-of-shop" ||
		!m.Key.HasPrivate() || !m.ResponseKey.HasPrivate() || m.Key.Fingerprint() != m.Fingerprint || m.Settings.NotifyRetry.Every != 60_000 {
		t.Errorf("the merchant is %+v", m)
	}
	if m := must(s.Merchant(ctx, "stall"))(t); m.State != MerchantPaused || m.Key.HasPrivate() || m.ResponseFingerprint != must(s.Merchant(ctx, "shop"))(t).Fingerprint {
		t.Errorf("the other is %+v", m)
	}
	last := must(db.LastSeqs(ctx, s))(t)
	if diff := cmp.Diff(map[string]int64{"alarms": 2, "decisions": 7}, last); diff != "" {
		t.Errorf("feeds: %s", diff)
	}
	for callBackID, want := range map[string]WithdrawalState{
		"confirmed": WithdrawalConfirmed, "released": WithdrawalReleased, "executed": WithdrawalExecuted, "failed": WithdrawalFailed,
		"declined": WithdrawalDeclined, "cancelled": WithdrawalCancelled, "expired": WithdrawalExpired, "asked": WithdrawalAwaiting, "due": WithdrawalAwaiting,
	} {
		if w := must(s.WithdrawalByCallBackID(ctx, "shop", callBackID))(t); w.State != want {
			t.Errorf("%s is %s", callBackID, w.State)
		}
	}

	// Deposits: a repetition is known, lost leases come back, and what waits is sent.
	if again := must(s.Ingest(ctx, []NewCallback{deposit("shop", "accepted", 1)}, later))(t); !again[0].Duplicate || again[0].State != CallbackAccepted {
		t.Errorf("the same deposit again: %+v", again[0])
	}
	if n := must(s.ReclaimAll(ctx, later))(t); n == 0 {
		if swept := must(s.Sweep(ctx, later))(t); len(swept.Lost) != 2 {
			t.Errorf("swept %+v", swept)
		}
	}
	claimed := must(s.Claim(ctx, ClaimRequest{Lane: countersign.LaneNotify, Node: "new", Now: later, LeaseUntil: later + 1000, Max: 50}))(t)
	attempts := map[string]int{}
	for _, c := range claimed {
		attempts[c.EventID] = c.Attempts
	}
	if diff := cmp.Diff(map[string]int{"due-1": 1, "due-2": 1, "leased": 2}, attempts); diff != "" { // due-3 is of a merchant that is paused
		t.Errorf("claimed: %s", diff)
	}
	for _, d := range settleAll(t, s, claimed, later+1) {
		if !d.Applied {
			t.Errorf("settled %+v", d)
		}
	}

	// Withdrawals: a decision gets the next number, a permit is given once for ever.
	claimed = must(s.Claim(ctx, ClaimRequest{Lane: countersign.LaneWithdraw, Node: "new", Now: later, LeaseUntil: later + 1000, Max: 50}))(t)
	if len(claimed) != 2 {
		t.Fatalf("claimed %+v", claimed)
	}
	must(s.Settle(ctx, []Settlement{answer(claimed[0], countersign.DecisionConfirmed, someDetails(t, "1"))}, later+2))(t)
	if list := must(s.Decisions(ctx, 7, 10))(t); len(list) != 1 || list[0].Seq != 8 || list[0].Withdrawal.ID != claimed[0].ID {
		t.Errorf("decided %+v", list)
	}
	fresh := must(s.WithdrawalByCallBackID(ctx, "shop", "confirmed"))(t)
	if p := must(s.Release(ctx, fresh.ID, "core-2", "permit-new", later))(t); p.Permit != "permit-new" {
		t.Errorf("released with %q", p.Permit)
	}
	held := must(s.WithdrawalByCallBackID(ctx, "shop", "released"))(t)
	if p := must(s.Release(ctx, held.ID, "core-1", "another", later))(t); p.Permit != "permit-of-released" {
		t.Errorf("released again with %q", p.Permit)
	}
	if _, err := s.Release(ctx, held.ID, "core-2", "another", later); !errors.Is(err, db.ErrConflict) {
		t.Errorf("released to another: %v", err)
	}
	o := Outcome{Permit: "permit-of-released", TxID: "0xnew", Callback: NewCallback{Merchant: "shop", Type: countersign.TypeWithdraw, Payload: []byte("{}"), Due: later}}
	if w, _, err := s.RecordOutcome(ctx, held.ID, o, later); err != nil || w.State != WithdrawalExecuted {
		t.Errorf("ended as %+v, %v", w, err)
	}
	if err := s.RaiseAlarm(ctx, db.Alarm{Of: "shop", Kind: "k", At: later}); err != nil {
		t.Error(err)
	}
	if list := must(s.Alarms(ctx, 2, 10))(t); len(list) != 2 || list[0].Seq != 3 || list[0].Kind != AlarmForeignClaim || list[1].Seq != 4 {
		t.Errorf("alarms %+v", list)
	}
	checkCounts(t, s, later+2)
}

// TestSharedDatabase: a database of schema 2 with rows of both ends is opened by
// neither, and one of the service not by the gateway. Nothing in it changes.
func TestSharedDatabase(t *testing.T) {
	for kind, path := range schema2 {
		t.Run(kind, func(t *testing.T) {
			keys := vectorKeys(t)
			url := dbtest.Restore(t, path)
			refused := func(end db.End, table string) {
				t.Helper()
				tables := dbtest.Tables(t, url)
				before := dbtest.Rows(t, url, tables)
				d, err := db.Open(ctx, db.Config{URL: url, Keys: keys}, end)
				if err == nil {
					d.Close()
				}
				if !errors.Is(err, db.ErrOtherEnd) || !strings.Contains(err.Error(), table) {
					t.Errorf("opened by the %s: %v, want %v that names %s", end.Name, err, db.ErrOtherEnd, table)
				}
				if diff := cmp.Diff(before, dbtest.Rows(t, url, tables)); diff != "" || cmp.Diff(tables, dbtest.Tables(t, url)) != "" {
					t.Errorf("the %s has changed it:\n%s", end.Name, diff)
				}
			}
			refused(book.End(), "merchants")
			dbtest.Exec(t, url, `INSERT INTO forwards (feed, seq, due, created) VALUES (0, 1, 1, 1)`)
			refused(End(), "forwards")
			refused(book.End(), "merchants")
			dbtest.Exec(t, url, `DELETE FROM forwards`)
			must(db.Open(ctx, db.Config{URL: url, Keys: keys}, End()))(t).Close()
			refused(book.End(), "belongs to the service")
			if got := dbtest.Query(t, url, `SELECT COUNT(*) FROM schema_version WHERE number > 2`); got[0] == "0" {
				t.Error("a program that knows numbers up to 2 would open it")
			}
		})
	}
}
