package dispatch

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// rig is a Dispatcher over a fake outbox, without a network, to be used inside a
// synctest bubble: its clock moves when everything waits.
type rig struct {
	*fakeOutbox
	d        *Dispatcher
	merchant *testMerchant
	log      *syncBuffer
	cancel   context.CancelFunc
	done     chan struct{}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

type poster = func(context.Context, request) Response

func newRig(t *testing.T, change func(*Config, *rig)) *rig {
	t.Helper()
	pair := testPair()
	r := &rig{
		fakeOutbox: newFakeOutbox(t, testStoreMerchant("m1", pair, "https://m1.example"), testStoreMerchant("m2", pair, "https://m2.example")),
		merchant:   newTestMerchant(pair), log: new(syncBuffer), done: make(chan struct{}),
	}
	c := Config{Outbox: r.fakeOutbox, Node: "node-1", Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})), RSA: 2}
	post := r.merchant.post
	if change != nil {
		change(&c, r)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	d.post = post
	r.d = d
	return r
}

func (r *rig) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() {
		defer close(r.done)
		if err := r.d.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
}

func (r *rig) stop() {
	r.cancel()
	<-r.done
}

// failing posts nothing and gives the same response every time.
func failing(resp Response) poster {
	return func(context.Context, request) Response { return resp }
}

func TestDepositAndWithdrawal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.start(t)
		synctest.Wait()
		deposit := r.addDeposit("m1", 1)
		ordered := r.addWithdrawal("m1", 1, time.Hour, true)
		open := r.addWithdrawal("m2", 2, time.Hour, false)
		synctest.Wait() // no clock moved: the wake-up was enough

		if c := r.callback(deposit); c.State != client.CallbackAccepted || c.LastReason != "accepted" {
			t.Errorf("deposit: %+v", c)
		}
		for _, id := range []string{ordered, open} {
			w := r.withdrawal(id)
			if w.State != client.WithdrawalConfirmed || w.Details == nil || countersign.Details(*w.Details).Differs(testDetails()) != "" {
				t.Errorf("withdrawal: %+v", w)
			}
		}
		a := r.attemptsOf(deposit)
		if len(a) != 1 || a[0].Number != 1 || a[0].HTTPStatus != 200 || a[0].ErrCode == nil || *a[0].ErrCode != 0 ||
			a[0].Result != "accepted" || len(a[0].RequestHash) != 64 || len(a[0].ResponseHash) != 64 ||
			len(a[0].RequestUUID) != 36 || a[0].Node != "node-1" {
			t.Errorf("attempts: %+v", a)
		}
		r.stop()
		if n := strings.Count(r.log.String(), "msg=attempt"); n != 3 {
			t.Errorf("%d lines for 3 attempts:\n%s", n, r.log)
		}
	})
}

func TestEveryTypeIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.start(t)
		var ids []string
		for i, cb := range []countersign.Callback{
			&countersign.WithdrawalDone{Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: "t3", TenantUserID: "u"}, CallBackID: "c", TxID: "x"},
			&countersign.AddressChange{Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TenantUserID: "u"}, NewAddress: "n"},
			&countersign.WithdrawalEnded{Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: "t5", TenantUserID: "u"}, CallBackID: "c"},
			&countersign.WithdrawalNotice{Type: 6, Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: "t6", TenantUserID: "u"}, CallBackID: "c"},
			&countersign.WithdrawalNotice{Type: 7, Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: "t7", TenantUserID: "u"}, CallBackID: "c"},
		} {
			payload, err := cb.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.add(outbox.NewCallback{Merchant: "m1", Type: cb.CallbackType(), EventID: fmt.Sprint(i), Payload: payload,
				Deadline: db.Never}, nil))
		}
		synctest.Wait()
		for _, id := range ids {
			if c := r.callback(id); c.State != client.CallbackAccepted {
				t.Errorf("type %d: %s %s", c.Type, c.State, c.LastReason)
			}
		}
		r.stop()
	})
}

// waits checks that attempts began after the delays given, up to a tenth later.
func waits(t *testing.T, created db.Millis, attempts []outbox.Attempt, delays []time.Duration) {
	t.Helper()
	if len(attempts) < len(delays) {
		t.Fatalf("%d attempts, want %d", len(attempts), len(delays))
	}
	from := created
	for i, d := range delays {
		got := (attempts[i].Started - from).Time().Sub(db.Millis(0).Time())
		if got < d || got > d+d/10+20*time.Millisecond {
			t.Errorf("attempt %d began %v after the one before, want %v", i+1, got, d)
		}
		from = attempts[i].Started + db.Millis(attempts[i].Duration.Milliseconds())
	}
}

func TestDepositScheduleEndsExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config, _ *rig) { c.Poll = time.Hour })
		r.d.post = failing(Response{Status: 200, Body: r.merchant.fail(countersign.CodeInternal)})
		r.start(t)
		id := r.addDeposit("m1", 1)
		time.Sleep(100 * time.Hour)
		c := r.callback(id)
		if c.State != client.CallbackExhausted || c.Attempt != 12 || c.LastReason != client.ReasonMerchantFailure {
			t.Errorf("%+v", c)
		}
		waits(t, c.Created, r.attemptsOf(id), notifySchedule.Delays)
		r.stop()
	})
}

func TestOwnScheduleIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(_ *Config, r *rig) {
			m := r.merchants["m1"]
			m.Retry = &client.Retry{Notify: ownSchedule(0, 0, 1000, 3000)}
			r.merchants["m1"] = m
		})
		r.d.post = failing(Response{Status: 200, Body: r.merchant.fail(4711)})
		r.start(t)
		id := r.addDeposit("m1", 1)
		time.Sleep(time.Minute)
		if c := r.callback(id); c.State != client.CallbackExhausted || c.Attempt != 3 {
			t.Errorf("%+v", c)
		}
		waits(t, r.callback(id).Created, r.attemptsOf(id), []time.Duration{0, time.Second, 3 * time.Second})
		r.stop()
	})
}

func TestWithdrawalIsAskedUntilItsDeadlineAndExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.d.post = failing(Response{Status: 200, Body: r.merchant.fail(countersign.CodeInternal)})
		r.start(t)
		id := r.addWithdrawal("m1", 1, 5*time.Minute, true)
		time.Sleep(5*time.Minute + 10*time.Second)
		w, c, attempts := r.withdrawal(id), r.callback(id), r.attemptsOf(id)
		if w.State != client.WithdrawalExpired || w.Details != nil || c.State != client.CallbackExhausted {
			t.Errorf("%+v %+v", w, c)
		}
		waits(t, c.Created, attempts, append(withdrawSchedule.Delays, time.Minute, time.Minute))
		// The last one takes its chance a little before the end.
		last := attempts[len(attempts)-1]
		if left := w.Deadline - last.Started; left <= 0 || left > 60_000 {
			t.Errorf("last attempt %d ms before the deadline", left)
		}
		r.stop()
	})
}

func TestHoldsCostNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var asked atomic.Int64
		r.d.post = func(ctx context.Context, q request) Response {
			if asked.Add(1) <= 40 {
				return Response{Status: 200, Body: r.merchant.fail(countersign.CodeAwaitingApproval)}
			}
			return r.merchant.post(ctx, q)
		}
		r.start(t)
		id := r.addWithdrawal("m1", 1, time.Hour, true)
		time.Sleep(50 * time.Minute)
		c, attempts := r.callback(id), r.attemptsOf(id)
		if c.State != client.CallbackAccepted || c.Failed != 0 || c.Attempt != 41 || r.withdrawal(id).State != client.WithdrawalConfirmed {
			t.Errorf("%+v", c)
		}
		waits(t, c.Created, attempts, []time.Duration{0, 5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute})
		r.stop()
	})
}

// A merchant that answers 3001 for a month is asked some fifty times, and a person
// hears of the end.
func TestDepositHoldsEndWithTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config, _ *rig) { c.Poll = time.Hour })
		r.d.post = failing(Response{Status: 200, Body: r.merchant.fail(countersign.CodeAwaitingApproval)})
		r.start(t)
		id := r.addDeposit("m1", 1)
		time.Sleep(30 * 24 * time.Hour)
		c, attempts := r.callback(id), r.attemptsOf(id)
		if c.State != client.CallbackExhausted || c.Failed != 0 || c.LastReason != client.ReasonMerchantHold || len(attempts) > 60 {
			t.Errorf("%+v after %d attempts", c, len(attempts))
		}
		waits(t, c.Created, attempts, append([]time.Duration{0}, append(notifyHolds, time.Hour, time.Hour)...))
		if took := (attempts[len(attempts)-1].Started - c.Created).Time().Sub(db.Millis(0).Time()); took < 51*time.Hour || took > 57*time.Hour {
			t.Errorf("the last attempt came after %v", took)
		}
		r.stop()
		if len(r.alarms) != 1 || r.alarms[0] != client.AlarmExhausted || strings.Count(r.log.String(), "kind=exhausted") != 1 {
			t.Errorf("alarms %v", r.alarms)
		}
	})
}

func TestBreakerSparesADeadMerchantAndTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var dead, alive atomic.Int64
		var up atomic.Bool
		r.d.post = func(ctx context.Context, q request) Response {
			if q.url.Host == "m1.example" && !up.Load() {
				dead.Add(1)
				return Response{Failure: client.ReasonConnect}
			}
			alive.Add(1)
			return r.merchant.post(ctx, q)
		}
		for i := range 100 {
			r.addDeposit("m1", i)
		}
		for i := range 20 {
			r.addDeposit("m2", 1000+i)
		}
		r.start(t)
		time.Sleep(time.Second)
		if alive.Load() != 20 {
			t.Errorf("%d of 20 of the living merchant", alive.Load())
		}
		first := dead.Load()
		time.Sleep(10 * time.Minute)
		// Half open, one at a time, at most every minute once it has opened wide.
		if n := dead.Load() - first; n < 5 || n > 20 {
			t.Errorf("%d exchanges with a dead merchant in ten minutes", n)
		}
		for _, a := range r.alarms {
			t.Errorf("alarm %s", a)
		}
		up.Store(true)
		time.Sleep(2 * time.Hour)
		r.mu.Lock()
		for _, c := range r.callbacks {
			if c.State != client.CallbackAccepted {
				t.Errorf("%s is %s after %d attempts", c.ID, c.State, c.Attempt)
			}
		}
		r.mu.Unlock()
		r.stop()
	})
}

func TestExchangeHasOneDeadlineAndCallbacksOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var mu sync.Mutex
		flying := map[string]int{}
		r.d.post = func(ctx context.Context, q request) Response {
			cb, err := r.merchant.open(q.body)
			if err != nil {
				t.Error(err)
				return Response{}
			}
			mu.Lock()
			if flying[cb.EventID()]++; flying[cb.EventID()] > 1 {
				t.Errorf("%s is in two attempts", cb.EventID())
			}
			mu.Unlock()
			start := time.Now()
			<-ctx.Done() // a merchant that hangs
			if took := time.Since(start); took != 15*time.Second {
				t.Errorf("exchange took %v", took)
			}
			mu.Lock()
			flying[cb.EventID()]--
			mu.Unlock()
			return Response{Failure: classify(ctx, ctx.Err())}
		}
		for i := range 20 {
			r.addDeposit("m1", i)
		}
		r.start(t)
		time.Sleep(time.Hour)
		r.stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.late) != 0 || len(r.settled) < 20 {
			t.Errorf("%d settled, %d late", len(r.settled), len(r.late))
		}
		for _, s := range r.settled {
			if s.Attempt.Reason != client.ReasonTimeout && s.Attempt.Reason != client.ReasonStopped || s.Attempt.HTTPStatus != 0 {
				t.Errorf("%+v", s.Attempt)
			}
		}
	})
}

func TestWithdrawalExchangeEndsWithItsDeadline(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration // when the merchant answers
		state client.WithdrawalState
	}{
		{"just in time", 3*time.Second - time.Millisecond, client.WithdrawalConfirmed},
		{"at the deadline", 3 * time.Second, client.WithdrawalExpired},
		{"later", 4 * time.Second, client.WithdrawalExpired},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				var cut atomic.Bool
				r.d.post = func(ctx context.Context, q request) Response {
					resp := r.merchant.post(ctx, q)
					time.Sleep(test.after) // and does not even mind ctx
					cut.Store(ctx.Err() != nil)
					return resp
				}
				r.start(t)
				id := r.addWithdrawal("m1", 1, 3*time.Second, true)
				time.Sleep(time.Minute)
				w := r.withdrawal(id)
				if w.State != test.state || (w.Details != nil) != (test.state == client.WithdrawalConfirmed) {
					t.Errorf("%+v", w)
				}
				if late := test.after > 3*time.Second; test.after != 3*time.Second && cut.Load() != late {
					t.Errorf("exchange cut: %v", cut.Load())
				}
				r.stop()
			})
		})
	}
}

func TestLanesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config, _ *rig) { c.Width = 4 })
		r.d.post = func(ctx context.Context, q request) Response {
			if strings.HasSuffix(q.url.Path, "/notify") {
				<-ctx.Done()
				return Response{Failure: client.ReasonTimeout}
			}
			return r.merchant.post(ctx, q)
		}
		for i := range 50 {
			r.addDeposit("m1", i)
		}
		r.start(t)
		time.Sleep(time.Second)
		id := r.addWithdrawal("m1", 1, time.Hour, true)
		synctest.Wait()
		if w := r.withdrawal(id); w.State != client.WithdrawalConfirmed {
			t.Errorf("%+v", w)
		}
		r.stop()
	})
}

// A database that fails, having done what was asked or not, loses nothing and
// does nothing twice.
func TestOutboxFailures(t *testing.T) {
	for _, method := range []string{"claim", "settle", "nextdue", "sweep", "merchant"} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s done %v", method, done), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil)
					failures := 0
					r.fault = func(m string, d bool) bool {
						if m != method || d != done || failures == 5 {
							return false
						}
						failures++
						return true
					}
					r.start(t)
					ids := []string{r.addDeposit("m1", 1), r.addDeposit("m2", 2), r.addWithdrawal("m1", 3, time.Hour, true)}
					time.Sleep(30 * time.Minute)
					r.stop()
					if failures != 5 {
						t.Errorf("failed %d times", failures)
					}
					for _, id := range ids {
						if c := r.callback(id); c.State != client.CallbackAccepted {
							t.Errorf("%+v", c)
						}
						accepted := 0
						for _, s := range r.settled {
							if s.CallbackID == id && s.State == client.CallbackAccepted {
								accepted++
							}
						}
						if accepted != 1 {
							t.Errorf("%s accepted %d times", id, accepted)
						}
					}
				})
			})
		}
	}
}

// A database that stays away costs the lease and nothing more.
func TestSettlementThatNeverSucceedsIsLostAndComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		away := true
		r.fault = func(m string, _ bool) bool { return away && m == "settle" }
		r.start(t)
		id := r.addDeposit("m1", 1)
		time.Sleep(2 * time.Minute)
		r.mu.Lock()
		away = false
		r.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if c := r.callback(id); c.State != client.CallbackAccepted || c.Failed != 0 || c.Attempt < 2 {
			t.Errorf("%+v", c)
		}
		r.stop()
		if !strings.Contains(r.log.String(), "lease lost") {
			t.Error("nobody said that a lease was lost")
		}
	})
}

func TestOneSenselessSettlementDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var ids []string
		for i := range 20 {
			ids = append(ids, r.addDeposit("m1", i))
		}
		r.senseless = ids[7]
		r.start(t)
		time.Sleep(30 * time.Second)
		r.stop()
		for i, id := range ids {
			if c := r.callback(id); (c.State == client.CallbackAccepted) == (i == 7) {
				t.Errorf("%d: %+v", i, c)
			}
		}
	})
}

func TestPanicCostsOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var calls atomic.Int64
		r.d.post = func(ctx context.Context, q request) Response {
			if calls.Add(1) == 1 {
				panic("secret of the merchant")
			}
			return r.merchant.post(ctx, q)
		}
		r.start(t)
		id := r.addDeposit("m1", 1)
		time.Sleep(time.Minute)
		r.stop()
		if c, a := r.callback(id), r.attemptsOf(id); c.State != client.CallbackAccepted || len(a) != 2 || a[0].Reason != client.ReasonInternal {
			t.Errorf("%+v %+v", c, a)
		}
		if strings.Contains(r.log.String(), "secret of") {
			t.Error("the panic's value is in the log")
		}
	})
}

func TestNewKeyIsUsedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.start(t)
		first := r.addDeposit("m1", 1)
		synctest.Wait()
		other := mustKey(1024)
		r.mu.Lock()
		m := r.merchants["m1"]
		m.Key, m.Version = other, 2
		r.merchants["m1"] = m
		r.mu.Unlock()
		r.merchant.key = other.Public()
		second := r.addDeposit("m1", 2)
		synctest.Wait()
		for _, id := range []string{first, second} {
			if c := r.callback(id); c.State != client.CallbackAccepted {
				t.Errorf("%+v", c)
			}
		}
		r.stop()
	})
}

