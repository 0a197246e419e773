package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"countersign/internal/db"
)

// fillAtOnce is how many callbacks are kept between two lines of progress, and in
// one transaction where they are kept as settled.
const fillAtOnce = 10_000

// claimMax is how many callbacks a claim takes that is timed.
const claimMax = 64

// claims measures claiming while many callbacks are due, of one merchant and of
// many.
func (b *Bench) claims(ctx context.Context) error {
	merchants := []int{1, 100, 10_000}
	if b.Quick {
		merchants = []int{1, 100}
	}
	for _, n := range merchants {
		if err := b.claimsOf(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) claimsOf(ctx context.Context, merchants int) (err error) {
	const suite = "claims"
	b.progress("claims: registering %d merchants", merchants)
	s, err := b.openOutbox(ctx, suite, merchants)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for kept := 0; kept < b.Pending; kept += fillAtOnce {
		b.progress("claims: %d of %d callbacks of %d merchants", kept, b.Pending, merchants)
		if err := s.fill(ctx, b.load, fmt.Sprint("due-", kept), min(fillAtOnce, b.Pending-kept)); err != nil {
			return err
		}
	}
	if !b.Quick {
		if err := s.outbox.Tidy(ctx); err != nil {
			return err
		}
	}
	times := 1000
	if b.Quick {
		times = 20
	}
	b.progress("claims: %d claims of %d merchants", times, merchants)
	t, err := b.timeClaims(ctx, s, times)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%d of %d due, %d merchants", claimMax, b.Pending, merchants)
	const synced = "ms for a page written and synced meanwhile"
	b.report.add(suite, name+", p50", "ms", msAt(t.claims, 50)).against(synced, msAt(t.syncs, 50))
	p99 := b.report.add(suite, name+", p99", "ms", msAt(t.claims, 99)).against(synced, msAt(t.syncs, 99))
	p99.note("of %d claims; half are settled, half given back", times)
	if b.DB == "" {
		b.report.add(suite, name+", processor", "ms a claim", us(t.cpu)/1000/float64(times))
	}
	return nil
}

// claimTimes are the times of claims, and of pages that were written and synced
// between them.
type claimTimes struct {
	claims, syncs []time.Duration
	cpu           time.Duration // of all claims
}

// timeClaims claims that many times. The callbacks of every other claim are given
// back; those of the others are settled, and as many new ones become due, so that
// the number of due callbacks stays.
func (b *Bench) timeClaims(ctx context.Context, s *bareOutbox, times int) (t claimTimes, err error) {
	f, err := os.Create(filepath.Join(s.dir, "sync"))
	if err != nil {
		return t, err
	}
	defer f.Close()
	for i := range times {
		now := db.MillisOf(time.Now())
		start, used := time.Now(), processorTime()
		claimed, err := s.claim(ctx, claimMax, now)
		t.claims, t.cpu = append(t.claims, time.Since(start)), t.cpu+processorTime()-used
		if err != nil {
			return t, err
		}
		if len(claimed) == 0 {
			return t, errors.New("nothing was claimed of what is due")
		}
		if i%2 == 0 {
			err = s.outbox.GiveBack(ctx, claimed, now)
		} else if err = s.settle(ctx, claimed, now); err == nil {
			err = s.fill(ctx, b.load, fmt.Sprint("more-", i), len(claimed))
		}
		if err != nil {
			return t, err
		}
		start = time.Now()
		if err := writePage(f); err != nil {
			return t, err
		}
		t.syncs = append(t.syncs, time.Since(start))
	}
	return t, nil
}

// writePage writes a page of a file so that it survives a loss of power.
func writePage(f *os.File) error {
	_, err := f.WriteAt(make([]byte, 4096), 0)
	return errors.Join(err, f.Sync())
}

// msAt is a percentile of times in milliseconds.
func msAt(times []time.Duration, percent int) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return us(sorted[len(sorted)*percent/100]) / 1000
}

const (
	rowsMerchants = 50    // of the suite rows
	rowsRounds    = 5     // beside each number of settled callbacks
	rowsWorked    = 10240 // callbacks that a round times
	rowsFirst     = 1024  // callbacks that a round works before
	settleMax     = 256   // callbacks claimed and settled at once
)

// rows measures claiming and settling beside more and more settled callbacks.
//
// With SQLite an empty database and the full one take turns, since a shared
// machine is faster at one minute than at another. With PostgreSQL there is one
// database, and its first rounds are what the rest is compared with.
func (b *Bench) rows(ctx context.Context) (err error) {
	const suite = "rows"
	full, err := b.openOutbox(ctx, suite, rowsMerchants)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, full.close()) }()
	both := []*bareOutbox{full}
	if b.DB == "" {
		empty, err := b.openOutbox(ctx, suite, rowsMerchants)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, empty.close()) }()
		both = []*bareOutbox{empty, full}
	}
	n := rowsWorked
	if b.Quick {
		n = 512
	}
	worked := 0 // rounds
	// beside gives µs a callback in each database, round by round.
	beside := func() ([][]float64, error) {
		took := make([][]float64, len(both))
		for range rowsRounds {
			worked++
			for i, s := range both {
				each, err := b.rowsRound(ctx, s, fmt.Sprint("new-", worked), n)
				if err != nil {
					return nil, err
				}
				took[i] = append(took[i], each)
			}
		}
		return took, nil
	}
	first, err := beside()
	if err != nil {
		return err
	}
	b.report.addRounds(suite, "claimed and settled in an empty database", "µs a callback", first[0])
	settled := (n + rowsFirst) * rowsRounds
	for _, rows := range b.Rows {
		for settled < rows {
			b.progress("rows: %d of %d settled", settled, rows)
			more := min(fillAtOnce, rows-settled)
			if err := full.fillSettled(ctx, b.load, fmt.Sprint("old-", settled), more); err != nil {
				return err
			}
			settled += more
		}
		took, err := beside()
		if err != nil {
			return err
		}
		settled += (n + rowsFirst) * rowsRounds
		empty := medianOf(first[0])
		if len(took) > 1 {
			empty = medianOf(took[0])
		}
		b.report.addRounds(suite, fmt.Sprintf("beside %d settled", rows), "µs a callback", took[len(took)-1]).
			against("µs beside nothing", empty)
	}
	return nil
}

// rowsRound makes n callbacks due and gives the µs that claiming and settling one
// of them takes. Ingesting leaves the database with pages to copy and to sync in
// the background; so that this is not measured, some callbacks are worked off
// before and the database has two seconds to itself.
func (b *Bench) rowsRound(ctx context.Context, s *bareOutbox, set string, n int) (float64, error) {
	if err := s.fill(ctx, b.load, set, n+rowsFirst); err != nil {
		return 0, err
	}
	if err := s.work(ctx, rowsFirst, claimMax); err != nil {
		return 0, err
	}
	if !b.Quick {
		time.Sleep(2 * time.Second)
	}
	start := time.Now()
	if err := s.work(ctx, n, settleMax); err != nil {
		return 0, err
	}
	return us(time.Since(start)) / float64(n), nil
}
