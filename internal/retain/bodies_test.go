package retain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// newLog opens the audit log of a database whose checkpoints are signed at the time that
// clock has.
func newLog(t testing.TB, d *db.DB, clock *db.Millis) *audit.Log {
	t.Helper()
	return must(audit.Open(ctx, audit.Config{DB: d, End: "service", Now: func() time.Time { return clock.Time() }, Log: slog.New(slog.DiscardHandler)}))(t)
}

// wholeLog reads a log, checks that its tree is right, and gives what each record is: its kind
// and what it is about, or "purged".
func wholeLog(t testing.TB, l *audit.Log) (list []string) {
	t.Helper()
	var b bytes.Buffer
	if err := audit.Export(ctx, &b, source{l}, 1, 0); err != nil {
		t.Fatal(err)
	}
	must(audit.Verify(bytes.NewReader(b.Bytes()), l.Key(), nil))(t)
	for after := int64(0); ; {
		page := must(l.Page(ctx, after, 1000))(t)
		for _, e := range page.Entries {
			if e.Purged {
				list = append(list, "purged")
				continue
			}
			told := must(audit.Read(e.Record))(t)
			list = append(list, strings.Join(append([]string{told.Kind}, told.About...), " "))
		}
		if page.Next == after {
			return list
		}
		after = page.Next
	}
}

// source gives a log as the API does.
type source struct{ l *audit.Log }

func (s source) Audit(ctx context.Context, o client.FeedOptions) (client.AuditPage, error) {
	return s.l.Page(ctx, o.After, o.Limit)
}

func (s source) AuditCheckpoint(ctx context.Context, from int64) (client.AuditProof, error) {
	return s.l.Checkpoint(ctx, from)
}

