package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"countersign/internal/store"
)

const (
	storeMerchants = 50
	claimMax       = 64    // of a claim that is timed
	settleMax      = 256   // of a batch that is worked
	besideRows     = 10240 // worked in a round beside what is settled
	besideRounds   = 3
)

// fill makes n deposits due.
func (s *bareStore) fill(ctx context.Context, l *benchLoad, set string, n int) error {
	for from := 0; from < n; from += 1000 {
		rows, err := l.rows(s.ids, set, from, min(1000, n-from))
		if err != nil {
			return err
		}
		if _, err := s.db.Ingest(ctx, rows, store.MillisOf(time.Now())); err != nil {
			return err
		}
	}
	return nil
}

// work claims up to most callbacks and settles them as accepted.
func (s *bareStore) work(ctx context.Context, most int) (int, error) {
	now := store.MillisOf(time.Now())
	claimed, err := s.db.Claim(ctx, store.ClaimRequest{Node: "bench", Now: now, LeaseUntil: now + 60_000, Max: most})
	if err != nil || len(claimed) == 0 {
		return 0, err
	}
	code := int64(0)
	list := make([]store.Settlement, len(claimed))
	for i, c := range claimed {
		list[i] = store.Settlement{Merchant: c.Merchant, CallbackID: c.ID, State: store.CallbackAccepted, Reached: true,
			Attempt: store.Attempt{Number: c.Attempts, RequestUUID: "00000000-0000-8000-8000-000000000000", Started: now,
				Duration: 5 * time.Millisecond, HTTPStatus: 200, ErrCode: &code, Outcome: "accepted", Reason: "accepted", Node: "bench"}}
	}
	settled, err := s.db.Settle(ctx, list, now)
	if err != nil {
		return 0, err
	}
	for _, one := range settled {
		if !one.Applied {
			return 0, errors.New("a settlement was not applied")
		}
	}
	return len(claimed), nil
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
	for _, merchants := range []int{1, 100} {
		if err := b.claimsOf(ctx, merchants); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) claimsOf(ctx context.Context, merchants int) (err error) {
	const suite = "claims"
	s, err := b.openStore(ctx, suite, merchants)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	b.progress("claims: %d callbacks of %d merchants", b.Pending, merchants)
	if err := s.fill(ctx, b.load, "due", b.Pending); err != nil {
		return err
	}
	times := 500
	if b.Quick {
		times = 20
	}
	var took []time.Duration
	for range times {
		now := store.MillisOf(time.Now())
		start := time.Now()
		claimed, err := s.db.Claim(ctx, store.ClaimRequest{Node: "bench", Now: now, LeaseUntil: now + 60_000, Max: claimMax})
		took = append(took, time.Since(start))
		if err != nil {
			return err
		}
		if len(claimed) == 0 {
			return errors.New("nothing was claimed of what is due")
		}
		if err := s.db.GiveBack(ctx, claimed, now); err != nil {
			return err
		}
	}
	slices.Sort(took)
	name := fmt.Sprintf("%d of %d due, %d merchants", claimMax, b.Pending, merchants)
	b.report.add(suite, name+", p50", "ms", us(took[len(took)/2])/1000)
	b.report.add(suite, name+", p99", "ms", us(took[len(took)*99/100])/1000).note("of %d claims, each durable", times)
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
				if err := s.fill(ctx, b.load, fmt.Sprint("new-", round), n); err != nil {
					return nil, err
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
	settled := n * besideRounds
	for _, rows := range b.Rows {
		for settled < rows {
			b.progress("rows: %d of %d settled", settled, rows)
			more := min(10_000, rows-settled)
			if err := full.fill(ctx, b.load, fmt.Sprint("old-", settled), more); err != nil {
				return err
			}
			if err := full.worked(ctx, more, 1000); err != nil {
				return err
			}
			settled += more
		}
		took, err := beside()
		if err != nil {
			return err
		}
		settled += n * besideRounds
		empty := medianOf(first[0])
		if len(took) > 1 {
			empty = medianOf(took[0])
		}
		b.report.addRounds(suite, fmt.Sprintf("beside %d settled", rows), "µs a callback", took[len(took)-1]).
			against("µs beside nothing", empty)
	}
	return nil
}
