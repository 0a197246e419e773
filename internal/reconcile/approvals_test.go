package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// ofTwo wants the approvals of two tokens.
func ofTwo(_ context.Context, _ db.Querier, _ outbox.Withdrawal, a outbox.Approval) (why string, err error) {
	if len(a.Approvals) < 2 {
		why = "one more must"
	}
	return why, nil
}

// TestApprovalsOfWithdrawals restores a backup that was taken before each approval of a
// withdrawal, after any number of steps more. Whoever approved it counts once, and there is no
// second permit.
func TestApprovalsOfWithdrawals(t *testing.T) {
	key := must(envelope.GenerateKey(1024))(t)
	limits := client.AmountLimits{{Symbol: "USDT", Above: amount("1")}}
	id := func(o *outbox.Outbox) string { return must(o.WithdrawalByCallBackID(ctx, "shop", "order"))(t).ID }
	approve := func(o *outbox.Outbox, by string, at db.Millis) error {
		return o.ApproveWithdrawal(ctx, id(o), db.Approval{Token: by, Name: by, At: at},
			func(context.Context, db.Querier, outbox.Withdrawal, outbox.Approval) (bool, error) { return true, nil })
	}
	asked := 0
	release := func(o *outbox.Outbox) (string, error) {
		asked++
		r := must(o.ReleaseMany(ctx, []outbox.ReleaseRequest{{ID: id(o), Holder: outbox.Holder{Claim: "execution", Origin: "core"}, Permit: fmt.Sprint("large", asked)}}, ofTwo, start+700))(t)
		return r[0].Issued.Permit, r[0].Err
	}
	var permit string
	steps := []func(*outbox.Outbox) error{
		func(o *outbox.Outbox) error { return approve(o, "ann", start+610) },
		func(o *outbox.Outbox) error { return approve(o, "bob", start+620) },
		func(o *outbox.Outbox) (err error) { permit, err = release(o); return err },
	}
	for backed := range len(steps) + 1 {
		for lost := range len(steps) + 1 - backed {
			t.Run(fmt.Sprintf("backup after %d, %d lost", backed, lost), func(t *testing.T) {
				onEachDatabase(t, outbox.End(), func(t *testing.T, p *place) {
					permit = ""
					run := func(list []func(*outbox.Outbox) error) {
						o := outbox.New(p.db(false))
						for _, step := range list {
							if err := step(o); err != nil {
								t.Fatal(err)
							}
						}
					}
					o := outbox.New(p.db(false))
					must(o.CreateMerchant(ctx, outbox.Merchant{MerchantKeys: outbox.MerchantKeys{APIKey: "api-key-of-shop", Key: key}, ID: "shop", State: client.MerchantActive, Scheme: client.SchemeService,
						MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), Name: "Shop", NotifyURL: "https://m.example/", WithdrawURL: "https://m.example/", Concurrency: 10, ApproveAbove: limits}}, start))(t)
					withdrawalSteps[0](t, o)
					withdrawalSteps[1](t, o)
					run(steps[:backed])
					backup := p.backup()
					run(steps[backed : backed+lost])

					o = outbox.New(p.restore(backup))
					must(o.Restored(ctx, 0, start+650))(t)
					if err := approve(o, "ann", start+655); !errors.Is(err, db.ErrConflict) && backed < len(steps) {
						t.Errorf("approved before it was reconciled: %v", err)
					}
					says := Line{Merchant: "shop", CallBackID: "order", State: "open"}
					if permit != "" {
						says = Line{Merchant: "shop", CallBackID: "order", TenantUserID: "user", Claim: "execution", Permit: permit, Address: "TAddress", ChainName: "TRON", Symbol: "USDT", Amount: amount("2.5")}
					}
					_, report := gather()
					if ended := must(Service(ctx, o, Config{Executed: lines(t, says), Settle: true, Report: report, Now: start + 660}))(t); !ended {
						t.Fatal("the epoch is still open")
					}
					if permit == "" { // nothing became of it: it goes on with the approvals that were not lost
						for again := range 2 {
							if err := approve(o, "ann", start+670+db.Millis(again)); err != nil {
								t.Fatal(err)
							}
						}
						a := must(o.WithdrawalApproval(ctx, must(o.Withdrawal(ctx, id(o)))(t)))(t)
						if want := max(min(backed, 2), 1); len(a.Approvals) != want {
							t.Errorf("%d approvals, want %d: %+v", len(a.Approvals), want, a.Approvals)
						}
						if got, err := release(o); (err == nil) != (backed >= 2) {
							t.Errorf("with %d approvals: %q, %v", len(a.Approvals), got, err)
						}
						if err := approve(o, "bob", start+680); err != nil && backed < 2 {
							t.Fatal(err)
						}
					}
					first, err := release(o)
					if err != nil || permit != "" && first != permit {
						t.Errorf("the core gets %q, %v; it had %q", first, err, permit)
					}
					if got, err := release(o); got != first || err != nil {
						t.Errorf("and then %q, %v", got, err)
					}
					if err := approve(o, "ann", start+690); !errors.Is(err, db.ErrConflict) {
						t.Errorf("approved after its release: %v", err)
					}
				})
			})
		}
	}
}

