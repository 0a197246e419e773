package outbox

import (
	"context"
	options "flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

var growth = options.Int64("growth", 100_000, "how many settled callbacks BenchmarkGrowth makes")

// BenchmarkGrowth reports how long what a service does all day takes beside many settled callbacks: the median, and
// what it is of the median beside a thousand.
func BenchmarkGrowth(b *testing.B) {
	eachDialect(b, func(b *testing.B, s *Outbox) {
		tampered.Store(s, true) // no function of the service made most of its rows
		id := addMerchants(b, s, 1, nil)[0]
		now, n := db.Millis(1_000_000), 0
		list := func(f client.CallbackFilter) func() error {
			return func() error { _, _, err := s.Callbacks(ctx, []string{""}, f, 50, ""); return err }
		}
		steps := []struct {
			name string
			run  func() error
		}{
			{"keep-100", func() error { n++; fill(b, s, []string{id}, fmt.Sprint("new", n), 100); return nil }},
			{"settle-100", func() error { now += 100; work(b, s, 100, now); return nil }},
			{"list", list(client.CallbackFilter{})},
			{"list-ended", list(client.CallbackFilter{Merchant: id, State: client.CallbackExhausted})},
			{"list-user", list(client.CallbackFilter{TenantUserID: "user-7"})},
			{"search", func() error { _, err := s.Search(ctx, []string{""}, "tx-500"); return err }},
			{"sweep", func() error { _, err := s.Sweep(ctx, now); return err }},
		}
		measure := func() []float64 {
			took := make([][]float64, len(steps))
			for range 41 {
				for i, step := range steps {
					start := time.Now()
					if err := step.run(); err != nil {
						b.Fatal(step.name, err)
					}
					took[i] = append(took[i], float64(time.Since(start).Microseconds())/1000)
				}
			}
			medians := make([]float64, len(steps))
			for i := range took {
				slices.Sort(took[i])
				medians[i] = took[i][len(took[i])/2]
			}
			return medians
		}
		settledRows(b, s, id, 0, 1000)
		few := measure()
		settledRows(b, s, id, 1000, *growth)
		for i, ms := range measure() {
			b.ReportMetric(ms, "ms-"+steps[i].name)
			b.ReportMetric(ms/few[i], "x-"+steps[i].name)
		}
		b.ReportMetric(0, "ns/op")
	})
}

// settledRows makes the callbacks of a merchant from one number to another, each accepted at the first attempt. Their
// keys come in no order, as those of a core do.
func settledRows(b *testing.B, s *Outbox, merchant string, from, to int64) {
	b.Helper()
	const (
		numbers   = `WITH RECURSIVE n (i) AS (SELECT CAST($2 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < CAST($3 AS BIGINT)) `
		id        = `'0000000000000' || CAST(1000000000000 + i AS TEXT)`
		key       = `CAST(i * 2654435761 % 4294967291 AS TEXT)`
		callbacks = `INSERT INTO callbacks (merchant, id, type, event_id, tracking_id, tx_id, call_back_id, payload, deadline, created, tenant_user_id, address) ` +
			numbers + `SELECT $1, ` + id + `, 1, 'e-' || ` + key + `, 'e-' || ` + key + `, 'tx-' || ` + key + `, '', $4, 4611686018427387904, i, 'user-' || ` + key + `, '0x0000000000000000000000000000' || ` + key + ` FROM n`
		attempts = `INSERT INTO attempts (merchant, callback, number, request_uuid, started, duration, http_status, err_code, outcome, reason, node, request_hash, response_hash, late, accepted, settled, failed) ` +
			numbers + `SELECT $1, ` + id + `, 1, '00000000-0000-0000-0000-000000000000', i, 5, 200, 0, 'accepted', 'accepted', 'n1', $4, $4, 0, 1, i, 0 FROM n`
	)
	for ; from < to; from += 50_000 {
		err := s.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			end := min(from+50_000, to)
			_, err := t.Exec(ctx, callbacks, merchant, from, end, make([]byte, 475))
			if err == nil {
				_, err = t.Exec(ctx, attempts, merchant, from, end, make([]byte, 32))
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	dbtest.Tidy(b, s.Dialect().Shared, s.Exec)
}
