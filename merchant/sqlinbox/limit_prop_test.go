package sqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"countersign"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
	"countersign/merchant/sqlinbox"
)

// TestConfirmedStaysBelowTheLimit: an application that keeps a sum and knows of its own cancels
// alone is asked in any order of questions, also at once, repetitions, cancels, types 3, 5, 6 and
// 7, restarts, and restores of its database after which the service says again what came since.
// What was confirmed and has not ended is never above the limit, and no order is confirmed that has
// ended.
func TestConfirmedStaysBelowTheLimit(t *testing.T) {
	const limit, orders = 10, 4
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		engine := ""
		if s.dialect == sqlinbox.MySQL {
			engine = ` ENGINE=InnoDB`
		}
		run(t, db, `CREATE TABLE shop (id VARCHAR(100) PRIMARY KEY, round INTEGER, amount INTEGER, counted INTEGER, cancelled INTEGER, executed INTEGER)`+engine)
		service := newService(t)
		app := func(c *sqlinbox.Config) {
			c.OnDeposit, c.OnPossibleDuplicate = nil, nil
			c.OnWithdrawal = func(ctx context.Context, tx *sql.Tx, w countersign.WithdrawalRequest) (merchant.Answer, error) {
				var round, amount, counted, cancelled, sum int
				err := tx.QueryRowContext(ctx, s.text(`SELECT round, amount, counted, cancelled FROM shop WHERE id = ?`), w.CallBackID).
					Scan(&round, &amount, &counted, &cancelled)
				if err == nil && cancelled != 0 {
					return merchant.Refuse(countersign.CodeOrderCancelled, ""), nil
				}
				if err == nil && counted == 0 {
					err = tx.QueryRowContext(ctx, s.text(`SELECT COALESCE(SUM(amount), 0) FROM shop WHERE round = ? AND counted = 1`), round).Scan(&sum)
					if err == nil && sum+amount > limit {
						return merchant.Hold(countersign.CodeAwaitingApproval, ""), nil
					}
				}
				if err == nil {
					_, err = tx.ExecContext(ctx, s.text(`UPDATE shop SET counted = 1 WHERE id = ?`), w.CallBackID)
				}
				d := countersigntest.Order(1)
				d.Amount, _ = countersign.ParseAmount(fmt.Sprint(amount))
				return merchant.Confirm(w.TenantUserID, d), err
			}
			c.OnNotice = func(ctx context.Context, tx *sql.Tx, cb countersign.Callback) (err error) {
				switch cb.CallbackType().Effect() {
				case countersign.EffectExecuted:
					_, err = tx.ExecContext(ctx, s.text(`UPDATE shop SET executed = 1, counted = 1 WHERE id = ?`), cb.OrderID())
				case countersign.EffectEnded:
					_, err = tx.ExecContext(ctx, s.text(`UPDATE shop SET counted = 0 WHERE id = ? AND executed = 0`), cb.OrderID())
				}
				return err
			}
		}
		round, rounds := 0, 8 // each takes many commits
		if dbtest.IsWhole() {
			rounds = dbtest.Times(100, 25)
		}
		rapid.Check(t, func(rt *rapid.T) {
			if round++; round > rounds {
				return
			}
			id := func(n int) string { return fmt.Sprint("order-", round, "-", n) }
			amounts, confirmed, over := map[string]int{}, map[string]bool{}, map[string]bool{}
			for n := range orders {
				amounts[id(n)] = 2 + n
				run(t, db, s.text(`INSERT INTO shop (id, round, amount, counted, cancelled, executed) VALUES (?, ?, ?, 0, 0, 0)`), id(n), round, 2+n)
			}
			var nodes []countersigntest.Endpoint
			start := func() {
				nodes = nil
				for range 2 {
					nodes = append(nodes, node(t, service, s.inbox(t, db, app), nil))
				}
			}
			start()
			var since []func() // what the service and the application did since the backup
			question := func(id string) *countersign.WithdrawalRequest {
				w := countersigntest.Withdrawal(1)
				w.CallBackID, w.TrackingID = id, "w-"+id
				return w
			}
			ask := func(rt *rapid.T) {
				ids := rapid.SliceOfN(rapid.IntRange(0, orders-1), 1, 4).Draw(rt, "ids")
				results := make([]countersigntest.Result, len(ids))
				var all sync.WaitGroup
				for i, n := range ids {
					all.Go(func() { results[i] = service.Deliver(ctx, nodes[i%2], question(id(n))) })
				}
				all.Wait()
				var first, then []func()
				for i, r := range results {
					w := question(id(ids[i]))
					again := func() { service.Deliver(ctx, nodes[0], w) }
					var refused *countersigntest.Refusal
					switch {
					case errors.As(r.Err, &refused):
						then = append(then, again)
						continue
					case r.Err != nil:
						rt.Fatal(r.Err)
					case over[w.CallBackID]:
						rt.Fatalf("%s is confirmed, and it has ended", w.CallBackID)
					}
					first = append(first, again)
					confirmed[w.CallBackID] = true
				}
				since = append(append(since, first...), then...)
				sum := 0
				for id := range confirmed {
					sum += amounts[id]
				}
				if sum > limit {
					rt.Fatalf("%v are confirmed and have not ended: %d, the limit is %d", confirmed, sum, limit)
				}
			}
			tables := []string{"countersign_inbox", "shop"}
			backup := func() {
				for _, table := range tables {
					run(t, db, `DROP TABLE IF EXISTS saved_`+table)
					run(t, db, `CREATE TABLE saved_`+table+` AS SELECT * FROM `+table)
				}
				since = nil
			}
			backup()
			executed := map[string]bool{}
			rt.Repeat(map[string]func(*rapid.T){
				"ask": ask, "ask again": ask,
				"cancel": func(rt *rapid.T) {
					id := id(rapid.IntRange(0, orders-1).Draw(rt, "n"))
					do := func() { run(t, db, s.text(`UPDATE shop SET cancelled = 1 WHERE id = ?`), id) }
					do()
					over[id] = true
					since = append(since, do)
				},
				"notice": func(rt *rapid.T) {
					id := id(rapid.IntRange(0, orders-1).Draw(rt, "n"))
					head := countersign.Head{TrackingID: fmt.Sprint("w-", id, rapid.IntRange(0, 1).Draw(rt, "again")), TenantUserID: question(id).TenantUserID}
					cb := countersigntest.Notice(rapid.SampledFrom([]countersign.Type{3, 5, 6, 7}).Draw(rt, "type"), 1)
					switch cb := cb.(type) {
					case *countersign.WithdrawalDone:
						cb.Head, cb.CallBackID = head, id
						over[id], executed[id] = true, true
					case *countersign.WithdrawalEnded:
						cb.Head, cb.CallBackID = head, id
						if over[id] = true; !executed[id] {
							delete(confirmed, id) // its funds are free
						}
					case *countersign.WithdrawalNotice:
						cb.Head, cb.CallBackID = head, id
					}
					do := func() {
						if r := service.Deliver(ctx, nodes[0], cb); r.Err != nil {
							rt.Fatal(r.Err)
						}
					}
					do()
					since = append(since, do)
				},
				"restart": func(*rapid.T) { start() },
				"backup":  func(*rapid.T) { backup() },
				"restore": func(*rapid.T) {
					for _, table := range tables {
						run(t, db, `DELETE FROM `+table)
						run(t, db, `INSERT INTO `+table+` SELECT * FROM saved_`+table)
					}
					start()
					for _, again := range since {
						again()
					}
				},
			})
		})
	})
}

