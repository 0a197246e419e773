package dispatch

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/outbox"
)

// rotating returns m1 of r two sets of keys. Active with an overlap that has passed: the
// older one has ended, and nothing has noted it yet.
func rotating(r *rig, active bool, overlap time.Duration, fresh outbox.MerchantKeys) {
	r.change(func(m *outbox.Merchant) {
		ok(m.Stage(fresh))
		if active {
			ok(m.Activate(overlap))
		}
	})
}

// TestTwoSetsOfKeys: whatever of both sets a merchant has, and answers with, its callbacks
// are settled without an attempt that counts, before and after the newer one seals.
func TestTwoSetsOfKeys(t *testing.T) {
	fresh, apart := mustKey(2048), mustKey(1024)
	type ends = []countersigntest.MerchantConfig
	older := countersigntest.MerchantConfig{Key: testPair().Public(), APIKey: testKey}
	newer := countersigntest.MerchantConfig{Key: fresh.Public(), APIKey: "api-new"}
	// answering returns both ends, which answer with key and apiKey.
	answering := func(key *envelope.Key, apiKey countersign.APIKey) (list ends) {
		for _, asked := range (ends{older, newer}) {
			list = append(list, countersigntest.MerchantConfig{RequestKey: asked.Key, Key: key, APIKey: apiKey})
		}
		return list
	}
	// demanding returns both ends, which take requests with this X-API-KEY.
	demanding := func(key countersign.APIKey) (list ends) {
		for _, c := range (ends{older, newer}) {
			c.CallbackAPIKey = key
			list = append(list, c)
		}
		return list
	}
	keys := outbox.MerchantKeys{APIKey: "api-new", CallbackAPIKey: "callback-new", Key: fresh}
	for _, c := range []struct {
		name           string
		has            ends
		staged, active int           // attempts that a callback needs
		response       *envelope.Key // the newer response key; nil: the request key
	}{
		{"both", ends{older, newer}, 1, 1, nil},
		{"only the older", ends{older}, 1, 2, nil},
		{"only the newer", ends{newer}, 2, 1, nil},
		{"both, answers under the older", answering(older.Key, older.APIKey), 1, 1, nil},
		{"both, answers under the newer", answering(newer.Key, newer.APIKey), 1, 1, nil},
		{"both, answers under the newer with the older API key", answering(newer.Key, older.APIKey), 1, 1, nil},
		{"the older X-API-KEY alone", demanding("callback-key"), 1, 2, nil},
		{"both, answers under a response key of its own", answering(apart.Public(), newer.APIKey), 1, 1, apart},
		{"the newer X-API-KEY alone", demanding("callback-new"), 2, 1, nil},
	} {
		for state, attempts := range []int{c.staged, c.active} {
			t.Run(fmt.Sprintf("%s, %s", c.name, []string{"staged", "active"}[state]), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil)
					with := keys
					with.ResponseKey = c.response
					rotating(r, state == 1, time.Hour, with)
					r.d.post = postTo(c.has...)
					r.start(t)
					synctest.Wait()
					began := time.Now()
					deposit, asked := r.addDeposit("m1", 1), r.addWithdrawal("m1", 1, time.Hour, false)
					synctest.Wait()
					r.stop()
					if took := time.Since(began); took != 0 {
						t.Errorf("it took %v", took)
					}
					for _, id := range []string{deposit, asked} {
						cb := r.callback(id)
						if a := r.attemptsOf(id); cb.State != client.CallbackAccepted || len(a) != attempts || cb.Failed != 0 {
							t.Errorf("%+v, %+v", cb, a)
						} else if attempts == 2 && a[0].Reason != client.ReasonKeyRefused {
							t.Errorf("%+v", a)
						}
					}
					if w := r.withdrawal(asked); w.State != client.WithdrawalConfirmed {
						t.Errorf("%+v", w)
					}
					for _, s := range r.settled {
						if !s.Reached || s.Alarm != "" {
							t.Errorf("it counts for the breaker, or raises an alarm: %+v", s)
						}
					}
				})
			})
		}
	}
}

// TestRefusedUnderBothKeys: a merchant that takes neither key gets two attempts for each of
// its schedule, and the alarm of one that takes none.
func TestRefusedUnderBothKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config, _ *rig) { c.Poll = time.Hour })
		rotating(r, true, 365*24*time.Hour, outbox.MerchantKeys{Key: mustKey(1024)})
		r.d.post = failing(refuses(int(countersign.CodeCannotOpen)))
		r.start(t)
		id := r.addDeposit("m1", 1)
		time.Sleep(70 * time.Hour)
		r.stop()
		c, a := r.callback(id), r.attemptsOf(id)
		if most := len(notifySchedule.Delays); c.State != client.CallbackExhausted || c.Failed != most || len(a) != 2*most {
			t.Errorf("%+v after %d attempts", c, len(a))
		}
		for i, x := range a {
			if want := []client.Reason{client.ReasonKeyRefused, client.ReasonNotUnderstood}[i%2]; x.Reason != want {
				t.Errorf("attempt %d: %+v", i, x)
			}
		}
		alarms := 0
		for _, s := range r.settled {
			if s.Alarm != "" {
				alarms++
			}
		}
		if alarms != len(a)/2 {
			t.Errorf("%d alarms", alarms)
		}
	})
}

