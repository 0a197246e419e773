package db_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// purgingChild makes the test binary purge the database of this URL until it is killed.
const purgingChild = "COUNTERSIGN_TEST_PURGE"

func purgeForEver(url string) {
	d, err := db.Open(ctx, db.Config{URL: url, Keys: testKeys}, outbox.End())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	p, err := outbox.NewPurger(config(d))
	for now := start + 91*day; err == nil; now += 1000 {
		_, err = p.Step(ctx, now)
		fmt.Println("step")
	}
	fmt.Println(err)
}

// killWhile kills processes that purge, some time after their first step.
func killWhile(t *testing.T, url string) {
	t.Helper()
	kills := 6
	if !dbtest.IsWhole() {
		kills = 3
	}
	for i := range kills {
		cmd := exec.Command(must(os.Executable())(t))
		cmd.Env = append(os.Environ(), purgingChild+"="+url)
		out := must(cmd.StdoutPipe())(t)
		ok(t, cmd.Start())
		buf := make([]byte, 1)
		_, err := out.Read(buf) // a step was made
		time.Sleep(time.Duration(i*700) * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err != nil {
			t.Fatalf("the child has made no step: %v", err)
		}
	}
}

// TestKilledWhilePurging: whenever a node dies, each callback is kept whole or purged
// whole, and a repetition of it is known.
func TestKilledWhilePurging(t *testing.T) {
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		const n = 600
		d := must(db.Open(ctx, db.Config{URL: url, Keys: testKeys}, outbox.End()))(t)
		o := outbox.New(d)
		addShop(t, o)
		settled(t, o, n, numbered)
		d.Close()
		killWhile(t, url)
		checkWhole := func(purged int) {
			counts := dbtest.Query(t, url, `SELECT COUNT(*) FROM callbacks c WHERE EXISTS (SELECT 1 FROM attempts a WHERE a.merchant = c.merchant AND a.callback = c.id)
				UNION ALL SELECT COUNT(*) FROM callbacks UNION ALL SELECT COUNT(*) FROM attempts UNION ALL SELECT COUNT(*) FROM purged
				UNION ALL SELECT COUNT(*) FROM callbacks c JOIN purged p ON p.merchant = c.merchant AND p.event_id = c.event_id`)
			t.Log(counts)
			kept := must(strconv.Atoi(counts[1]))(t)
			if kept == n || !slices.Equal(counts, []string{counts[1], counts[1], counts[1], strconv.Itoa(n - kept), "0"}) {
				t.Errorf("with attempts, callbacks, attempts, purged, both: %v", counts)
			}
			if purged >= 0 && n-kept != purged {
				t.Errorf("%d are kept", kept)
			}
		}
		checkWhole(-1)
		o = outbox.New(open(t, url, outbox.End()))
		for i := range n {
			if in := ingest(t, o, numbered(i), start+92*day); !in.Duplicate || in.State != client.CallbackAccepted {
				t.Fatalf("d%d: %+v", i, in)
			}
		}
		purgeAll(t, must(outbox.NewPurger(config(o.DB)))(t), start+92*day)
		checkWhole(n)
	})
}
