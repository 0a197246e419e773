package store

import (
	"fmt"
	"os"
	"testing"
	"time"

	"countersign/internal/store/storetest"
)

// TestLogBeginsAnew: the log is copied beside the writer, and does not grow for
// as long as the writer has something to write.
func TestLogBeginsAnew(t *testing.T) {
	path := storetest.SQLite(t)
	s := openAt(t, path)
	ids := addMerchants(t, s, 1, nil)
	look := must(openSQLiteConn(ctx, s.dialect, "file:"+path))(t)
	t.Cleanup(func() { look.close() })
	most := 0
	for round := 0; ; round++ {
		items := make([]NewCallback, 200)
		for i := range items {
			items[i] = deposit(ids[0], fmt.Sprintf("%d-%d", i*7919%1000, 200*round+i), 1)
		}
		must(s.Ingest(ctx, items, Millis(round)))(t)
		var busy, size, copied int
		must(one(ctx, look, "PRAGMA wal_checkpoint(NOOP)", nil, &busy, &size, &copied))(t)
		if size < most/2 {
			break // it has begun anew
		}
		if most = max(most, size); most > checkpointAt*3/2 {
			time.Sleep(time.Millisecond) // on a slow machine, let it come to it
		}
		if most >= checkpointBackstop {
			t.Fatalf("the log has %d pages, and the checkpointer did nothing", most)
		}
	}
	if most < checkpointAt {
		t.Errorf("begun anew after %d pages, want %d at least", most, checkpointAt)
	}
	if file := must(os.Stat(path + "-wal"))(t); file.Size() < int64(most)*4096 {
		t.Errorf("the log's file has %d bytes, with %d pages in it", file.Size(), most)
	}
}
