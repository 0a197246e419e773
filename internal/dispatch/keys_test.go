package dispatch

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/outbox"
)

// rotating returns m1 of r two sets of keys. Active with an overlap that has passed: the
// older one has ended, and nothing has noted it yet.
func rotating(r *rig, active bool, overlap time.Duration, fresh outbox.MerchantKeys) {
	r.change(func(m *outbox.Merchant) {
		must(m.Stage(fresh))
		if active {
			must(m.Activate(overlap))
		}
	})
}

// held is a merchant's end with some of the keys.
type held struct {
	opens  []*testMerchant           // the first that opens a request answers it
	seals  func(*testMerchant)       // the one that answers, to be changed; nil: as it is
	checks func(r request) *Response // nil: takes every request
}

func (h held) post(_ context.Context, r request) Response {
	if h.checks != nil {
		if resp := h.checks(r); resp != nil {
			return *resp
		}
	}
	for _, m := range h.opens {
		cb, err := m.open(r.body)
		if err != nil {
			continue
		}
		by := *m
		if h.seals != nil {
			h.seals(&by)
		}
		plaintext, err := by.answer(cb)
		must(err)
		body, err := by.seal(plaintext)
		must(err)
		return Response{Status: 200, Body: body}
	}
	return Response{Status: 400, Page: h.opens[0].fail(countersign.CodeCannotOpen)}
}

// TestTwoSetsOfKeys: whatever of both sets a merchant has, and answers with, its callbacks
// are settled without an attempt that counts, before and after the newer one seals.
func TestTwoSetsOfKeys(t *testing.T) {
	pair, fresh, apart := testPair(), mustKey(2048), mustKey(1024)
	older, newer := newTestMerchant(pair), newTestMerchant(fresh)
	newer.apiKey = "api-new"
	keys := outbox.MerchantKeys{APIKey: "api-new", CallbackAPIKey: "callback-new", Key: fresh}
	with := func(key string) func(request) *Response {
		return func(r request) *Response {
			if r.apiKey.Reveal() != key {
				return &Response{Status: 401}
			}
			return nil
		}
	}
	for _, c := range []struct {
		name           string
		m              held
		staged, active int           // attempts that a callback needs
		response       *envelope.Key // the newer response key; nil: the request key
	}{
		{"both", held{opens: []*testMerchant{older, newer}}, 1, 1, nil},
		{"only the older", held{opens: []*testMerchant{older}}, 1, 2, nil},
		{"only the newer", held{opens: []*testMerchant{newer}}, 2, 1, nil},
		{"both, answers under the older", held{opens: []*testMerchant{older, newer}, seals: func(m *testMerchant) { m.key, m.apiKey = older.key, older.apiKey }}, 1, 1, nil},
		{"both, answers under the newer", held{opens: []*testMerchant{older, newer}, seals: func(m *testMerchant) { m.key, m.apiKey = newer.key, newer.apiKey }}, 1, 1, nil},
		{"both, answers under the newer with the older API key", held{opens: []*testMerchant{older, newer}, seals: func(m *testMerchant) { m.key, m.apiKey = newer.key, older.apiKey }}, 1, 1, nil},
		{"the older X-API-KEY alone", held{opens: []*testMerchant{older, newer}, checks: with("callback-key")}, 1, 2, nil},
		{"both, answers under a response key of its own", held{opens: []*testMerchant{older, newer}, seals: func(m *testMerchant) { m.key, m.apiKey = apart.Public(), newer.apiKey }}, 1, 1, apart},
		{"the newer X-API-KEY alone", held{opens: []*testMerchant{older, newer}, checks: with("callback-new")}, 2, 1, nil},
	} {
		for state, attempts := range []int{c.staged, c.active} {
			t.Run(fmt.Sprintf("%s, %s", c.name, []string{"staged", "active"}[state]), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil)
					with := keys
					with.ResponseKey = c.response
					rotating(r, state == 1, time.Hour, with)
					r.d.post = c.m.post
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
		r.d.post = failing(Response{Status: 200, Body: r.merchant.fail(countersign.CodeCannotOpen)})
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
	pair, fresh := testPair(), mustKey(1024)
	older := newTestMerchant(pair)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		rotating(r, true, time.Minute, outbox.MerchantKeys{APIKey: "api-new", Key: fresh})
		asked := map[bool]int{}
		slow := time.Duration(0)
		var mu sync.Mutex
		r.d.post = func(ctx context.Context, q request) Response {
			mu.Lock()
			wait := slow
			mu.Unlock()
			time.Sleep(wait)
			_, err := older.open(q.body)
			mu.Lock()
			asked[err == nil]++
			mu.Unlock()
			// The thief of the older keys reads what he can and answers everything.
			if err != nil {
				return Response{Status: 400}
			}
			return older.post(ctx, q)
		}
		r.start(t)
		first := r.addDeposit("m1", 1)
		synctest.Wait()
		if c := r.callback(first); c.State != client.CallbackAccepted {
			t.Fatalf("within the overlap: %+v", c)
		}
		time.Sleep(55 * time.Second)
		mu.Lock()
		slow = 6 * time.Second // past its end
		mu.Unlock()
		under := r.addWithdrawal("m1", 2, time.Hour, true)
		time.Sleep(30 * time.Second)
		mu.Lock()
		slow, asked = 0, map[bool]int{}
		mu.Unlock()
		late := r.addWithdrawal("m1", 3, time.Hour, true)
		time.Sleep(59 * time.Minute)
		r.stop()
		for _, id := range []string{under, late} {
			if w := r.withdrawal(id); w.State == client.WithdrawalConfirmed || w.Decision == countersign.DecisionDeclined {
				t.Errorf("%+v", w)
			}
		}
		if asked[true] > 0 || asked[false] == 0 {
			t.Errorf("asked under the older key %d times, under the newer one %d times", asked[true], asked[false])
		}
	})
}

// TestKeysAreNoOracle: with one key or two, nonsense for either of them is one failure, whatever its
// size and whether its padding is right, and ten pause the merchant and raise the alarm.
func TestKeysAreNoOracle(t *testing.T) {
	pair, fresh := testPair(), mustKey(2048)
	respond := func(data []byte) Response {
		b, err := countersign.Response{APIKey: testKey, Data: string(data)}.Marshal()
		must(err)
		return Response{Status: 200, Body: b}
	}
	seal := func(k *envelope.Key) []byte {
		b, err := envelope.Seal(k.Public(), envelope.PKCS1v15, []byte("\x17garbage\xff"))
		must(err)
		return b
	}
	bad := func(size int) []byte {
		return []byte(base64.StdEncoding.EncodeToString(make([]byte, size)))
	}
	seen := map[string]string{}
	for name, answer := range map[string]Response{
		"padding of the older": respond(seal(pair)), "padding of the newer": respond(seal(fresh)),
		"size of the older": respond(bad(128)), "size of the newer": respond(bad(256)),
	} {
		for _, keys := range []string{"one", "staged", "active"} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				if keys != "one" {
					rotating(r, keys == "active", 24*time.Hour, outbox.MerchantKeys{Key: fresh})
				}
				r.d.post = failing(answer)
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
	for name, data := range map[string][]byte{"right": seal(pair), "wrong": bad(128)} {
		opened := 0
		openAnswer(sets, envelope.Worker{Each: func(n int, f func(int)) error {
			for i := range n {
				f(i)
			}
			opened++
			return nil
		}}, countersign.TypeDeposited, string(data))
		if opened != 2 {
			t.Errorf("%s padding: opened under %d keys", name, opened)
		}
	}
}