// kinds are those of records that have their bodies.
func kinds(list []string) (kinds []string) {
	for _, is := range list {
		if is, _, _ := strings.Cut(is, " "); is != "purged" && !slices.Contains(kinds, is) {
			kinds = append(kinds, is)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// TestServiceBodies: records about withdrawals go with the end of these, those about acts
// never, and the tree stays.
func TestServiceBodies(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		o := newService(t, url)
		now := start
		l := newLog(t, o.DB, &now)
		states := []outbox.WithdrawalState{outbox.WithdrawalExpired, outbox.WithdrawalCancelled, outbox.WithdrawalDeclined, outbox.WithdrawalConfirmed, outbox.WithdrawalBlocked,
			outbox.WithdrawalReleased, outbox.WithdrawalExecuted, outbox.WithdrawalFailed, outbox.WithdrawalAwaiting}
		withdrawals := map[outbox.WithdrawalState]outbox.Withdrawal{}
		for _, s := range states {
			withdrawals[s] = addWithdrawal(t, o, s, now)
			now += 2 * day
		}
		ingest(t, o, deposit("d1"), now)
		settle(t, o, countersign.LaneNotify, now, accept)
		must(l.Checkpoint(ctx, 0))(t)
		p := must(ServiceBodies(config(o.DB)))(t)
		if n := purgeAll(t, p, now+89*day); n != 0 {
			t.Errorf("purged %d of what was signed 89 days ago", n)
		}
		all := wholeLog(t, l)
		now += 91 * day
		total := purgeAll(t, p, now)
		after := wholeLog(t, l)
		for i, is := range all {
			kind, about, _ := strings.Cut(is, " ")
			keep := kind == "merchant.created"
			for s, w := range withdrawals {
				open := s == outbox.WithdrawalConfirmed || s == outbox.WithdrawalReleased || s == outbox.WithdrawalAwaiting
				keep = keep || open && strings.Contains(about, w.ID)
			}
			if keep != (after[i] == is) || !keep && after[i] != "purged" {
				t.Errorf("record %d was %q and is %q", i+1, is, after[i])
			}
		}
		if list := after[len(all):]; !slices.Equal(list, []string{"audit.purging purges", "audit.purged"}) {
			t.Errorf("the log tells of the purge by %q", list)
		}
		if total == 0 || int(total) != len(slices.DeleteFunc(slices.Clone(after), func(is string) bool { return is != "purged" })) {
			t.Errorf("purged %d of %d", total, len(all))
		}

		// A withdrawal that ends later takes its records with it.
		w := withdrawals[outbox.WithdrawalReleased]
		if _, _, err := o.RecordOutcome(ctx, w.ID, outbox.Outcome{Permit: "permit-released", TxID: "0x1", Callback: outbox.NewCallback{Merchant: "shop", Type: countersign.TypeWithdraw, Payload: []byte("{}"), Due: now}}, now); err != nil {
			t.Fatal(err)
		}
		must(l.Checkpoint(ctx, 0))(t)
		if n := purgeAll(t, p, now+80*day); n != 0 {
			t.Errorf("purged %d of what ended 80 days ago", n)
		}
		now += 91 * day
		if n := purgeAll(t, p, now); n != 4 { // created, answered, decided, released; not yet ended
			t.Errorf("purged %d", n)
		}
		for _, is := range wholeLog(t, l)[:len(all)] {
			if strings.HasSuffix(is, w.ID) {
				t.Errorf("%q is kept", is)
			}
		}
		proof := must(l.Evidence(ctx, audit.Subject{IDs: []string{w.ID}}, 0))(t)
		purged := 0
		for _, r := range proof.Records {
			if r.Purged {
				purged++
			}
		}
		if purged != 4 {
			t.Errorf("a proof has %d purged records", purged)
		}
	})
}

// TestGatewayBodies: what a person has to decide on keeps its evidence.
func TestGatewayBodies(t *testing.T) {
	onEachDatabase(t, book.End(), func(t *testing.T, url string) {
		b := newBook(t, url)
		now := start
		l := newLog(t, b.DB, &now)
		take(t, b, "d1", "tx1", "1", now) // what d3 may repeat
		now += 1000
		take(t, b, "d2", "tx2", "1", now)
		now += 1000
		take(t, b, "d3", "tx1", "1", now) // held
		now += 1000
		details := countersign.Details{Address: "T1", ChainName: "TRON", Symbol: "USDT", Amount: must(countersign.ParseAmount("2.5"))(t)}
		for _, id := range []string{"open", "ends", "items:5"} {
			if _, _, err := b.AddOrder(ctx, book.NewOrder{CallBackID: id, TenantUserID: "u", Details: details, Expires: db.Never}, now); err != nil {
				t.Fatal(err)
			}
		}
		must(b.CancelOrder(ctx, "ends", "p", "", now))(t)
		must(b.MoveCursor(ctx, "reader", 1, 0, now))(t)
		must(l.Checkpoint(ctx, 0))(t)
		all := wholeLog(t, l)
		p := must(GatewayBodies(config(b.DB)))(t)
		now += 91 * day
		purgeAll(t, p, now)
		want := slices.Clone(all)
		for i, is := range want {
			if is == fmt.Sprint("callbacks.taken items:", start+1000) || strings.HasSuffix(is, " ends") || is == "cursor.moved" {
				want[i] = "purged"
			}
		}
		if diff := cmp.Diff(append(want, "audit.purging purges", "audit.purged"), wholeLog(t, l)); diff != "" {
			t.Error(diff)
		}
		must(b.DecideDeposit(ctx, 3, book.DepositRejected, "p", "", now))(t)
		if n := purgeAll(t, p, now+day); n != 2 { // d1 and d3 were taken
			t.Errorf("purged %d", n)
		}
		now += day
		if is := kinds(wholeLog(t, l)); !slices.Contains(is, "order.added") || slices.Contains(is, "callbacks.taken") {
			t.Errorf("%q", is)
		}
	})
}

// TestOlderNodesHoldBodies: while a node of an earlier release runs, no body goes, and from
// the first that goes on none may start.
func TestOlderNodesHoldBodies(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		o := newService(t, url)
		now := start
		l := newLog(t, o.DB, &now)
		ingest(t, o, deposit("d1"), now)
		settle(t, o, countersign.LaneNotify, now, accept)
		must(l.Checkpoint(ctx, 0))(t)
		now += 91 * day
		beat := func(at db.Millis) {
			t.Helper()
			err := o.Write(ctx, func(ctx context.Context, x *db.Tx) error {
				_, err := x.Exec(ctx, `INSERT INTO nodes (id, name, version, started, seen) VALUES ('a', 'old-7', 'v1', 1, $1) ON CONFLICT (id) DO UPDATE SET seen = excluded.seen`, int64(at))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		beat(now - 29_000)
		must(0, o.Beat(ctx, db.Node{ID: "b", Name: "new", Version: "v2", Started: now, Seen: now - 29_000}))(t)
		if !o.Dialect().Shared { // the new node is alone then
			beat(now - 29_000)
		}
		p := must(ServiceBodies(config(o.DB)))(t)
		if n := purgeAll(t, p, now); n != 0 || p.held != "the node old-7 runs version v1, which does not know records of the audit log without a body" {
			t.Errorf("purged %d, held by %q", n, p.held)
		}
		oldest := func() (text []byte) {
			must(db.One(ctx, o, `SELECT value FROM meta WHERE name = 'oldest schema'`, nil, &text))(t)
			return text
		}
		schema := dbSchema(t, o.DB)
		before := string(oldest())
		if n := purgeAll(t, p, now+2000); n != 1 || p.held != "" {
			t.Errorf("purged %d when the old node had fallen silent, held by %q", n, p.held)
		}
		if is, want := string(oldest()), fmt.Sprint(schema, serviceSchema); is != want {
			t.Errorf("the oldest schema is %q, want %q; it was %q", is, want, before)
		}
		o.Close()
		end := outbox.End()
		end.Migrations = dbtest.Before(t, end.Migrations, serviceSchema-1)
		if _, err := db.Open(ctx, db.Config{URL: url, Keys: testKeys}, end); !errors.Is(err, db.ErrNewerSchema) {
			t.Errorf("the earlier release opened it: %v", err)
		}
		open(t, url, outbox.End())
	})
}

func dbSchema(t testing.TB, d *db.DB) (at int) {
	t.Helper()
	must(db.One(ctx, d, schemaSQL, nil, &at))(t)
	return at
}

// TestSchemaOfBodies: the numbers by which earlier releases are kept out are those of the
// migrations that came with the purge.
func TestSchemaOfBodies(t *testing.T) {
	for _, of := range []struct {
		number int
		end    db.End
	}{{serviceSchema, outbox.End()}, {gatewaySchema, book.End()}} {
		if f, err := of.end.Migrations.Open(fmt.Sprintf("migrations/sqlite/%04d_bodies.sql", of.number)); err != nil {
			t.Errorf("%s: %v", of.end.Name, err)
		} else {
			f.Close()
		}
	}
}

// TestRestoredBodies: a copy of before the purge has the same tree as the log that went on.
func TestRestoredBodies(t *testing.T) {
	url := dbtest.SQLite(t)
	now := start
	o := newService(t, url)
	addWithdrawal(t, o, outbox.WithdrawalExecuted, now)
	held := must(newLog(t, o.DB, &now).Checkpoint(ctx, 0))(t)
	o.Close()
	copied := dbtest.SQLite(t)
	if err := os.WriteFile(copied, must(os.ReadFile(url))(t), 0o600); err != nil {
		t.Fatal(err)
	}
	o = outbox.New(open(t, url, outbox.End()))
	l := newLog(t, o.DB, &now)
	now += 91 * day
	if n := purgeAll(t, must(ServiceBodies(config(o.DB)))(t), now); n == 0 {
		t.Fatal("nothing was purged")
	}
	var export bytes.Buffer
	if err := audit.Export(ctx, &export, source{l}, 1, 0); err != nil {
		t.Fatal(err)
	}
	v, err := audit.Verify(&export, l.Key(), strings.NewReader(held.Checkpoint))
	if err != nil || v.Purged == 0 {
		t.Errorf("what was purged does not begin with what was signed before: %+v, %v", v, err)
	}

	restored := outbox.New(open(t, copied, outbox.End()))
	must(restored.Restored(ctx, 0, now))(t)
	rl := newLog(t, restored.DB, &now)
	p := must(ServiceBodies(config(restored.DB)))(t)
	if done := must(p.Step(ctx, now))(t); done.Purged != 0 {
		t.Errorf("purged %d before it was reconciled", done.Purged)
	}
	if v, err := audit.Verify(strings.NewReader(string(must(audit.Marshal(must(rl.Checkpoint(ctx, v.Earlier.Size))(t)))(t))+"\n"), rl.Key(), strings.NewReader(held.Checkpoint)); err != nil {
		t.Errorf("%+v, %v", v, err)
	}
	must(restored.Reconcile(ctx, now))(t)
	if n := purgeAll(t, p, now); n == 0 {
		t.Error("nothing was purged after it was reconciled")
	}
	wholeLog(t, rl)
}

// TestKilledWhilePurgingBodies: whenever a node dies, each record has its body or is purged,
// none is both, and the tree is right.
func TestKilledWhilePurgingBodies(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		const n = 200
		now := start
		d := must(db.Open(ctx, db.Config{URL: url, Keys: testKeys}, outbox.End()))(t)
		for i := range n {
			err := d.Write(ctx, func(ctx context.Context, x *db.Tx) error {
				return audit.AddItems(ctx, x, audit.Record{Kind: "attempts.settled", At: start}, []audit.Item{{At: start + db.Millis(i), Item: i}})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		l := newLog(t, d, &now)
		held := must(l.Checkpoint(ctx, 0))(t).Checkpoint
		d.Close()
		killWhile(t, purgingBodies, url)
		d = open(t, url, outbox.End())
		now += 92 * day
		l = newLog(t, d, &now)
		check := func() int {
			t.Helper()
			both := 0
			must(db.One(ctx, d, `SELECT COUNT(*) FROM audit_records r JOIN audit_purged p ON p.seq = r.seq`, nil, &both))(t)
			is := wholeLog(t, l)
			gone := len(slices.DeleteFunc(slices.Clone(is[:n]), func(is string) bool { return is != "purged" }))
			subjects := 0
			must(db.One(ctx, d, `SELECT COUNT(*) FROM audit_subjects WHERE subject >= 'items:' AND subject < 'items;'`, nil, &subjects))(t)
			if both != 0 || subjects != n-gone || slices.Index(is, "purged") >= 0 && !slices.Contains(is, "audit.purging purges") {
				t.Errorf("%d are purged, %d are both, %d are found: %q", gone, both, subjects, kinds(is))
			}
			v, err := audit.Verify(strings.NewReader(string(must(audit.Marshal(must(l.Checkpoint(ctx, n))(t)))(t))+"\n"), l.Key(), strings.NewReader(held))
			if err != nil {
				t.Errorf("%+v, %v", v, err)
			}
			return gone
		}
		if gone := check(); gone == 0 {
			t.Error("nothing was purged")
		}
		purgeAll(t, must(ServiceBodies(config(d)))(t), now+day)
		if gone := check(); gone != n {
			t.Errorf("purged %d of %d", gone, n)
		}
	})
}

// TestTwoNodesPurgeBodies: nodes share the work while records are added and the log is
// signed, walked and read.
func TestTwoNodesPurgeBodies(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		const n = 300
		nodes := []*db.DB{open(t, url, outbox.End())}
		nodes = append(nodes, nodes[0])
		if nodes[0].Dialect().Shared {
			nodes[1] = open(t, url, outbox.End())
		}
		now := start
		write := func(d *db.DB, i int, at db.Millis) {
			err := d.Write(ctx, func(ctx context.Context, x *db.Tx) error {
				return audit.Add(ctx, x, audit.Record{Kind: "withdrawal.decided", At: at, About: []string{fmt.Sprint("shop.", i)}, Data: i})
			})
			if err != nil {
				t.Error(err)
			}
		}
		for i := range n {
			write(nodes[0], i, start)
		}
		must(newLog(t, nodes[0], &now).Checkpoint(ctx, 0))(t)
		later := start + 91*day
		l := newLog(t, nodes[0], &later)
		var all sync.WaitGroup
		var total atomic.Int64
		for k, d := range nodes {
			p := must(ServiceBodies(config(d)))(t)
			all.Go(func() { total.Add(stepThrough(t, p, later)) })
			all.Go(func() {
				for i := range 20 {
					write(d, n+20*k+i, later)
					if err := audit.Export(ctx, &bytes.Buffer{}, source{l}, 1, 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		total.Add(purgeAll(t, must(ServiceBodies(config(nodes[0])))(t), later+2*day))
		if total.Load() != n {
			t.Errorf("purged %d of %d", total.Load(), n)
		}
		wholeLog(t, l)
	})
}

// TestExportsHoldBodies: once somebody acknowledges exports, nothing goes that is in none.
func TestExportsHoldBodies(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		d := open(t, url, outbox.End())
		now := start
		l := newLog(t, d, &now)
		for i := range 10 {
			err := d.Write(ctx, func(ctx context.Context, x *db.Tx) error {
				return audit.Add(ctx, x, audit.Record{Kind: "withdrawal.decided", At: start, About: []string{fmt.Sprint("shop.", i)}})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		must(l.Checkpoint(ctx, 0))(t)
		for _, c := range []struct {
			first, last, upto int64
			want              error
		}{{2, 3, 0, audit.ErrGap}, {1, 11, 0, audit.ErrFrom}, {1, 3, 3, nil}, {1, 2, 3, nil}, {2, 4, 4, nil}, {6, 7, 4, audit.ErrGap}} {
			upto, err := l.Exported(ctx, c.first, c.last, now)
			if !errors.Is(err, c.want) || c.want == nil && upto != c.upto {
				t.Errorf("%d to %d: %d, %v", c.first, c.last, upto, err)
			}
		}
		if page := must(l.Page(ctx, 0, 1))(t); page.Exported != 4 {
			t.Errorf("exported up to %d", page.Exported)
		}
		p := must(ServiceBodies(config(d)))(t)
		now += 91 * day
		if n := purgeAll(t, p, now); n != 4 {
			t.Errorf("purged %d", n)
		}
		if n := purgeAll(t, p, now+day); n != 0 || p.held != "exports of the audit log were acknowledged up to record 4 and no further" {
			t.Errorf("purged %d, held by %q", n, p.held)
		}
		must(l.Exported(ctx, 5, 12, now))(t)
		if n := purgeAll(t, p, now+2*day); n != 6 || p.held != "" {
			t.Errorf("purged %d, held by %q", n, p.held)
		}
		if is := kinds(wholeLog(t, l)); !slices.Equal(is, []string{"audit.exported", "audit.purged", "audit.purging"}) {
			t.Errorf("%q", is)
		}
	})
}
