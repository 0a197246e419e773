package db_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// TestPurgeChangesNoAnswer: whatever is said to a service, in whatever order, one that
// purges answers as one that keeps everything.
func TestPurgeChangesNoAnswer(t *testing.T) {
	var ends [2]*outbox.Outbox
	seen := [2]map[string]string{{}, {}} // ids by their first name
	for i := range ends {
		ends[i] = outbox.New(open(t, filepath.Join(t.TempDir(), "end.db"), outbox.End()))
	}
	purger := must(outbox.NewPurger(config(ends[1].DB)))(t)
	now, run := start, 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		merchant := fmt.Sprint("shop", run) // opening databases takes long, so all runs share them
		for _, o := range ends {
			if _, err := o.CreateMerchant(ctx, outbox.Merchant{
				KeySet: outbox.KeySet{MerchantKeys: outbox.MerchantKeys{APIKey: "api-key-of-shop", Key: testPair()}}, ID: merchant,
				Scheme:           client.SchemeService,
				MerchantSettings: client.MerchantSettings{NotifyURL: "https://m.example/n", WithdrawURL: "https://m.example/w", Concurrency: 1000},
			}, 1); err != nil {
				r.Fatal(err)
			}
		}
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
		for range rapid.IntRange(5, 25).Draw(r, "steps") {
			op := rapid.SampledFrom([]string{"ingest", "ingest", "ingest", "settle", "settle", "purge", "purge", "withdraw", "release", "outcome", "resend", "stats"}).Draw(r, "op")
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "key")
			content := rapid.SampledFrom([]string{"", "", "other"}).Draw(r, "content")
			state := rapid.SampledFrom([]client.CallbackState{client.CallbackAccepted, client.CallbackAccepted, client.CallbackPending, client.CallbackRefused, client.CallbackExhausted}).Draw(r, "state")
			typ := rapid.SampledFrom([]countersign.Type{countersign.TypeDeposited, countersign.TypeDeposited, countersign.TypeAddress}).Draw(r, "type")
			now += db.Millis(rapid.SampledFrom([]int64{1, int64(day), 50 * int64(day), 100 * int64(day)}).Draw(r, "passes"))
			var answers [2]string
			for i, o := range ends {
				switch op {
				case "ingest":
					n := deposit(key)
					n.Merchant, n.Type, n.Due, n.Payload = merchant, typ, now, append(n.Payload, content...)
					twice := n
					twice.EventID = key + "2"
					in, err := o.Ingest(ctx, []outbox.NewCallback{n, twice, n}, now)
					answers[i] = clash(err)
					for _, d := range in {
						answers[i] += fmt.Sprint(" ", name(i, d.ID), d.State, d.Duplicate)
					}
				case "settle":
					for _, lane := range []countersign.Lane{countersign.LaneNotify, countersign.LaneWithdraw} {
						claimed, err := o.Claim(ctx, outbox.ClaimRequest{Lane: lane, Now: now, LeaseUntil: now + 1000, Max: 100})
						if err != nil {
							r.Fatal(err)
						}
						var list []outbox.Settlement
						for _, c := range claimed {
							s := outbox.Settlement{Merchant: c.Merchant, CallbackID: c.ID, State: state, Due: now + 10, Reached: true,
								MerchantVersion: c.MerchantVersion, Attempt: outbox.Attempt{Attempt: client.Attempt{Number: c.Attempt, RequestUUID: fmt.Sprint(c.EventID, c.Attempt), Started: now, Result: "x", Reason: "x"}}}
							if c.Type == countersign.TypeRequestWithdraw && state == client.CallbackAccepted {
								s.Decision, s.Details = countersign.DecisionConfirmed, *c.Withdrawal.Ordered
							}
							list = append(list, s)
							answers[i] += fmt.Sprint(" ", name(i, c.ID), c.Attempt)
						}
						if _, err := o.Settle(ctx, list, now); err != nil {
							r.Fatal(err)
						}
					}
				case "purge":
					if i == 1 {
						purgeAll(t, purger, now)
					}
					if _, err := o.Sweep(ctx, now); err != nil {
						r.Fatal(err)
					}
				case "withdraw":
					amount, _ := countersign.ParseAmount("1" + map[string]string{"other": "1"}[content])
					w, duplicate, err := createOne(ctx, o, outbox.NewWithdrawal{Merchant: merchant, CallBackID: key, TenantUserID: "u", TrackingID: key, Deadline: now + 2*day,
						Details: &client.Details{Address: "T", ChainName: "c", Symbol: "s", Amount: amount}, Payload: []byte("{}")}, now)
					answers[i] = fmt.Sprint(clash(err), duplicate, w.State)
				case "release", "outcome":
					w, err := o.WithdrawalByCallBackID(ctx, merchant, key)
					if err != nil {
						answers[i] = err.Error()
						break
					}
					if op == "release" {
						p, err := releaseOne(ctx, o, w.ID, outbox.Holder{Claim: "core" + content, Origin: "core"}, "permit-"+key, now)
						answers[i] = fmt.Sprint(clash(err), p.Permit, p.Duplicate)
						break
					}
					w, duplicate, err := recordOne(ctx, o, w.ID, outbox.Outcome{Permit: "permit-" + key, TxID: "0x" + content,
						Callback: outbox.NewCallback{Merchant: merchant, Type: countersign.TypeWithdraw, Payload: []byte("{}"), Due: now}}, now)
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