// TestLimitInParallel: many questions at once, through two processes' connections, pass no limit
// together that their function reads and keeps.
func TestLimitInParallel(t *testing.T) {
	const questions, limit = 16, 3
	locks := map[string]func(countersign.WithdrawalRequest) string{
		"default": nil,
		"by user": func(w countersign.WithdrawalRequest) string { return w.TenantUserID },
	}
	for name, lock := range locks {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s store) {
				var nodes []countersigntest.Endpoint
				service := newService(t)
				for range 2 {
					in := s.inbox(t, s.open(t), func(c *sqlinbox.Config) {
						c.WithdrawalLock = lock
						c.OnWithdrawal = func(ctx context.Context, tx *sql.Tx, w countersign.WithdrawalRequest) (merchant.Answer, error) {
							var sum int
							err := tx.QueryRowContext(ctx, s.text(`SELECT COUNT(*) FROM credits WHERE user_id = ?`), w.TenantUserID).Scan(&sum)
							if err != nil || sum >= limit {
								return merchant.Refuse(countersign.CodeRefusedPolicy, ""), err
							}
							_, err = tx.ExecContext(ctx, s.text(`INSERT INTO credits (tracking_id, user_id) VALUES (?, ?)`), w.CallBackID, w.TenantUserID)
							return merchant.Confirm(w.TenantUserID, countersigntest.Order(1)), err
						}
					})
					nodes = append(nodes, node(t, service, in, nil))
				}
				var confirmed atomic.Int32
				var all sync.WaitGroup
				for n := range questions {
					w := countersigntest.Withdrawal(n)
					w.TenantUserID = "one"
					all.Go(func() {
						if r := service.Deliver(ctx, nodes[n%len(nodes)], w); r.Err == nil {
							confirmed.Add(1)
						}
					})
				}
				all.Wait()
				if n := confirmed.Load(); n != limit {
					t.Errorf("%d were confirmed, the limit is %d", n, limit)
				}
			})
		})
	}
}
