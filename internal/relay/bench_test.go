package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// addAnswering makes a merchant of package merchant with a key of 2048 bits.
func (s *service) addAnswering(id string, c merchant.Config) {
	s.t.Helper()
	var h atomic.Pointer[merchant.Handler]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Load().ServeHTTP(w, r) }))
	s.t.Cleanup(server.Close)
	made, err := s.admin.CreateMerchant(context.Background(), client.NewMerchant{ID: id, Key: &client.KeySpec{Bits: 2048},
		MerchantSettings: client.MerchantSettings{Name: id, Concurrency: 64, NotifyURL: server.URL + merchant.DefaultNotifyPath, WithdrawURL: server.URL + merchant.DefaultWithdrawPath}})
	if err != nil {
		s.t.Fatal(err)
	}
	if c.Key, err = envelope.ParseKey([]byte(made.PublicKey)); err != nil {
		s.t.Fatal(err)
	}
	c.APIKey, c.Inbox, c.Log = countersign.APIKey(made.APIKey), merchant.NewMemoryInbox(), slog.New(slog.DiscardHandler)
	is, err := merchant.New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	h.Store(is)
}

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
			amount, err := countersign.ParseAmount("120.50")
			if err != nil {
				b.Fatal(err)
			}
			details := countersign.Details{Address: "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", ChainName: "TRON", Symbol: "USDT", Amount: amount}
			var noticed atomic.Int64
			for i := range 8 {
				s.addAnswering(fmt.Sprint("m", i), merchant.Config{
					OnWithdrawal: func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
						return merchant.Confirm(w.TenantUserID, details), nil
					},
					OnNotice: func(context.Context, countersign.Callback) error { noticed.Add(1); return nil },
				})
			}
			rows := make([][]any, b.N)
			for i := range rows {
				rows[i] = []any{kindWithdrawal, withdrawal(fmt.Sprint("m", i%8), fmt.Sprint("w-", i))}
			}
			r := start(b, Config{From: c.url, Nodes: []*client.Service{s.admin}, Decisions: true})
			b.ResetTimer()
			if _, err := c.conn.CopyFrom(context.Background(), pgx.Identifier{"countersign_outbox"}, []string{"kind", "body"}, pgx.CopyFromRows(rows)); err != nil {
				b.Fatal(err)
			}
			asked, told := 0, 0
			moved := func(text string) int {
				tag, err := c.conn.Exec(context.Background(), text)
				if err != nil {
					b.Fatal(err)
				}
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
