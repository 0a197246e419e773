package book

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
)

// TestAckAlarm: an alarm is acknowledged once, by the first who does, with a name and a
// note; the feed still tells it. Lists by kind and state have those and no others.
func TestAckAlarm(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			b := New(openAt(t, d.url(t)), Config{})
			for i, kind := range []client.AlarmKind{client.AlarmOrderUnknown, client.AlarmSpliced, client.AlarmOrderUnknown} {
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
				{db.AlarmFilter{State: client.AlarmOpen}, 0, []int64{2, 3}},
				{db.AlarmFilter{State: client.AlarmAcked}, 0, []int64{1}},
				{db.AlarmFilter{Kind: client.AlarmOrderUnknown}, 0, []int64{1, 3}},
				{db.AlarmFilter{Kind: client.AlarmOrderUnknown, State: client.AlarmOpen}, 0, []int64{3}},
				{db.AlarmFilter{Kind: client.AlarmSpliced, State: client.AlarmAcked}, 0, nil},
				{db.AlarmFilter{Of: []string{}}, 0, nil},
				{db.AlarmFilter{Of: []string{""}, State: client.AlarmOpen}, 0, []int64{2, 3}},
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
			if err != nil || counts[client.AlarmOrderUnknown] != (db.AlarmCount{Raised: 2, Open: 1}) || counts[client.AlarmSpliced] != (db.AlarmCount{Raised: 1, Open: 1}) {
				t.Errorf("numbers %v, %v", counts, err)
			}
		})
	}
}

// TestAlarmPosts: from the first start on, each alarm is one process's at a time, again
// when its lease has ended, and never after it was posted.
func TestAlarmPosts(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url := d.url(t)
			b := New(openAt(t, url), Config{})
			nodes := []*Book{b, b}
			if d.name == "postgres" {
				nodes[1] = New(openAt(t, url), Config{})
			}
			raise := func(n int) {
				t.Helper()
				if err := b.RaiseAlarm(ctx, db.Alarm{Kind: client.AlarmOrderUnknown, Subject: fmt.Sprint("s", n), At: 5}); err != nil {
					t.Fatal(err)
				}
			}
			claim := func(node int, now db.Millis) (db.AlarmPost, bool) {
				t.Helper()
				p, found, err := nodes[node].ClaimAlarmPost(ctx, now, time.Second)
				if err != nil {
					t.Fatal(err)
				}
				return p, found
			}
			raise(1) // before anybody posted
			for range 2 {
				if err := b.BeginAlarmPosts(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if p, found := claim(0, 100); found {
				t.Errorf("claimed %+v", p)
			}
			raise(2)
			first, found := claim(0, 100)
			if !found || first.Alarm.Seq != 2 || first.Alarm.Subject != "s2" || first.Attempts != 1 {
				t.Fatalf("claimed %+v", first)
			}
			if p, found := claim(1, 1099); found {
				t.Errorf("claimed twice: %+v", p)
			}
			second, found := claim(1, 1100) // the lease has ended
			if !found || second.Alarm.Seq != 2 || second.Attempts != 2 {
				t.Errorf("claimed again %+v", second)
			}
			settle := func(p db.AlarmPost, posted bool, again db.Millis) {
				t.Helper()
				if err := b.SettleAlarmPost(ctx, p, posted, again); err != nil {
					t.Fatal(err)
				}
			}
			settle(first, false, 0) // of an attempt that has lost its lease
			if p, found := claim(0, 1101); found {
				t.Errorf("a stale end made it due: %+v", p)
			}
			settle(second, false, 5000)
			if p, found := claim(0, 4999); found {
				t.Errorf("claimed too early: %+v", p)
			}
			third, _ := claim(0, 5000)
			settle(third, true, 0)
			settle(third, false, 0) // late
			if p, found := claim(1, 1_000_000); found {
				t.Errorf("claimed after it was posted: %+v", p)
			}

			// Many at once, two nodes: each is claimed once.
			for n := range 12 {
				raise(10 + n)
			}
			var mu sync.Mutex
			claimed := map[int64]int{}
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for {
						p, found, err := nodes[i%2].ClaimAlarmPost(ctx, 2_000_000, time.Hour)
						if err != nil {
							t.Error(err)
							return
						}
						if !found {
							return
						}
						mu.Lock()
						claimed[p.Alarm.Seq]++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			for len(claimed) < 12 { // a locked row is skipped
				p, found := claim(0, 2_000_000)
				if !found {
					break
				}
				claimed[p.Alarm.Seq]++
			}
			for seq := int64(3); seq < 15; seq++ {
				if claimed[seq] != 1 {
					t.Errorf("alarm %d was claimed %d times", seq, claimed[seq])
				}
			}
		})
	}
}
