package outbox

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/internal/db"
)

// BenchmarkRelease returns permits to 16 callers at once, of a merchant that does not sign its answers
// and of one that does, and in calls of 100 by two callers, in turns. FIGURES.md has its figures.
func BenchmarkRelease(b *testing.B) {
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) { benchmarkRelease(b, openAt(b, d.url(b))) })
	}
}

func benchmarkRelease(b *testing.B, s *Outbox) {
	pair, at := envelope.GenerateSigningKey(), func() db.Millis { return db.MillisOf(time.Now()) }
	addMerchants(b, s, 2, func(m *Merchant) {
		if m.ID == "m1" {
			m.AnswerKey = pair.PublicBase64()
		}
	})
	d := *someDetails(b, "2.5")
	n := 0
	for b.Loop() {
		const each = 500
		for _, mode := range []struct {
			name, merchant string
			size, callers  int
		}{{"believed", "m0", 1, 16}, {"signed", "m1", 1, 16}, {"together", "m1", 100, 2}} {
			ids := make([]string, each)
			for i := range ids {
				n++
				w := newWithdrawal(fmt.Sprint("cb", n), at()+3_600_000, &d)
				w.Merchant = mode.merchant
				made, _, err := s.CreateWithdrawal(ctx, w, at())
				if err != nil {
					b.Fatal(err)
				}
				ids[i] = made.ID
			}
			for left := each; left > 0; {
				var list []Settlement
				for _, c := range claim(b, s, countersign.LaneWithdraw, at(), 100) {
					x := answer(c, countersign.DecisionConfirmed, &d)
					x.Exchange = &Exchange{}
					if mode.merchant == "m1" {
						x.Exchange.Signed = signedAnswer(b, pair, c.CallBackID, 0, d)
					}
					list = append(list, x)
				}
				must(s.Settle(ctx, list, at()))(b)
				left -= len(list)
			}
			began := time.Now()
			var next atomic.Int64
			var callers sync.WaitGroup
			for range mode.callers {
				callers.Go(func() {
					for from := int(next.Add(1)-1) * mode.size; from < each; from = int(next.Add(1)-1) * mode.size {
						var asked []ReleaseRequest
						for i, id := range ids[from : from+mode.size] {
							asked = append(asked, ReleaseRequest{ID: id, Holder: Holder{Claim: "c", Origin: "core"}, Permit: fmt.Sprint("permit", from+i)})
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
