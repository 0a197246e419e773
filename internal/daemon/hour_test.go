package daemon

import (
	"testing"
	"time"

	"countersign/client"
)

func TestHour(t *testing.T) {
	var h hour
	start := time.UnixMilli(1_750_000_000_000)
	for i := range 100 {
		result := client.AttemptAccepted
		if i < 3 {
			result = client.AttemptRetry
		}
		took := 2 * time.Millisecond
		if i >= 90 {
			took = time.Second
		}
		h.add(start, result, took)
	}
	h.add(start.Add(30*time.Second), client.AttemptRefused, 10*time.Hour)
	got := h.last(start.Add(time.Minute))
	if len(got) != 2 {
		t.Fatalf("%d slices, want 2", len(got))
	}
	s := got[0]
	if s.Attempts != 100 || s.Failed != 3 || !s.At.Time().Equal(start) || s.P50Ms < 2 || s.P50Ms > 3 || s.P95Ms < 1000 || s.P95Ms > 1500 {
		t.Errorf("%+v", s)
	}
	if s := got[1]; s.Attempts != 1 || s.Failed != 0 || s.P50Ms < 60_000 {
		t.Errorf("the longest: %+v", s)
	}
	// An hour later the same places of the ring are of other times.
	if got := h.last(start.Add(time.Hour + 15*time.Second)); len(got) != 1 || got[0].Attempts != 1 {
		t.Errorf("an hour later: %+v", got)
	}
	h.add(start.Add(time.Hour), client.AttemptAccepted, 0)
	if got := h.last(start.Add(time.Hour)); len(got) != 2 || got[1].Attempts != 1 || got[1].P50Ms != 1 {
		t.Errorf("after the ring went round: %+v", got)
	}
}
