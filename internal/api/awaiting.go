package api

import (
	"context"
	"errors"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

// waitsLong is how long something may wait for an approver before approval_waits tells of it.
const waitsLong db.Millis = 3_600_000

// waitingPage is how many alarms of things that wait are raised or ended at once.
const waitingPage = 200

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

// Waiting tells of each thing of a kind of which approval_waits tells at a moment: its id, and the
// merchant that it is about; empty: none. raise is false where it is not known whether it waits: then
// an alarm that stands stays.
type Waiting func(ctx context.Context, m Moment, tell func(merchant, id string, raise bool)) error

// Await adds a kind of things that wait, beside changes. what begins the subjects of their alarms. It
// is said before Run.
func (k *Changes) Await(what string, w Waiting) {
	if k.waiting == nil {
		k.waiting = map[string]Waiting{}
	}
	k.waiting[what] = w
}

const whereWaiting = ` WHERE state = 'open' AND id > $1 ORDER BY id LIMIT 200`

// waits is the Waiting of changes.
func (k *Changes) waits(ctx context.Context, m Moment, tell func(merchant, id string, raise bool)) error {
	for after := ""; ; {
		list, err := readChanges(ctx, k.c.DB, whereWaiting, after)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, c := range list {
			after = c.ID
			given, err := k.kept(ctx, k.c.DB, &c)
			if err != nil {
				return err
			}
			if m.Tells(m.People.Agree(k.asked(&c, m.Now), given), c.Proposed) {
				tell(c.Merchant, c.ID, true)
			}
		}
	}
}

// TellOfWaiting raises approval_waits, once each, for what a Waiting tells of, and ends it when
// that does not wait any more.
func (k *Changes) TellOfWaiting(ctx context.Context, now db.Millis) error {
	people, err := ReadPeople(ctx, k.c.DB)
	if err != nil {
		return err
	}
	// Before what waits now: what another node tells of meanwhile stays.
	standing, err := k.c.DB.StandingAlarms(ctx, client.AlarmApprovalWaits)
	if err != nil {
		return err
	}
	var errs []error
	for what, each := range k.waiting {
		var waits []db.Alarm
		is := map[string]bool{}
		err := each(ctx, Moment{people, now - waitsLong, now}, func(merchant, id string, raise bool) {
			subject := what + " " + id
			if is[subject] = true; raise {
				waits = append(waits, db.Alarm{Of: merchant, Kind: client.AlarmApprovalWaits, Subject: subject, At: now})
			}
		})
		if err != nil { // nothing is known of those that it did not reach
			errs = append(errs, err)
			continue
		}
		over := slices.DeleteFunc(slices.Clone(standing), func(a db.Alarm) bool {
			return !strings.HasPrefix(a.Subject, what+" ") || is[a.Subject]
		})
		for page := range slices.Chunk(waits, waitingPage) {
			errs = append(errs, k.c.DB.RaiseNew(ctx, page))
		}
		for page := range slices.Chunk(over, waitingPage) {
			errs = append(errs, k.c.DB.EndStanding(ctx, page, now))
		}
	}
	return errors.Join(errs...)
}
