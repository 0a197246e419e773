package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

// waitsLong is how long a task may wait before approval_waits tells of it.
const waitsLong db.Millis = 3_600_000

// waitingPage is how many alarms of tasks that wait are raised or ended at once.
const waitingPage = 200

// tellOfWaiting raises approval_waits in d, once each, for open tasks that have waited for an hour. It raises it at
// once if an approval's token has ended or the existing people cannot give what is missing. It ends the alarm when that
// is over.
func (t Tasks) tellOfWaiting(ctx context.Context, d *db.DB, now db.Millis) error {
	l, err := t.look(&Call{R: new(http.Request).WithContext(ctx), Now: now})
	if err != nil {
		return err
	}
	// This comes before what waits now, so that an alarm that another node raises meanwhile stays.
	standing, err := d.StandingAlarms(ctx, client.AlarmApprovalWaits)
	if err != nil {
		return err
	}
	var errs []error
	for i := range t.Kinds {
		k := &t.Kinds[i]
		if k.Tells == "" {
			continue
		}
		waits, stays, err := k.waiting(l)
		if err != nil { // nothing is known of the tasks that were not reached
			errs = append(errs, err)
			continue
		}
		over := slices.DeleteFunc(slices.Clone(standing), func(a client.Alarm) bool {
			return !strings.HasPrefix(a.Subject, k.Tells+" ") || stays[a.Subject]
		})
		for page := range slices.Chunk(waits, waitingPage) {
			errs = append(errs, d.RaiseNew(ctx, page))
		}
		for page := range slices.Chunk(over, waitingPage) {
			errs = append(errs, d.EndStanding(ctx, page, now))
		}
	}
	return errors.Join(errs...)
}

// waiting returns the alarms about tasks that wait, and the subjects of those that must not end.
func (k *TaskKind) waiting(l *TaskLook) (waits []client.Alarm, stays map[string]bool, err error) {
	stays = map[string]bool{}
	for _, s := range k.Sources {
		if s.State != client.TaskOpen {
			continue
		}
		for cursor, more := "", true; more; more = cursor != "" {
			var list []ListedTask
			if list, cursor, err = s.List(l, client.TaskFilter{}, cursor, waitingPage); err != nil {
				return nil, nil, err
			}
			for _, x := range list {
				if x.Since == 0 || x.State != client.TaskOpen && !x.Unknown {
					continue
				}
				subject := k.Tells + " " + x.About
				tells := x.AtOnce || x.Since <= l.Now-waitsLong
				if stays[subject] = tells || x.Unknown; tells {
					waits = append(waits, client.Alarm{Merchant: x.Merchant, Kind: client.AlarmApprovalWaits, Subject: subject,
						First: l.Now})
				}
			}
		}
	}
	return waits, stays, nil
}
