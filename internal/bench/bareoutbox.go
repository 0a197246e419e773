package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// bareOutbox is a service's database that no service works on.
type bareOutbox struct {
	outbox *outbox.Outbox
	ids    []string // of merchants
	dir    string
}

// openOutbox opens a database and makes n merchants in it.
func (b *Bench) openOutbox(ctx context.Context, name string, n int) (_ *bareOutbox, err error) {
	s := &bareOutbox{}
	if s.dir, err = b.newDir(name); err != nil {
		return nil, err
	}
	url := b.DB
	if url == "" {
		url = filepath.Join(s.dir, daemon.DatabaseFile)
	}
	d, err := db.Open(ctx, db.Config{URL: url, Keys: keys()}, outbox.End())
	if err != nil {
		return nil, err
	}
	s.outbox = outbox.New(d)
	now := db.MillisOf(time.Now())
	if err := pauseAll(ctx, s.outbox); err != nil {
		return nil, errors.Join(err, s.close())
	}
	for i := range n {
		m := outbox.Merchant{
			ID: fmt.Sprintf("%s-%x-%d-%05d", name, now, b.made, i), Name: "bench", State: outbox.MerchantActive,
			NotifyURL: "http://127.0.0.1:9/notify", WithdrawURL: "http://127.0.0.1:9/withdraw", Scheme: outbox.SchemeService,
			Concurrency: 10_000, ConfirmWithin: time.Hour, APIKey: b.load.apiKey, Key: b.load.pair,
		}
		if _, err := s.outbox.CreateMerchant(ctx, m, now); err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.ids = append(s.ids, m.ID)
	}
	return s, nil
}

// close closes the database and removes its directory.
func (s *bareOutbox) close() error { return errors.Join(s.outbox.Close(), os.RemoveAll(s.dir)) }

// fill makes n deposits due.
func (s *bareOutbox) fill(ctx context.Context, l *load, set string, n int) error {
	return s.inSteps(l, set, 0, n, 1000, func(rows []outbox.NewCallback) error { return s.keep(ctx, rows) })
}

// fillSettled makes n deposits that were settled at the first attempt.
func (s *bareOutbox) fillSettled(ctx context.Context, l *load, set string, n int) error {
	return s.inSteps(l, set, 0, n, fillAtOnce, func(rows []outbox.NewCallback) error {
		now := db.MillisOf(time.Now())
		return s.outbox.FillAccepted(ctx, rows, accepted(now), now)
	})
}

// keep makes deposits due.
func (s *bareOutbox) keep(ctx context.Context, rows []outbox.NewCallback) error {
	_, err := s.outbox.Ingest(ctx, rows, db.MillisOf(time.Now()))
	return err
}

// inSteps makes the deposits from to to-1 of a set and hands them to keep, at most so
// many at once.
func (s *bareOutbox) inSteps(l *load, set string, from, to, most int, keep func([]outbox.NewCallback) error) error {
	for ; from < to; from += most {
		rows, err := l.rows(s.ids, set, from, min(most, to-from))
		if err != nil {
			return err
		}
		if err := keep(rows); err != nil {
			return err
		}
	}
	return nil
}

// accepted is an attempt whose answer was accepted.
func accepted(now db.Millis) outbox.Attempt {
	code := int64(0)
	digest := strings.Repeat("b1", 32)
	return outbox.Attempt{RequestUUID: "00000000-0000-8000-8000-000000000000", Started: now, Duration: 5 * time.Millisecond, HTTPStatus: 200,
		ErrCode: &code, Result: "accepted", Reason: "accepted", Node: "bench", RequestHash: digest, ResponseHash: digest}
}

// settle settles what was claimed, as accepted.
func (s *bareOutbox) settle(ctx context.Context, claimed []outbox.Claimed, now db.Millis) error {
	list := make([]outbox.Settlement, len(claimed))
	for i, c := range claimed {
		list[i] = outbox.Settlement{Merchant: c.Merchant, CallbackID: c.ID, State: outbox.CallbackAccepted, Reached: true, Attempt: accepted(now)}
		list[i].Attempt.Number = c.Attempts
	}
	settled, err := s.outbox.Settle(ctx, list, now)
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

// claim claims up to most callbacks of the notify lane.
func (s *bareOutbox) claim(ctx context.Context, most int, now db.Millis) ([]outbox.Claimed, error) {
	return s.outbox.Claim(ctx, outbox.ClaimRequest{Node: "bench", Now: now, LeaseUntil: now + 60_000, Max: most})
}

// workOnce claims and settles what is due, at most so many, and gives how many.
func (s *bareOutbox) workOnce(ctx context.Context, most int) (int, error) {
	now := db.MillisOf(time.Now())
	claimed, err := s.claim(ctx, most, now)
	if err != nil || len(claimed) == 0 {
		return 0, err
	}
	return len(claimed), s.settle(ctx, claimed, now)
}

// work claims and settles n callbacks that are due, at most so many at once.
func (s *bareOutbox) work(ctx context.Context, n, most int) error {
	for n > 0 {
		did, err := s.workOnce(ctx, min(n, most))
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
