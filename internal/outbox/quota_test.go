package outbox

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/db"
)

// testQuota: nodes of one database share a token's hour, to the last deposit.
func testQuota(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	nodes := []*Outbox{s, another(t, s)}
	const noon = db.Millis(12 * time.Hour / time.Millisecond)
	q := Quota{Token: "tok_1", Hourly: 50}
	var kept atomic.Int64
	var work sync.WaitGroup
	for w := range 6 {
		work.Go(func() {
			for i := range 10 {
				batch := []NewCallback{deposit("m0", fmt.Sprintf("d-%d-%d", w, i), 10), deposit("m0", fmt.Sprintf("e-%d-%d", w, i), 10)}
				_, err := nodes[w%len(nodes)].IngestWithin(ctx, batch, q, noon+db.Millis(i))
				var over *QuotaError
				switch {
				case err == nil:
					kept.Add(2)
				case !errors.As(err, &over):
					t.Error(err)
				case over.Left != 0 || over.Fresh != 2 || over.Until != noon+3_600_000:
					t.Errorf("refused with %+v", over)
				}
			}
		})
	}
	work.Wait()
	if kept.Load() != 50 {
		t.Errorf("%d were kept", kept.Load())
	}
	var rows int64
	if _, err := db.One(ctx, s, `SELECT COUNT(*) FROM callbacks`, nil, &rows); err != nil || rows != 50 {
		t.Errorf("the database has %d, %v", rows, err)
	}
	for hour := range db.Millis(3) {
		id := fmt.Sprint("later-", hour)
		if _, err := s.IngestWithin(ctx, []NewCallback{deposit("m0", id, 10)}, q, noon+(hour+1)*3_600_000); err != nil {
			t.Errorf("in a later hour: %v", err)
		}
	}
	if _, err := db.One(ctx, s, `SELECT COUNT(*) FROM added WHERE token = 'tok_1'`, nil, &rows); err != nil || rows != 2 {
		t.Errorf("%d hours are kept, %v", rows, err)
	}
}
