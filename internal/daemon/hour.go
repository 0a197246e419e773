package daemon

import (
	"math"
	"sync"
	"time"

	"countersign/client"
)

const (
	hourStep   = 10 * time.Second
	hourSlices = int(time.Hour / hourStep)
)

// The times of attempts are counted in buckets, each half as wide again as the one
// before: 1 ms, 1.5 ms, and so on to some 90 s.
const (
	hourFirst   = time.Millisecond
	hourFactor  = 1.5
	hourBuckets = 29
)

// hour counts the attempts of this process in the last hour.
type hour struct {
	mu     sync.Mutex
	slices [hourSlices]hourSlice // a ring by time
}

type hourSlice struct {
	at               int64 // number of the step since 1970
	attempts, failed int64
	took             [hourBuckets]int64
}

func (h *hour) add(now time.Time, result client.AttemptResult, took time.Duration) {
	at := now.UnixMilli() / hourStep.Milliseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.slices[int(at)%hourSlices]
	if s.at != at {
		*s = hourSlice{at: at}
	}
	s.attempts++
	if result == client.AttemptRetry {
		s.failed++
	}
	bucket := 0
	if took > hourFirst {
		bucket = min(hourBuckets-1, int(math.Ceil(math.Log(float64(took)/float64(hourFirst))/math.Log(hourFactor))))
	}
	s.took[bucket]++
}

// last returns the slices of the last hour that have attempts, the oldest first.
func (h *hour) last(now time.Time) []client.HourSlice {
	list := []client.HourSlice{}
	end := now.UnixMilli() / hourStep.Milliseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	for at := end - int64(hourSlices) + 1; at <= end; at++ {
		if s := &h.slices[int(at)%hourSlices]; s.at == at && s.attempts > 0 {
			list = append(list, client.HourSlice{
				At: client.Time(at * hourStep.Milliseconds()), Attempts: s.attempts, Failed: s.failed, P50Ms: s.percentile(50), P95Ms: s.percentile(95),
			})
		}
	}
	return list
}

// percentile returns the upper end of the bucket that p percent of the attempts do not
// exceed, in milliseconds.
func (s *hourSlice) percentile(p int64) int64 {
	rest := (s.attempts*p + 99) / 100
	bound := float64(hourFirst.Milliseconds())
	for _, n := range s.took {
		if rest -= n; rest <= 0 {
			break
		}
		bound *= hourFactor
	}
	return int64(math.Ceil(bound))
}
