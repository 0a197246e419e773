package api

import (
	"context"
	"errors"
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

// waitsLong is how long something may wait for an approver before approval_waits tells of it.
const waitsLong db.Millis = 3_600_000

// lookEvery is how often it is looked for.
const lookEvery db.Millis = 60_000

// waitingPage is how many of those that wait are read, and told of, at once.
const waitingPage = 200

// Awaited is something that waits for an approver.
type Awaited struct {
	Of string // the merchant that it is about; empty: none
	ID string
}

// Moment is one look at all that waits, with the people of that moment.
type Moment struct {
	People *People
	Since  db.Millis // what waits since then or longer is told of
	Now    db.Millis
}

// Tells reports whether approval_waits tells of a thing that waits since a time: for too long, or at
// once where an approval has lost its token or those who exist cannot give what is missing.
func (m Moment) Tells(a Agreed, since db.Millis) bool {
	return !a.Enough() && (since <= m.Since || a.TellNow())
}

// Waiting is one kind of things that wait for an approver.
type Waiting struct {
	// What begins the subjects of their alarms, before the id.
	What string
	// Each calls fn with all of which approval_waits tells at a moment.
	Each func(ctx context.Context, m Moment, fn func(Awaited) error) error
	// Tells reports whether one is among those. The error is db.ErrNotFound where there is none.
	Tells func(ctx context.Context, m Moment, is Awaited) (bool, error)
}

// Await adds a kind of things that wait, beside changes. It is said before Run.
func (k *Changes) Await(w Waiting) { k.waiting = append(k.waiting, w) }

const whereWaiting = ` WHERE state = 'waiting' AND id > $1 ORDER BY id LIMIT 200`

// waits is what waits of changes.
func (k *Changes) waits() Waiting {
	return Waiting{
		What: "change",
		Each: func(ctx context.Context, m Moment, fn func(Awaited) error) error {
			for after := ""; ; {
				list, err := readChanges(ctx, k.c.DB, whereWaiting, after)
				if err != nil || len(list) == 0 {
					return err
				}
				for i := range list {
					c := &list[i]
					after = c.ID
					tells, err := k.tells(ctx, m, c)
					if err == nil && tells {
						err = fn(Awaited{c.Merchant, c.ID})
					}
					if err != nil {
						return err
					}
				}
			}
		},
		Tells: func(ctx context.Context, m Moment, is Awaited) (bool, error) {
			c, err := findChange(ctx, k.c.DB, is.ID)
			if err != nil || c.State != client.ChangeWaiting {
				return false, err
			}
			return k.tells(ctx, m, &c)
		},
	}
}

func (k *Changes) tells(ctx context.Context, m Moment, c *Change) (bool, error) {
	given, err := k.kept(ctx, k.c.DB, c)
	return err == nil && m.Tells(m.People.Agree(k.asked(c, m.Now), given), c.Proposed), err
}

// TellOfWaiting raises approval_waits, once each, for what a Waiting tells of, and ends it when
// that does not wait any more.
func (k *Changes) TellOfWaiting(ctx context.Context, now db.Millis) error {
	people, err := ReadPeople(ctx, k.c.DB)
	if err != nil {
		return err
	}
	m := Moment{people, now - waitsLong, now}
	var errs []error
	for _, w := range append([]Waiting{k.waits()}, k.waiting...) {
		errs = append(errs, k.raiseWaiting(ctx, m, w), k.endWaiting(ctx, m, w))
	}
	return errors.Join(errs...)
}

func (k *Changes) raiseWaiting(ctx context.Context, m Moment, w Waiting) error {
	var page []db.Alarm
	raise := func() error {
		err := k.c.DB.RaiseNew(ctx, page)
		page = page[:0]
		return err
	}
	err := w.Each(ctx, m, func(is Awaited) error {
		page = append(page, db.Alarm{Of: is.Of, Kind: client.AlarmApprovalWaits, Subject: w.What + " " + is.ID, At: m.Now})
		if len(page) < waitingPage {
			return nil
		}
		return raise()
	})
	return errors.Join(err, raise())
}

func (k *Changes) endWaiting(ctx context.Context, m Moment, w Waiting) error {
	return k.c.DB.EachStanding(ctx, client.AlarmApprovalWaits, func(page []db.Alarm) error {
		var over []db.Alarm
		for _, a := range page {
			id, is := strings.CutPrefix(a.Subject, w.What+" ")
			if !is {
				continue
			}
			tells, err := w.Tells(ctx, m, Awaited{a.Of, id})
			switch {
			case err != nil && !errors.Is(err, db.ErrNotFound) && !errors.Is(err, db.ErrPurged):
				return err
			case !tells:
				over = append(over, a)
			}
		}
		return k.c.DB.EndStanding(ctx, over, m.Now)
	})
}
