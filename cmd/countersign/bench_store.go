package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"countersign/internal/db"
	"countersign/internal/outbox"
)

const (
	storeMerchants = 50
	claimMax       = 64    // of a claim that is timed
	settleMax      = 256   // of a batch that is worked
	besideRows     = 10240 // worked in a round beside what is settled
	besideFirst    = 1024  // before them
	besideRounds   = 5
	fillAtOnce     = 10_000 // kept in a transaction while filling
)

// fill makes n deposits due.
func (s *bareStore) fill(ctx context.Context, l *benchLoad, set string, n int) error {
	return s.inSteps(l, set, n, 1000, func(rows []outbox.NewCallback) error {
		_, err := s.db.Ingest(ctx, rows, db.MillisOf(time.Now()))
		return err
	})
}

// fillSettled makes n deposits that were settled at the first attempt.
func (s *bareStore) fillSettled(ctx context.Context, l *benchLoad, set string, n int) error {
	return s.inSteps(l, set, n, fillAtOnce, func(rows []outbox.NewCallback) error {
		now := db.MillisOf(time.Now())
		return s.db.FillAccepted(ctx, rows, benchAttempt(now), now)
	})
}

func (s *bareStore) inSteps(l *benchLoad, set string, n, most int, keep func([]outbox.NewCallback) error) error {
	for from := 0; from < n; from += most {
		rows, err := l.rows(s.ids, set, from, min(most, n-from))
		if err != nil {
			return err
		}
		if err := keep(rows); err != nil {
			return err
		}
	}
	return nil
}

// benchAttempt is an attempt that was accepted.
func benchAttempt(now db.Millis) outbox.Attempt {
	code := int64(0)
	digest := strings.Repeat("b1", 32)
	return outbox.Attempt{RequestUUID: "00000000-0000-8000-8000-000000000000", Started: now, Duration: 5 * time.Millisecond, HTTPStatus: 200,
		ErrCode: &code, Outcome: "accepted", Reason: "accepted", Node: "bench", RequestHash: digest, ResponseHash: digest}
}

// settle accepts what was claimed.
func (s *bareStore) settle(ctx context.Context, claimed []outbox.Claimed, now db.Millis) error {
	list := make([]outbox.Settlement, len(claimed))
	for i, c := range claimed {
		list[i] = outbox.Settlement{Merchant: c.Merchant, CallbackID: c.ID, State: outbox.CallbackAccepted, Reached: true, Attempt: benchAttempt(now)}
		list[i].Attempt.Number = c.Attempts
	}
	settled, err := s.db.Settle(ctx, list, now)
	if err != nil {
		return err
	}
	for _, one := range settled {
		if !one.Applied {
			return errors.New("a settlement was not applied")
		}
	}
	return nil
}

// work claims up to most callbacks and settles them as accepted.
func (s *bareStore) work(ctx context.Context, most int) (int, error) {
	now := db.MillisOf(time.Now())
	claimed, err := s.db.Claim(ctx, outbox.ClaimRequest{Node: "bench", Now: now, LeaseUntil: now + 60_000, Max: most})
	if err != nil || len(claimed) == 0 {
		return 0, err
	}
	return len(claimed), s.settle(ctx, claimed, now)
}

// worked settles n callbacks that are due.
func (s *bareStore) worked(ctx context.Context, n, most int) error {
	for n > 0 {
		did, err := s.work(ctx, min(n, most))
		if err != nil {
			return err
		}
		if did == 0 {
			return fmt.Errorf("%d callbacks that are due were not claimed", n)
		}
		n -= did
	}
	return nil
}