// TestApprovalsOfOrders is the same of an order at the gateway, which two persons approve. What the
// application says was confirmed is not approved again.
func TestApprovalsOfOrders(t *testing.T) {
	approve := func(b *book.Book, by string, at db.Millis) (book.Order, error) {
		return b.ApproveOrder(ctx, "order", db.Approval{Token: by, Name: by, At: at},
			func(_ context.Context, _ db.Querier, given []db.Approval) (keep, enough bool, err error) {
				again := slices.ContainsFunc(given, func(a db.Approval) bool { return a.Token == by })
				return !again, !again && len(given) == 1, nil
			})
	}
	for _, said := range []string{"open", "confirmed"} {
		onEachDatabase(t, book.End(), func(t *testing.T, p *place) {
			b := book.New(p.db(false), book.Config{})
			must2(b.AddOrder(ctx, newOrder("order"), "", start))(t)
			if o := must(approve(b, "ann", start+10))(t); o.State.Undecided() != true || o.State == client.OrderApproved {
				t.Fatalf("one approval gives %s", o.State)
			}
			backup := p.backup()
			b = book.New(p.db(false), book.Config{})
			if o := must(approve(b, "bob", start+20))(t); o.State != client.OrderApproved {
				t.Fatalf("two approvals give %s", o.State)
			}
			b = book.New(p.restore(backup), book.Config{})
			must(b.Restored(ctx, 0, start+100))(t)
			if _, err := approve(b, "bob", start+110); !errors.Is(err, db.ErrConflict) {
				t.Errorf("approved before it was reconciled: %v", err)
			}
			line := Line{CallBackID: "order", State: said}
			if said == "confirmed" {
				line.TxID = "tx"
			}
			_, report := gather()
			if ended := must(Gateway(ctx, b, Config{Booked: lines(t, line), Settle: true, Report: report, Now: start + 200}))(t); !ended {
				t.Fatal("the epoch is still open")
			}
			if said == "confirmed" {
				if o, err := approve(b, "bob", start+300); !errors.Is(err, db.ErrConflict) {
					t.Errorf("what was confirmed is approved: %s, %v", o.State, err)
				}
				return
			}
			if o := must(b.Order(ctx, "order"))(t); o.Restored {
				must(b.ResumeOrder(ctx, "order", "a", "", start+210))(t)
			}
			for i := range 2 {
				if o := must(approve(b, "ann", start+300+db.Millis(i)))(t); o.State == client.OrderApproved {
					t.Errorf("one person approved twice: %s", o.State)
				}
			}
			list := must(b.OrderApprovals(ctx, b, must(b.Order(ctx, "order"))(t)))(t)
			if len(list) != 1 || list[0].Token != "ann" || list[0].At != start+10 {
				t.Errorf("%+v", list)
			}
			if o := must(approve(b, "bob", start+310))(t); o.State != client.OrderApproved {
				t.Errorf("two approvals give %s", o.State)
			}
		})
	}
}
