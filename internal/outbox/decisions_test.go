package outbox

import (
	"fmt"
	"slices"
	"testing"

	"countersign/client"
	"countersign/internal/lab/dbtest/ready"
)

func testAlarms(t *testing.T, s *Outbox) {
	const hour = 3_600_000
	for _, a := range []client.Alarm{
		{Merchant: "m0", Kind: client.AlarmWalletDiffers, Subject: "s", First: 10 * hour},
		{Merchant: "m0", Kind: client.AlarmWalletDiffers, Subject: "s", First: 10*hour + 5}, // the same
		{Merchant: "m0", Kind: client.AlarmWalletDiffers, Subject: "t", First: 10*hour + 5}, // of another withdrawal
		{Merchant: "", Kind: client.AlarmFrozen, Subject: "", First: 10*hour + 6},
		{Merchant: "m0", Kind: client.AlarmLapsed, Subject: "u", First: 11*hour + 1}, // one row counts all subjects
		{Merchant: "m0", Kind: client.AlarmLapsed, Subject: "v", First: 11*hour + 2},
		{Merchant: "m1", Kind: client.AlarmLapsed, Subject: "v", First: 11*hour + 2},
	} {
		if err := s.RaiseAlarm(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	list := must(ready.Alarms(ctx, s))(t)
	var got []string
	for _, a := range list {
		got = append(got, fmt.Sprintf("%d %s %s %q %d-%d %d %q", a.Seq, a.Merchant, a.Kind, a.Subject, a.First-10*hour, a.Last-10*hour, a.Number, a.Examples))
	}
	want := []string{`1 m0 wallet_differs "s" 0-5 2 ["s"]`, `2 m0 wallet_differs "t" 5-5 1 ["t"]`, `3  frozen "" 6-6 1 []`,
		`4 m0 lapsed "v" 3600001-3600002 2 ["v" "u"]`, `5 m1 lapsed "v" 3600002-3600002 1 ["v"]`}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if err := s.RaiseAlarm(ctx, client.Alarm{Kind: "a\x00"}); err == nil {
		t.Error("took a NUL")
	}
}