// claims measures claiming while many callbacks are due, of one merchant and of
// many.
func (b *bench) claims(ctx context.Context) error {
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

func (b *bench) claimsOf(ctx context.Context, merchants int) (err error) {
	const suite = "claims"
	b.progress("claims: registering %d merchants", merchants)
	s, err := b.openStore(ctx, suite, merchants)
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
		if err := s.db.Tidy(ctx); err != nil {
			return err
		}
	}
	times := 1000
	if b.Quick {
		times = 20
	}
	b.progress("claims: %d of %d callbacks of %d merchants", times, b.Pending, merchants)
	sync, err := os.Create(filepath.Join(s.dir, "sync"))
	if err != nil {
		return err
	}
	defer sync.Close()
	var took, synced []time.Duration
	var cpu time.Duration
	for i := range times {
		now := db.MillisOf(time.Now())
		start, used := time.Now(), processorTime()
		claimed, err := s.db.Claim(ctx, outbox.ClaimRequest{Node: "bench", Now: now, LeaseUntil: now + 60_000, Max: claimMax})
		took, cpu = append(took, time.Since(start)), cpu+processorTime()-used
		if err != nil {
			return err
		}
		if len(claimed) == 0 {
			return errors.New("nothing was claimed of what is due")
		}
		// Every other time they are settled, and as many others become due.
		if i%2 == 0 {
			err = s.db.GiveBack(ctx, claimed, now)
		} else if err = s.settle(ctx, claimed, now); err == nil {
			err = s.fill(ctx, b.load, fmt.Sprint("more-", i), len(claimed))
		}
		if err != nil {
			return err
		}
		start = time.Now()
		_, err = sync.WriteAt(make([]byte, 4096), 0)
		if err = errors.Join(err, sync.Sync()); err != nil {
			return err
		}
		synced = append(synced, time.Since(start))
	}
	ms := func(list []time.Duration, percent int) float64 {
		slices.Sort(list)
		return us(list[len(list)*percent/100]) / 1000
	}
	name := fmt.Sprintf("%d of %d due, %d merchants", claimMax, b.Pending, merchants)
	b.report.add(suite, name+", p50", "ms", ms(took, 50)).against("ms for a page written and synced meanwhile", ms(synced, 50))
	p99 := b.report.add(suite, name+", p99", "ms", ms(took, 99)).against("ms for a page written and synced meanwhile", ms(synced, 99))
	p99.note("of %d claims; half are settled, half given back", times)
	if b.DB == "" {
		b.report.add(suite, name+", processor", "ms a claim", us(cpu)/1000/float64(times))
	}
	return nil
}

// rows measures claiming and settling beside more and more settled callbacks.
// With SQLite an empty database takes turns with the full one, so that the
// machine's mood meets both alike; with PostgreSQL there is one database, and
// what it did first is what the rest is compared with.
func (b *bench) rows(ctx context.Context) (err error) {
	const suite = "rows"
	full, err := b.openStore(ctx, suite, storeMerchants)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, full.close()) }()
	both := []*bareStore{full}
	if b.DB == "" {
		empty, err := b.openStore(ctx, suite, storeMerchants)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, empty.close()) }()
		both = []*bareStore{empty, full}
	}
	n, round := besideRows, 0
	if b.Quick {
		n = 512
	}
	// beside gives µs a callback in each store, round by round.
	beside := func() ([][]float64, error) {
		took := make([][]float64, len(both))
		for range besideRounds {
			round++
			for i, s := range both {
				// What keeping them leaves to be copied and synced in the background
				// is not what is measured: some are worked before, and then a while
				// nothing.
				if err := s.fill(ctx, b.load, fmt.Sprint("new-", round), n+besideFirst); err != nil {
					return nil, err
				}
				if err := s.worked(ctx, besideFirst, claimMax); err != nil {
					return nil, err
				}
				if !b.Quick {
					time.Sleep(2 * time.Second)
				}
				start := time.Now()
				if err := s.worked(ctx, n, settleMax); err != nil {
					return nil, err
				}
				took[i] = append(took[i], us(time.Since(start))/float64(n))
			}
		}
		return took, nil
	}
	first, err := beside()
	if err != nil {
		return err
	}
	b.report.addRounds(suite, "claimed and settled in an empty database", "µs a callback", first[0])
	settled := (n + besideFirst) * besideRounds
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
		settled += (n + besideFirst) * besideRounds
		empty := medianOf(first[0])
		if len(took) > 1 {
			empty = medianOf(took[0])
		}
		b.report.addRounds(suite, fmt.Sprintf("beside %d settled", rows), "µs a callback", took[len(took)-1]).
			against("µs beside nothing", empty)
	}
	return nil
}
