package sqlinbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/countersigntest"
	"countersign/merchant"
	"countersign/merchant/sqlinbox"
)

// benchUsers is how many users' balances the deposits go to.
const benchUsers = 1000

// BenchmarkInboxAct takes new deposits from 64 callers at once, each with a change of its
// user's balance in the same transaction.
func BenchmarkInboxAct(b *testing.B) {
	for _, k := range stores {
		b.Run(k.name, func(b *testing.B) {
			s := k.filled(b)
			if s.driver == "mysql" {
				s.dsn += "?interpolateParams=true"
			}
			db := s.open(b)
			db.SetMaxOpenConns(32)
			db.SetMaxIdleConns(32)
			for n := range benchUsers {
				run(b, db, s.text(`INSERT INTO balances (user_id, n) VALUES (?, 0)`), fmt.Sprint(n))
			}
			in := s.inbox(b, db, func(c *sqlinbox.Config) {
				c.OnDeposit = func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
					_, err := tx.ExecContext(ctx, s.text(`UPDATE balances SET n = n + 1 WHERE user_id = ?`), d.TenantUserID)
					return err
				}
			})
			var next atomic.Int64
			b.ResetTimer()
			var work sync.WaitGroup
			for range 64 {
				work.Go(func() {
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							return
						}
						d := countersigntest.Deposit(int(n))
						d.TenantUserID = fmt.Sprint(n * 7919 % benchUsers)
						e := merchant.NewEntry(d)
						e.At = time.Now()
						if c, err := in.Claim(ctx, e); err != nil || c.State != merchant.StateTaken {
							b.Errorf("%v, %v", c.State, err)
							return
						}
					}
				})
			}
			work.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deposits/s")
			if n := count(b, db, `SELECT SUM(n) FROM balances`); n != b.N {
				b.Errorf("%d credits of %d deposits", n, b.N)
			}
		})
	}
}