// TestOlderKeysEnd: at the end of the overlap nothing is asked and nothing counts under the
// older keys any more, also before a sweep has noted it, and for a question under way.
func TestOlderKeysEnd(t *testing.T) {
	fresh := mustKey(1024)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		rotating(r, true, time.Minute, outbox.MerchantKeys{APIKey: "api-new", Key: fresh})
		var took, refused, slow atomic.Int64
		r.d.post = func(ctx context.Context, q request) Response {
			time.Sleep(time.Duration(slow.Load()))
			resp := r.honest(ctx, q) // the thief of the older keys reads what he can and answers that
			if resp.Status == 200 {
				took.Add(1)
			} else {
				refused.Add(1)
			}
			return resp
		}
		r.start(t)
		first := r.addDeposit("m1", 1)
		synctest.Wait()
		if c := r.callback(first); c.State != client.CallbackAccepted {
			t.Fatalf("within the overlap: %+v", c)
		}
		time.Sleep(55 * time.Second)
		slow.Store(int64(6 * time.Second)) // past its end
		under := r.addWithdrawal("m1", 2, time.Hour, true)
		time.Sleep(30 * time.Second)
		slow.Store(0)
		older, newer := took.Load(), refused.Load()
		late := r.addWithdrawal("m1", 3, time.Hour, true)
		time.Sleep(59 * time.Minute)
		r.stop()
		for _, id := range []string{under, late} {
			if w := r.withdrawal(id); w.State == client.WithdrawalConfirmed || w.Decision == countersign.DecisionDeclined {
				t.Errorf("%+v", w)
			}
		}
		if older, newer = took.Load()-older, refused.Load()-newer; older > 0 || newer == 0 {
			t.Errorf("asked under the older key %d times, under the newer one %d times", older, newer)
		}
	})
}

// TestKeysAreNoOracle: with one key or two, nonsense for either of them is one failure, whatever its
// size and whether its padding is right, and ten pause the merchant and raise the alarm.
func TestKeysAreNoOracle(t *testing.T) {
	pair, fresh := testPair(), mustKey(2048)
	seen := map[string]string{}
	for name, data := range map[string]string{"padding of the older": garbage(pair), "padding of the newer": garbage(fresh),
		"size of the older": zeros(128), "size of the newer": zeros(256)} {
		for _, keys := range []string{"one", "staged", "active"} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				if keys != "one" {
					rotating(r, keys == "active", 24*time.Hour, outbox.MerchantKeys{Key: fresh})
				}
				r.d.post = failing(answers(data))
				r.addDeposit("m1", 1)
				r.addWithdrawal("m1", 2, time.Hour, false)
				r.start(t)
				time.Sleep(20 * time.Minute)
				r.stop()
				var all strings.Builder
				for _, s := range r.settled[:outbox.OpenFailureLimit] {
					fmt.Fprintln(&all, s.State, s.Counts, s.Reached, s.Decision, s.Alarm, s.OpenFailure, s.Attempt.Result, s.Attempt.Reason, s.Attempt.ErrCode != nil)
				}
				fmt.Fprintln(&all, r.merchantM1().State, len(r.settled), strings.Count(r.log.String(), "kind=open_failures"))
				seen[name+", "+keys] = all.String()
			})
		}
	}
	first := ""
	for name, all := range seen {
		if first == "" {
			first = all
		}
		if all != first || !strings.Contains(all, "paused 10 1") || !strings.Contains(all, "data_unreadable") {
			t.Errorf("%s:\n%s\nanother:\n%s", name, all, first)
		}
	}
	// Right padding under the first key does not save the second opening, whose absence would show in time.
	sets := []*keySet{{openKey: pair}, {openKey: mustKey(1024)}}
	for name, data := range map[string]string{"right": garbage(pair), "wrong": zeros(128)} {
		opened := 0
		openAnswer(sets, envelope.Worker{Each: func(n int, f func(int)) error {
			for i := range n {
				f(i)
			}
			opened++
			return nil
		}}, countersign.TypeDeposited, data)
		if opened != 2 {
			t.Errorf("%s padding: opened under %d keys", name, opened)
		}
	}
}
