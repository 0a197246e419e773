package book

import (
	"errors"
	"testing"

	"countersign/internal/db"
)

// TestAckAlarm: an alarm is acknowledged once, by the first who does; the feed still
// tells it.
func TestAckAlarm(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			b := New(openAt(t, d.url(t)), Config{})
			for _, subject := range []string{"a", "b"} {
				if err := b.RaiseAlarm(ctx, db.Alarm{Kind: AlarmOrderUnknown, Subject: subject, At: 5}); err != nil {
					t.Fatal(err)
				}
			}
			for _, by := range []string{"tok_1", "tok_2"} {
				a, err := b.AckAlarm(ctx, 1, by, 9)
				if err != nil || a.Subject != "a" || a.Acked != 9 || a.AckedBy != "tok_1" {
					t.Errorf("acknowledged by %s: %+v, %v", by, a, err)
				}
			}
			if _, err := b.AckAlarm(ctx, 3, "tok_1", 9); !errors.Is(err, db.ErrNotFound) {
				t.Errorf("an alarm that is not there: %v", err)
			}
			if list, err := b.Alarms(ctx, 0, 10); err != nil || len(list) != 2 || list[0].AckedBy != "tok_1" || list[1].Acked != 0 {
				t.Errorf("alarms %+v, %v", list, err)
			}
			if list, err := b.OpenAlarms(ctx, 0, 10); err != nil || len(list) != 1 || list[0].Subject != "b" {
				t.Errorf("open alarms %+v, %v", list, err)
			}
		})
	}
}
