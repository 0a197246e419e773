package book

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/merchant"
)

const (
	start db.Millis = 1_795_000_000_000
	day   db.Millis = 24 * 3_600_000
)

// eachPurged runs test with an empty book of each database and its purger, which keeps rows for 90 days, and what that
// has logged.
func eachPurged(t *testing.T, test func(t *testing.T, b *Book, p *db.Purger, told *strings.Builder)) {
	eachBook(t, func(t *testing.T, b *Book) {
		var told strings.Builder
		c := db.PurgeConfig{DB: b.DB, Keep: 90 * 24 * time.Hour, Now: time.Now, Log: slog.New(slog.NewTextHandler(&told, nil))}
		test(t, b, must(NewPurger(c))(t), &told)
	})
}

// take claims a deposit as the gateway does and gives the state of the claim.
func take(t testing.TB, b *Book, id, txID, amount string, at db.Millis) merchant.State {
	t.Helper()
	e := merchant.NewEntry(&countersign.Deposit{Head: countersign.Head{TrackingID: id, TenantUserID: "u"}, TxID: txID, ChainName: "ETH", Symbol: "USDT",
		Amount: must(countersign.ParseAmount(amount))(t), ToAddress: "0x1", TxIndex: -1, RiskLevelFrom: 1, RiskLevelTo: countersign.RiskUnknown})
	e.At = at.Time()
	return must(b.Claim(ctx, e))(t).State
}

