package book

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest/ready"
	"countersign/merchant"
)

// byHand runs a statement past the book, as somebody would who has the database alone.
func byHand(t *testing.T, b *Book, text string, args ...any) {
	t.Helper()
	err := b.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		n, err := x.Exec(ctx, text, args...)
		if err == nil && n != 1 {
			t.Errorf("%s changed %d rows", text, n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestForgedOrders: on an order whose row was written past the program nothing is decided, and
// what the service says became of it still counts.
func TestForgedOrders(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			b := New(openAt(t, d.url(t)), Config{})
			for name, attack := range map[string]string{
				"approved":  `UPDATE orders SET state = 'approved', decided_by = 'tok_2' WHERE call_back_id = $1`,
				"confirmed": `UPDATE orders SET state = 'confirmed', confirmed = 3 WHERE call_back_id = $1`,
				"address":   `UPDATE orders SET address = 'EVIL' WHERE call_back_id = $1`,
				"amount":    `UPDATE orders SET amount = '1000000' WHERE call_back_id = $1`,
				"symbol":    `UPDATE orders SET folded_symbol = 'OTHER' WHERE call_back_id = $1`,
				"ordered":   `UPDATE orders SET ordered_by = 'tok_9' WHERE call_back_id = $1`,
				"expires":   `UPDATE orders SET expires = 4000 WHERE call_back_id = $1`,
				"labels":    `UPDATE orders SET labels = '!' WHERE call_back_id = $1`,
				"garbage":   `UPDATE orders SET amount = 'much' WHERE call_back_id = $1`,
				"inserted":  `INSERT INTO orders SELECT * FROM orders WHERE call_back_id = $1`,
			} {
				o := testOrder(name, "1.50")
				if name == "inserted" {
					attack = `INSERT INTO orders (call_back_id, tenant_user_id, address, chain_name, symbol, amount, labels, expires, state, created, updated, mac)
						SELECT $1, tenant_user_id, address, chain_name, symbol, amount, labels, expires, state, created, updated, mac FROM orders WHERE call_back_id = 'other'`
					o.CallBackID = "other"
				}
				if _, _, err := b.AddOrder(ctx, o, 1); err != nil {
					t.Fatal(err)
				}
				if _, err := b.ChangeOrder(ctx, OrderChange{CallBackID: o.CallBackID, From: OrderOpen, To: OrderHeld}, 2); err != nil {
					t.Fatal(err)
				}
				byHand(t, b, attack, name)
				a, err := b.AskedFor(ctx, name, 3)
				if err != nil || !a.Known || !a.Order.Forged || a.Order.Reason != forgedOrder {
					t.Fatalf("%s: asked for %+v, %v", name, a, err)
				}
				is := a.Order.State
				_, confirmed := b.ChangeOrder(ctx, OrderChange{CallBackID: name, TenantUserID: a.Order.TenantUserID, From: is, To: OrderConfirmed}, 3)
				_, approved := b.ApproveOrder(ctx, name, "tok_3", "", 3)
				_, cancelled := b.CancelOrder(ctx, name, "tok_3", "", 3)
				_, resumed := b.ResumeOrder(ctx, name, "tok_3", "", 3)
				byHand(t, b, `UPDATE orders SET restored = 1 WHERE call_back_id = $1`, name)
				_, resumedAfter := b.ResumeOrder(ctx, name, "tok_3", "", 3)
				byHand(t, b, `UPDATE orders SET restored = 0 WHERE call_back_id = $1`, name)
				for what, err := range map[string]error{"confirmed": confirmed, "approved": approved, "cancelled": cancelled, "resumed": resumedAfter} {
					if !errors.Is(err, db.ErrForged) {
						t.Errorf("%s: %s it: %v", name, what, err)
					}
				}
				if resumed != nil {
					t.Errorf("%s: nothing to resume: %v", name, resumed)
				}
				if n, err := b.ExpireOrders(ctx, 5000, 100); n != 0 || err != nil {
					t.Errorf("%s: %d expired, %v", name, n, err)
				}
				list, _, err := b.Orders(ctx, OrderFilter{}, 100, 0)
				if i := slices.IndexFunc(list, func(o Order) bool { return o.CallBackID == name }); err != nil || i < 0 || !list[i].Forged {
					t.Errorf("%s: listed %+v, %v", name, list, err)
				}
				if name == "inserted" {
					byHand(t, b, `DELETE FROM orders WHERE call_back_id = $1`, name)
					continue
				}
				if is != OrderHeld { // put back it is believed again
					byHand(t, b, `UPDATE orders SET state = 'held', decided_by = '', confirmed = 0 WHERE call_back_id = $1`, name)
					if o, err := b.Order(ctx, name); err != nil || o.Forged {
						t.Errorf("%s: put back it is %+v, %v", name, o, err)
					}
				}
				e := merchant.NewEntry(&countersign.WithdrawalEnded{Head: countersign.Head{RequestUUID: "r" + name, TenantUserID: "7"}, CallBackID: name})
				e.At = time.UnixMilli(6000)
				if r, err := b.Claim(ctx, e); err != nil || r.State != merchant.StateTaken {
					t.Fatalf("%s: the end was %+v, %v", name, r, err)
				}
				if o, err := b.Order(ctx, name); err != nil || o.State != OrderEnded {
					t.Errorf("%s: ended it is %+v, %v", name, o, err)
				}
			}
			wantForged(t, b, "orders approved")
		})
	}
}

