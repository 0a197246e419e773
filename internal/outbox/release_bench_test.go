package outbox

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/envelope"
	"countersign/internal/db"
)

// BenchmarkRelease returns permits to 16 callers at once, of a merchant that does not sign its answers
// and of one that does, and in calls of 100 by two callers, in turns. FIGURES.md has its figures.
func BenchmarkRelease(b *testing.B) { eachDialect(b, benchmarkRelease) }

func benchmarkRelease(b *testing.B, s *Outbox) {
	pair, at := envelope.GenerateSigningKey(), func() db.Millis { return db.MillisOf(time.Now()) }
	addMerchants(b, s, 2, func(m *Merchant) {
		if m.ID == "m1" {
			m.AnswerKey = pair.PublicBase64()
		}
	})
	d := *someDetails(b, "2.5")
	round := 0
	for b.Loop() {
		const each = 500
		round++
		for _, mode := range []struct {
			name, merchant string
			size, callers  int
		}{{"believed", "m0", 1, 16}, {"signed", "m1", 1, 16}, {"together", "m1", 100, 2}} {
			list := confirmedMany(b, s, []string{mode.merchant}, each, fmt.Sprint(mode.name, round, "-"), at(), func(c Claimed) *Exchange {
				if mode.merchant == "m0" {
					return &Exchange{}
				}
				return &Exchange{Signed: signedAnswer(b, pair, c.CallBackID, 0, d)}
			})
			began := time.Now()
			var next atomic.Int64
			var callers sync.WaitGroup
			for range mode.callers {
				callers.Go(func() {
					for from := int(next.Add(1)-1) * mode.size; from < each; from = int(next.Add(1)-1) * mode.size {
						var asked []ReleaseRequest
						for i, w := range list[from : from+mode.size] {
							asked = append(asked, ReleaseRequest{ID: w.ID, Holder: Holder{Claim: "c", Origin: "core"}, Permit: fmt.Sprint("permit", from+i)})
						}
						done, err := s.ReleaseMany(ctx, asked, nil, at())
						if err != nil {
							b.Error(err)
						}
						for _, r := range done {
							if r.Err != nil || (mode.merchant == "m1") != (r.Issued.Answer != nil) {
								b.Error(r)
							}
						}
					}
				})
			}
			callers.Wait()
			b.ReportMetric(each/time.Since(began).Seconds(), mode.name+"/s")
		}
	}
}
