package book

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"countersign/internal/db"
)

// TestAckAlarm: an alarm is acknowledged once, by the first who does, with a name and a
// note; the feed still tells it. Lists by kind and state have those and no others.
func TestAckAlarm(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			b := New(openAt(t, d.url(t)), Config{})
			for i, kind := range []string{AlarmOrderUnknown, AlarmSpliced, AlarmOrderUnknown} {
				if err := b.RaiseAlarm(ctx, db.Alarm{Kind: kind, Subject: fmt.Sprint("s", i), At: 5}); err != nil {
					t.Fatal(err)
				}
			}
			for _, by := range []string{"tok_1", "tok_2"} {
				a, err := b.AckAlarm(ctx, 1, by, "name of "+by, "seen", 9)
				if err != nil || a.Subject != "s0" || a.Acked != 9 || a.AckedBy != "tok_1" || a.AckedName != "name of tok_1" || a.AckedNote != "seen" {
					t.Errorf("acknowledged by %s: %+v, %v", by, a, err)
				}
			}
			if _, err := b.AckAlarm(ctx, 4, "tok_1", "", "", 9); !errors.Is(err, db.ErrNotFound) {
				t.Errorf("an alarm that is not there: %v", err)
			}
			if _, err := b.AckAlarm(ctx, 2, "tok_1", "n", "a\x00", 9); !errors.Is(err, db.ErrInvalid) {
				t.Errorf("a note that cannot be kept: %v", err)
			}
			for _, c := range []struct {
				filter db.AlarmFilter
				after  int64
				want   []int64
			}{
				{db.AlarmFilter{}, 0, []int64{1, 2, 3}},
				{db.AlarmFilter{}, 1, []int64{2, 3}},
				{db.AlarmFilter{State: db.AlarmOpen}, 0, []int64{2, 3}},
				{db.AlarmFilter{State: db.AlarmAcked}, 0, []int64{1}},
				{db.AlarmFilter{Kind: AlarmOrderUnknown}, 0, []int64{1, 3}},
				{db.AlarmFilter{Kind: AlarmOrderUnknown, State: db.AlarmOpen}, 0, []int64{3}},
				{db.AlarmFilter{Kind: AlarmSpliced, State: db.AlarmAcked}, 0, nil},
				{db.AlarmFilter{Of: []string{}}, 0, nil},
				{db.AlarmFilter{Of: []string{""}, State: db.AlarmOpen}, 0, []int64{2, 3}},
			} {
				list, next, err := b.AlarmsWhere(ctx, c.filter, c.after, 10)
				var got []int64
				for _, a := range list {
					got = append(got, a.Seq)
				}
				if err != nil || !slices.Equal(got, c.want) || len(got) > 0 && next < got[len(got)-1] {
					t.Errorf("%+v after %d: %v, next %d, %v; want %v", c.filter, c.after, got, next, err, c.want)
				}
			}
			counts, err := b.AlarmCounts(ctx)
			if err != nil || counts[AlarmOrderUnknown] != (db.AlarmCount{Raised: 2, Open: 1}) || counts[AlarmSpliced] != (db.AlarmCount{Raised: 1, Open: 1}) {
				t.Errorf("numbers %v, %v", counts, err)
			}
		})
	}
}