// TestForgedReplies: a confirmation that was written into the inbox past the program is not
// given.
func TestForgedReplies(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			b := New(openAt(t, d.url(t)), Config{})
			q := question("c")
			ask := func() (merchant.Claimed, error) { q.At = q.At.Add(time.Hour); return ordered{b}.Claim(ctx, q) }
			r, err := ask()
			if err != nil || r.State != merchant.StateClaimed {
				t.Fatalf("%+v, %v", r, err)
			}
			byHand(t, b, `UPDATE inbox SET settled = 1, code = 0, address = 'EVIL', chain_name = 'c', symbol = 's', amount = '1' WHERE id = 'c'`)
			if r, err := ask(); err != nil || r.State != merchant.StateSettled || r.Reply != (merchant.Reply{Code: countersign.CodeNotKnownYet}) {
				t.Errorf("the forged confirmation is %+v, %v", r, err)
			}
			s := merchant.Settlement{Type: countersign.TypeRequestWithdraw, ID: "c", Claim: r.Claim, Final: true, At: q.At,
				Reply: merchant.Reply{TenantUserID: "7", Details: testOrder("c", "1.50").Details}}
			if stands, err := b.Settle(ctx, s); err != nil || stands != (merchant.Reply{Code: countersign.CodeNotKnownYet}) {
				t.Errorf("it stands as %+v, %v", stands, err)
			}
			byHand(t, b, `UPDATE inbox SET settled = 0, lease_until = 0 WHERE id = 'c'`)
			if stands, err := b.Settle(ctx, s); err != nil || stands != s.Reply {
				t.Errorf("settled %+v, %v", stands, err)
			}
			if r, err := ask(); err != nil || r.Reply != s.Reply {
				t.Errorf("the genuine confirmation is %+v, %v", r, err)
			}
			for _, attack := range []string{"address = 'EVIL'", "amount = '15.0'", "reply_user = '8'", "symbol = 'BTC'", "chain_name = 'x'"} {
				byHand(t, b, `UPDATE inbox SET `+attack+` WHERE id = 'c'`)
				if r, err := ask(); err != nil || r.Reply != (merchant.Reply{Code: countersign.CodeNotKnownYet}) {
					t.Errorf("%s: %+v, %v", attack, r, err)
				}
				byHand(t, b, `UPDATE inbox SET address = 'T', chain_name = 'TRON', symbol = 'USDT', amount = '1.50', reply_user = '7' WHERE id = 'c'`)
			}
			wantForged(t, b, "inbox c")
		})
	}
}