func TestOpenFailuresPauseTheMerchant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		block := base64.StdEncoding.EncodeToString(append([]byte{0}, bytes.Repeat([]byte{7}, 127)...))
		body, err := countersign.Response{APIKey: testKey, Data: block}.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		r.d.post = failing(Response{Status: 200, Body: body})
		for i := range 30 {
			r.addWithdrawal("m1", i, time.Hour, true)
		}
		r.start(t)
		time.Sleep(2 * time.Minute)
		r.stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.merchants["m1"].State != client.MerchantPaused || len(r.settled) < outbox.OpenFailureLimit {
			t.Errorf("%s after %d", r.merchants["m1"].State, len(r.settled))
		}
		for _, s := range r.settled {
			// One outcome, one reason, nothing that depends on the block.
			reason := client.ReasonDataUnreadable
			if !s.OpenFailure {
				reason = client.ReasonNotOpened // too many had failed before
			}
			if s.Attempt.Reason != reason || !s.Counts || !s.Reached || s.Decision != "" {
				t.Errorf("%+v", s)
			}
		}
		if !strings.Contains(r.log.String(), "kind=open_failures") {
			t.Error("no alarm")
		}
	})
}

func TestRetriesShareBlocksAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var bodies [][]byte
		r.d.post = func(ctx context.Context, q request) Response {
			bodies = append(bodies, q.body)
			cb, err := r.merchant.open(q.body) // bound and whole every time
			if err != nil {
				t.Error(err)
				return Response{}
			}
			if len(bodies) == 4 {
				return r.merchant.post(ctx, q)
			}
			_ = cb
			return Response{Status: 200, Body: r.merchant.fail(countersign.CodeInternal)}
		}
		r.start(t)
		id := r.addDeposit("m1", 1)
		time.Sleep(time.Hour)
		r.stop()
		if c := r.callback(id); c.State != client.CallbackAccepted || len(bodies) != 4 {
			t.Fatalf("%+v after %d", c, len(bodies))
		}
		uuids := map[string]bool{}
		for _, a := range r.attemptsOf(id) {
			uuids[a.RequestUUID] = true
		}
		if len(uuids) != 4 {
			t.Errorf("%d requestUUIDs in 4 attempts", len(uuids))
		}
		if !bytes.Equal(bodies[0][:300], bodies[3][:300]) || bytes.Equal(bodies[0], bodies[3]) {
			t.Error("attempts do not share their first blocks alone")
		}
	})
}

func TestNothingSecretIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(_ *Config, r *rig) {
			m := r.merchants["m1"]
			m.NotifyURL += "?token=hunter2"
			r.merchants["m1"] = m
		})
		r.d.post = failing(Response{Status: 200, Body: []byte(`{"apiKey":"not-yours-key","errCode":0,"data":"x","message":"their message"}`)})
		r.start(t)
		r.addDeposit("m1", 1)
		r.addWithdrawal("m1", 1, time.Minute, true)
		time.Sleep(10 * time.Minute)
		r.stop()
		log := r.log.String()
		for _, secret := range []string{testKey.Reveal(), "callback-key", "not-yours-key", "their message", "hunter2",
			testPair().PublicBase64()[:40], "TFrom", "user-1"} {
			if strings.Contains(log, secret) {
				t.Errorf("the log holds %q", secret)
			}
		}
		if !strings.Contains(log, "reason=wrong_api_key") || !strings.Contains(log, "kind=answer_unusable") {
			t.Errorf("log:\n%s", log)
		}
	})
}

func TestNew(t *testing.T) {
	ok := Config{Outbox: newFakeOutbox(t), Node: "n"}
	if _, err := New(ok); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no outbox":          func(c *Config) { c.Outbox = nil },
		"no node":            func(c *Config) { c.Node = "" },
		"negative width":     func(c *Config) { c.Width = -1 },
		"negative poll":      func(c *Config) { c.Poll = -1 },
		"negative exchanges": func(c *Config) { c.ExchangeTimeout = -1 },
	} {
		c := ok
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
