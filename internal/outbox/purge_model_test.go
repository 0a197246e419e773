package outbox

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// TestPurgeChangesNoAnswer: whatever is said to a service, in whatever order, one that purges answers as one that keeps
// everything.
func TestPurgeChangesNoAnswer(t *testing.T) {
	ends := [2]*Outbox{openAt(t, dialects[0].url(t)), openAt(t, dialects[0].url(t))} // opening takes long: all runs share them
	seen := [2]map[string]string{{}, {}}                                             // ids by their first name
	name := func(end int, id string) string {
		if seen[end][id] == "" {
			seen[end][id] = fmt.Sprint("id-", len(seen[end]))
		}
		return seen[end][id]
	}
	clash := func(err error) string {
		if err == nil || errors.Is(err, db.ErrConflict) {
			return fmt.Sprint(err)
		}
		return "failed: " + err.Error()
	}
	purger := newPurger(t, ends[1])
	now, run := 20_000*dayOf, 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		merchant := fmt.Sprint("shop", run)
		for _, o := range ends {
			if _, err := o.CreateMerchant(ctx, newMerchant(merchant), 1); err != nil {
				r.Fatal(err)
			}
		}
		for range rapid.IntRange(5, 25).Draw(r, "steps") {
			op := rapid.SampledFrom([]string{"ingest", "ingest", "ingest", "settle", "settle", "purge", "purge", "withdraw", "release", "outcome", "resend", "stats"}).Draw(r, "op")
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "key")
			content := rapid.SampledFrom([]string{"", "", "other"}).Draw(r, "content")
			state := rapid.SampledFrom([]client.CallbackState{client.CallbackAccepted, client.CallbackAccepted, client.CallbackPending, client.CallbackRefused, client.CallbackExhausted}).Draw(r, "state")
			typ := rapid.SampledFrom([]countersign.Type{countersign.TypeDeposited, countersign.TypeDeposited, countersign.TypeAddress}).Draw(r, "type")
			now += db.Millis(rapid.SampledFrom([]int64{1, int64(dayOf), 50 * int64(dayOf), 100 * int64(dayOf)}).Draw(r, "passes"))
			var answers [2]string
			for i, o := range ends {
				switch op {
				case "ingest":
					n := deposit(merchant, key, now)
					n.Type, n.Payload = typ, append(n.Payload, content...)
					twice := n
					twice.EventID = key + "2"
					in, err := o.Ingest(ctx, []NewCallback{n, twice, n}, now)
					answers[i] = clash(err)
					for _, d := range in {
						answers[i] += fmt.Sprint(" ", name(i, d.ID), d.State, d.Duplicate)
					}
				case "settle":
					for _, lane := range []countersign.Lane{countersign.LaneNotify, countersign.LaneWithdraw} {
						var list []Settlement
						for _, c := range must(o.Claim(ctx, ClaimRequest{Lane: lane, Now: now, LeaseUntil: now + 1000, Max: 100}))(t) {
							n := settlementOf(c)
							if n.State, n.Due = state, now+10; c.Withdrawal != nil && state == client.CallbackAccepted {
								n = answer(c, countersign.DecisionConfirmed, c.Withdrawal.Ordered)
							}
							list = append(list, n)
							answers[i] += fmt.Sprint(" ", name(i, c.ID), c.Attempt)
						}
						must(o.Settle(ctx, list, now))(t)
					}
				case "purge":
					if i == 1 {
						purge(t, purger, now)
					}
					must(o.Sweep(ctx, now))(t)
				case "withdraw":
					n := newWithdrawal(key, now+2*dayOf, someDetails(t, "1"+map[string]string{"other": "1"}[content]))
					n.Merchant = merchant
					w, duplicate, err := o.CreateWithdrawal(ctx, n, now)
					answers[i] = fmt.Sprint(clash(err), duplicate, w.State)
				case "release", "outcome":
					w, err := o.WithdrawalByCallBackID(ctx, merchant, key)
					if err != nil {
						answers[i] = err.Error()
						break
					}
					if op == "release" {
						p, err := o.Release(ctx, w.ID, Holder{Claim: "core" + content, Origin: "core"}, "permit-"+key, now)
						answers[i] = fmt.Sprint(clash(err), p.Permit, p.Duplicate)
						break
					}
					w, duplicate, err := o.RecordOutcome(ctx, w.ID, executedBy(w, "permit-"+key, "0x"+content, now), now)
					answers[i] = fmt.Sprint(clash(err), duplicate, w.State)
				case "resend":
					n, err := o.ResendMatching(ctx, nil, client.CallbackFilter{Merchant: merchant}, false, now)
					answers[i] = fmt.Sprint(n, err)
				case "stats":
					s, err := o.Stats(ctx)
					answers[i] = fmt.Sprint(s.Lanes, s.Withdrawals, err)
				}
			}
			if answers[0] != answers[1] {
				r.Fatalf("%s of %s: without a purge\n%s\nwith one\n%s", op, key, answers[0], answers[1])
			}
		}
	})
}