// TestPurgesOnlyWhatWasRead: a deposit stays until every reader and the application
// have it, and what a person decides on stays. A repetition of any is known. The purge says once which reader holds it.
func TestPurgesOnlyWhatWasRead(t *testing.T) {
	eachPurged(t, func(t *testing.T, b *Book, p *db.Purger, told *strings.Builder) {
		for i := range 10 {
			if state := take(t, b, fmt.Sprint("d", i+1), fmt.Sprint("tx", i+1), "1", start); state != merchant.StateTaken {
				t.Fatal(state)
			}
			if i == 3 {
				must(b.BeginForwarding(ctx, true, start))(t)
			}
		}
		take(t, b, "d11", "tx3", "1", start) // a possible duplicate of d3, which a person compares
		take(t, b, "d12", "tx12", "1", start+80*day)
		for _, seq := range []int64{1, 9, 11} {
			ok(t, b.NoteDeposit(ctx, seq, db.Vote{At: start, Token: "tok", Text: "n"}))
		}
		now := start + 91*day
		read := func(reader string, upto int64) { must(b.MoveCursor(ctx, reader, upto, 0, now))(t) }
		steps := []struct {
			move func()
			gone int64
			upto int64
			told string // of what holds it
		}{
			{func() { read("100% slow", 2); read("fast", 9) }, 2, 2, `the reader "100% slow" has acknowledged deposit 2 and no further`},
			{func() { read("100% slow", 7) }, 1, 7, `the reader "100% slow" has acknowledged deposit 7 and no further`}, // d4: not d3, and d5 to d7 are to be forwarded
			{func() {
				for _, f := range must(b.ClaimForwards(ctx, now, 1000, 2))(t) { // d5, d6
					if f.Seq == 6 {
						ok(t, b.ForwardDone(ctx, f))
					} else {
						ok(t, b.ForwardFailed(ctx, f, "down", now))
					}
				}
			}, 1, 7, ""}, // d6; d5 waits still
			{func() {
				must(b.DecideDeposit(ctx, 11, client.DepositRejected, "p", "", now))(t)
				for _, f := range must(b.ClaimForwards(ctx, now+1, 1000, 100))(t) {
					ok(t, b.ForwardDone(ctx, f))
				}
			}, 3, 7, ""}, // d3, d5, d7
			{func() { read("100% slow", 12) }, 2, 9, `the reader "fast" has acknowledged deposit 9 and no further`}, // d8, d9
			{func() { read("fast", 12) }, 1, 10, ""},
			{func() { now += 80 * day }, 1, 12, ""}, // d12; d11 stays
		}
		for i, s := range steps {
			s.move()
			now += day
			if n := endtest.Purge(t, p, now); n != s.gone {
				t.Errorf("step %d purged %d, want %d", i, n, s.gone)
			}
			if upto := must(PurgedUpTo(ctx, b))(t); upto != s.upto {
				t.Errorf("step %d purged up to %d, want %d", i, upto, s.upto)
			}
			want := ""
			if s.told != "" {
				want = strconv.Quote(s.told) + "\n"
			}
			if _, got, _ := strings.Cut(told.String(), "reason="); got != want {
				t.Errorf("step %d: it says %q, want %q", i, got, want)
			}
			told.Reset()
			for after := range int64(13) {
				page := must(b.Deposits(ctx, after, 2))(t)
				err := b.CheckKept(ctx, after, page)
				whole := len(page) > 0 && page[0].Seq == after+1 && (len(page) < 2 || page[1].Seq == after+2)
				if errors.Is(err, db.ErrPurged) != (!whole && after < s.upto) {
					t.Errorf("step %d: after %d comes %v: %v", i, after, page, err)
				}
			}
		}
		var notes int64
		if _, err := db.One(ctx, b, `SELECT COUNT(*) FROM votes`, nil, &notes); err != nil || notes != 1 || len(must(db.Votes(ctx, b, AboutDeposit+"11", ""))(t)) != 1 {
			t.Errorf("%d notes are left, want that about d11; %v", notes, err)
		}
		if err := b.NoteDeposit(ctx, 1, db.Vote{At: now, Token: "tok", Text: "n"}); !errors.Is(err, db.ErrPurged) {
			t.Errorf("a note about d1: %v", err)
		}
		dbtest.Fails(b.Deposit(ctx, 3))(t, db.ErrPurged, "")
		dbtest.Fails(b.Deposit(ctx, 13))(t, db.ErrNotFound, "")
		dbtest.Fails(b.FirstDeposit(ctx, 11))(t, db.ErrPurged, "")
		if d := must(b.Deposit(ctx, 11))(t); d.State != client.DepositRejected {
			t.Errorf("d11 is %+v", d)
		}
		for i := range 12 {
			id := fmt.Sprint("d", i+1)
			tx := fmt.Sprint("tx", i+1)
			if i == 10 {
				tx = "tx3"
			}
			if state := take(t, b, id, tx, "1", now); state != merchant.StateSettled {
				t.Errorf("%s again: %v", id, state)
			}
			if state := take(t, b, id, tx, "2", now); state != merchant.StateOtherContent {
				t.Errorf("%s with another amount: %v", id, state)
			}
		}
		take(t, b, "d13", "tx5", "1", now) // names the transfer of one that was purged
		if d := must(b.Deposit(ctx, 13))(t); d.State != client.DepositHeld || d.RiskLevelTo != nil || d.RiskLevelFrom == nil || *d.RiskLevelFrom != 1 {
			t.Errorf("d13 is %+v", d)
		}
		n := 0
		if err := b.EachPurged(ctx, func(id string) error { n++; return nil }); err != nil || n != 11 {
			t.Errorf("%d purged, %v", n, err)
		}
	})
}

// TestForwardingBeginsAfterWhatWasPurged: a gateway that begins to forward does not leave
// out silently what it does not have any more.
func TestForwardingBeginsAfterWhatWasPurged(t *testing.T) {
	eachPurged(t, func(t *testing.T, b *Book, p *db.Purger, _ *strings.Builder) {
		take(t, b, "d1", "tx1", "1", start)
		take(t, b, "d2", "tx2", "1", start+90*day)
		now := start + 91*day
		if n := endtest.Purge(t, p, now); n != 1 {
			t.Fatalf("purged %d", n)
		}
		dbtest.Fails(b.BeginForwarding(ctx, false, now))(t, db.ErrConflict, "")
		begins, err := b.BeginForwarding(ctx, true, now)
		if f := must(b.Forwarding(ctx))(t); err != nil || !begins || f.Waiting != 0 {
			t.Errorf("%v, %+v, %v", begins, f, err)
		}
	})
}
