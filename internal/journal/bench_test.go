package journal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
)

// BenchmarkVerify verifies an export of a million records, each as long as that of a
// withdrawal's decision or of a batch, with every tenth as long as that of an exchange.
func BenchmarkVerify(b *testing.B) {
	const n = 1_000_000
	d, l := open(b, dbtest.SQLite(b))
	for from := 0; from < n; from += 10_000 {
		err := d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			for i := from; i < from+10_000; i++ {
				data := map[string]string{"merchant": "shop", "decision": "confirmed", "reason": "accepted", "text": strings.Repeat("x", 100)}
				if i%10 == 0 {
					data["request"], data["response"] = strings.Repeat("r", 700), strings.Repeat("s", 700)
				}
				if err := journal.Add(ctx, t, journal.Record{Kind: "withdrawal.decided", At: db.Millis(i), About: []string{fmt.Sprint("shop.", i)}, Data: data}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	path := filepath.Join(b.TempDir(), "export")
	f := must(os.Create(path))(b)
	if err := journal.Export(ctx, f, source{l}, 1); err != nil {
		b.Fatal(err)
	}
	info := must(f.Stat())(b)
	f.Close()
	for b.Loop() {
		f := must(os.Open(path))(b)
		v := must(journal.Verify(f, l.Key(), nil))(b)
		f.Close()
		if v.Last != n {
			b.Fatal(v.Last)
		}
	}
	b.ReportMetric(float64(info.Size())/1e6, "MB")
}