// TestAskedAgain: a question that is open, because the application holds it or has not answered,
// has no answer yet, so there is none that somebody could have forged.
func TestAskedAgain(t *testing.T) {
	eachDialect(t, func(t *testing.T, url string) {
		b := New(openAt(t, url), Config{})
		q := question("held")
		for range 3 {
			q.At = q.At.Add(time.Hour)
			r, err := b.Claim(ctx, q)
			if err != nil || r.State != merchant.StateClaimed {
				t.Fatalf("%+v, %v", r, err)
			}
			held := merchant.Settlement{Type: countersign.TypeRequestWithdraw, ID: "held", Claim: r.Claim, At: q.At, Reply: merchant.Reply{Code: 3001}}
			if _, err := b.Settle(ctx, held); err != nil {
				t.Fatal(err)
			}
		}
		forged := question("forged")
		if _, err := b.Claim(ctx, forged); err != nil {
			t.Fatal(err)
		}
		byHand(t, b, `UPDATE inbox SET settled = 1, code = 0, address = 'EVIL', chain_name = 'c', symbol = 's', amount = '1' WHERE id = 'forged'`)
		forged.At = forged.At.Add(time.Hour)
		if _, err := b.Claim(ctx, forged); err != nil {
			t.Fatal(err)
		}
		wantForged(t, b, "inbox forged")
		list, err := ready.Alarms(ctx, b)
		if err != nil || len(list) != 1 {
			t.Errorf("alarms %+v, %v", list, err)
		}
		byHand(t, b, `UPDATE inbox SET settled = 0, address = '', chain_name = '', symbol = '', amount = '' WHERE id = 'forged'`)
	})
}

// TestForgedEpoch: whoever writes the database past the program does not end what a restore holds
// back: deposits are held and nothing is decided on orders, whatever the row says.
func TestForgedEpoch(t *testing.T) {
	eachRestored(t, func(t *testing.T, b *Book) {
		o := testOrder("o", "1.50")
		if _, _, err := b.AddOrder(ctx, o, 2); err != nil {
			t.Fatal(err)
		}
		for i, attack := range []string{
			`UPDATE epochs SET reconciled = 5`,
			`UPDATE epochs SET reconciled = 0, began = 7`,
			`DELETE FROM epochs`,
		} {
			byHand(t, b, attack)
			id := fmt.Sprint("d", i)
			if _, err := b.Claim(ctx, inboxDeposit(id, "tx"+id, -1)); err != nil {
				t.Fatal(err)
			}
			if s, err := b.Stats(ctx); err != nil || s.DepositsHeld != int64(i+1) {
				t.Errorf("%s: %d deposits are held, %v", attack, s.DepositsHeld, err)
			}
			if a, err := b.AskedFor(ctx, o.CallBackID, 3); err != nil || !a.Restored {
				t.Errorf("%s: asked for %+v, %v", attack, a, err)
			}
			if got, err := b.ChangeOrder(ctx, OrderChange{CallBackID: o.CallBackID, TenantUserID: o.TenantUserID, From: OrderOpen, To: OrderConfirmed}, 3); !errors.Is(err, db.ErrConflict) {
				t.Errorf("%s: decided %+v, %v", attack, got, err)
			}
			if n, err := b.ExpireOrders(ctx, o.Expires+1, 10); n != 0 || err != nil {
				t.Errorf("%s: %d expired, %v", attack, n, err)
			}
		}
	})
}

// wantForged waits for the alarm row_forged about subject.
func wantForged(t *testing.T, b *Book, subject string) {
	t.Helper()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		list, err := ready.Alarms(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(list, func(a db.Alarm) bool { return a.Kind == client.AlarmRowForged && a.Subject == subject }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no alarm about %s in %+v", subject, list)
		}
	}
}
