package relay

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
)

// BenchmarkWhole carries whole withdrawals of eight merchants with keys of 2048 bits: the order,
// the question and its confirmation, the decision's row, the release with the permit's row, and
// the outcome. The core orders all at once and does with each what comes next when a row says
// so. Service and merchants are in one process.
func BenchmarkWhole(b *testing.B) {
	for _, d := range []struct {
		name string
		url  func(testing.TB) string
	}{{"sqlite", func(testing.TB) string { return "" }}, {"postgres", dbtest.Postgres}} {
		b.Run(d.name, func(b *testing.B) {
			c, s := newCore(b), newServiceOn(b, d.url(b))
			var noticed atomic.Int64
			for i := range 8 {
				s.addConfirmingOf(fmt.Sprint("m", i), 2048, func(_ int, cb countersign.Callback) countersigntest.MerchantFault {
					if cb.CallbackType() != countersign.TypeRequestWithdraw {
						noticed.Add(1)
					}
					return countersigntest.NoMerchantFault
				})
			}
			rows := make([][]any, b.N)
			for i := range rows {
				rows[i] = []any{kindWithdrawal, withdrawal(fmt.Sprint("m", i%8), fmt.Sprint("w-", i))}
			}
			r := start(b, Config{From: c.url, Nodes: []*client.Service{s.admin}, Decisions: true})
			b.ResetTimer()
			must(c.conn.CopyFrom(context.Background(), pgx.Identifier{"countersign_outbox"}, []string{"kind", "body"}, pgx.CopyFromRows(rows)))(b)
			asked, told := 0, 0
			moved := func(text string) int {
				tag := must(c.conn.Exec(context.Background(), text))(b)
				return int(tag.RowsAffected())
			}
			c.exec(`CREATE TABLE asked (call_back_id text PRIMARY KEY, told boolean)`)
			until(b, "all outcomes are carried", func() bool {
				asked += moved(`
WITH new AS (INSERT INTO asked SELECT call_back_id, false FROM countersign_decisions WHERE decision = 'confirmed' ON CONFLICT DO NOTHING RETURNING call_back_id)
INSERT INTO countersign_outbox (kind, body) SELECT 'release', json_build_object('merchant', d.merchant, 'callBackId', d.call_back_id, 'claim', d.call_back_id)
FROM countersign_decisions d JOIN new ON new.call_back_id = d.call_back_id`)
				told += moved(`
WITH new AS (UPDATE asked SET told = true FROM countersign_permits p WHERE NOT told AND p.call_back_id = asked.call_back_id RETURNING asked.call_back_id)
INSERT INTO countersign_outbox (kind, body) SELECT 'outcome', json_build_object('merchant', p.merchant, 'callBackId', p.call_back_id, 'permit', p.permit, 'executed', json_build_object('txId', '0x' || p.call_back_id))
FROM countersign_permits p JOIN new ON new.call_back_id = p.call_back_id`)
				return told == b.N && c.waiting() == "0"
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "withdrawals/s")
			until(b, "all notices are taken", func() bool { return noticed.Load() == int64(b.N) })
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "noticed/s")
			r.stop()
		})
	}
}
