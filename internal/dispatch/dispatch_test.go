package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// rig is a Dispatcher over a fake outbox, without a network, to be used inside a
// synctest bubble: its clock moves when everything waits.
type rig struct {
	*store
	d      *Dispatcher
	honest poster        // to a merchant with the right keys
	log    *bytes.Buffer // to be read while everything waits
	cancel context.CancelFunc
	done   chan struct{}
}

type poster = func(context.Context, request) Response

func newRig(t *testing.T, change func(*Config, *rig)) *rig {
	t.Helper()
	pair := testPair()
	r := &rig{
		store:  newStore(t, testStoreMerchant("m1", pair, "https://m1.example"), testStoreMerchant("m2", pair, "https://m2.example")),
		honest: postTo(countersigntest.MerchantConfig{Key: pair.Public()}), log: new(bytes.Buffer), done: make(chan struct{}),
	}
	c := Config{Outbox: r.store, Node: "node-1", Observer: noObserver{}, Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})), RSA: 2, Poll: 10 * time.Second}
	if change != nil {
		change(&c, r)
	}
	d := must(New(c))
	d.post = r.honest
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

// A wake-up is enough for callbacks of every type to be sent at once, also after the merchant's key has changed. What the
// rules of URLs do not allow is not called.
func TestEveryTypeIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.start(t)
		synctest.Wait()
		deposit := r.addDeposit("m1", 1)
		ids := []string{deposit}
		ordered := r.addWithdrawal("m1", 1, time.Hour, true)
		open := r.addWithdrawal("m2", 2, time.Hour, false)
		head := countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: "t", TenantUserID: "u"}
		for i, cb := range []countersign.Callback{
			&countersign.WithdrawalDone{Head: head, CallBackID: "c", TxID: "x"},
			&countersign.AddressChange{Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TenantUserID: "u"}, NewAddress: "n"},
			&countersign.WithdrawalEnded{Head: head, CallBackID: "c"},
			&countersign.WithdrawalNotice{Type: 6, Head: head, CallBackID: "c"},
			&countersign.WithdrawalNotice{Type: 7, Head: head, CallBackID: "c"},
		} {
			payload := must(cb.Marshal())
			ids = append(ids, r.add(outbox.NewCallback{Merchant: "m1", Type: cb.CallbackType(), EventID: fmt.Sprint(i), Payload: payload,
				Deadline: db.Never}))
		}
		synctest.Wait() // no clock moved
		other := mustKey(1024)
		r.change(func(m *outbox.Merchant) { m.Key = other })
		r.d.post = postTo(countersigntest.MerchantConfig{Key: other.Public()})
		ids = append(ids, r.addDeposit("m1", 2))
		synctest.Wait()

		for _, id := range ids {
			if c := r.callback(id); c.State != client.CallbackAccepted || c.LastReason != "accepted" {
				t.Errorf("type %d: %+v", c.Type, c)
			}
		}
		for _, id := range []string{ordered, open} {
			w := r.withdrawal(id)
			if w.State != client.WithdrawalConfirmed || w.Details == nil || w.Details.Differs(testDetails()) != "" {
				t.Errorf("withdrawal: %+v", w)
			}
		}
		a := r.attemptsOf(deposit)
		if len(a) != 1 || a[0].Number != 1 || a[0].HTTPStatus != 200 || a[0].ErrCode == nil || *a[0].ErrCode != 0 ||
			a[0].Result != "accepted" || len(a[0].RequestHash) != 64 || len(a[0].ResponseHash) != 64 ||
			len(a[0].RequestUUID) != 36 || a[0].Node != "node-1" {
			t.Errorf("attempts: %+v", a)
		}
		if n := strings.Count(r.log.String(), "msg=attempt"); n != len(ids)+2 {
			t.Errorf("%d lines for %d attempts:\n%s", n, len(ids)+2, r.log)
		}
		r.change(func(m *outbox.Merchant) { m.NotifyURL = "http://m1.example/notify" })
		blocked := r.addDeposit("m1", 3)
		synctest.Wait()
		if a := r.attemptsOf(blocked); len(a) != 1 || a[0].Reason != client.ReasonBlockedAddress || a[0].RequestHash != "" {
			t.Errorf("http without leave: %+v", a)
		}
		r.stop()
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
					resp := r.honest(ctx, q)
					time.Sleep(test.after)                          // and does not even mind ctx
					if strings.HasSuffix(q.url.Path, "/withdraw") { // and not the notice of its end
						cut.Store(ctx.Err() != nil)
					}
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

// However many exchanges hang, a question is asked and its decision settled at once: neither its
// place nor its settlement waits for deposits. A merchant that has nothing gets a place beside them.
func TestNothingWaitsForSlowMerchants(t *testing.T) {
	for _, width := range []int{16, 3 * busy} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(c *Config, _ *rig) { c.Width = width })
			var held atomic.Int64
			r.d.post = func(ctx context.Context, q request) Response {
				if q.url.Host == "m1.example" && strings.HasSuffix(q.url.Path, "/notify") {
					held.Add(1)
					<-ctx.Done()
					return Response{Failure: client.ReasonTimeout}
				}
				return r.honest(ctx, q)
			}
			r.start(t)
			for i := range 4 * width {
				r.addDeposit("m1", i)
			}
			time.Sleep(time.Second) // all that may be are with the merchant
			if n := held.Load(); n == 0 || n > int64(width/4) {
				t.Errorf("one merchant has %d of %d places", n, width)
			}
			asked, newcomer := r.addWithdrawal("m1", 1, time.Hour, true), r.addDeposit("m2", 2)
			synctest.Wait() // and no clock moves
			if w := r.withdrawal(asked); w.State != client.WithdrawalConfirmed || w.Decision != countersign.DecisionConfirmed {
				t.Errorf("the decision waits: %+v", w)
			}
			time.Sleep(time.Second)
			if c := r.callback(newcomer); c.State != client.CallbackAccepted {
				t.Errorf("a merchant that has nothing waits: %+v", c)
			}
			r.stop()
		})
	}
}

// While many callbacks are in flight, settlements wait for each other. The last ones wait for nobody.
func TestSettlementsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var settles, sent atomic.Int64
		r.fault = func(method string, done bool) bool {
			if method == "settle" && done {
				settles.Add(1)
			}
			return false
		}
		r.d.post = func(ctx context.Context, q request) Response {
			time.Sleep(time.Duration(1+sent.Add(1)%64) * 5 * time.Millisecond) // one ends each 5 ms
			return r.honest(ctx, q)
		}
		const n = 120
		for i := range n {
			r.addDeposit("m1", i)
		}
		r.start(t)
		time.Sleep(time.Minute)
		r.stop()
		if sent.Load() != n || settles.Load() > busy+n/12 {
			t.Errorf("%d transactions settled %d attempts", settles.Load(), sent.Load())
		}
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
						for _, a := range r.attemptsOf(id) {
							if a.Result == client.AttemptAccepted {
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
			return r.honest(ctx, q)
		}
		r.start(t)
		id := r.addDeposit("m1", 1)
		time.Sleep(time.Minute)
		r.stop()
		if c, a := r.callback(id), r.attemptsOf(id); c.State != client.CallbackAccepted || len(a) != 2 || a[0].Reason != client.ReasonInternal || a[0].RequestUUID == a[1].RequestUUID {
			t.Errorf("%+v %+v", c, a)
		}
		if strings.Contains(r.log.String(), "secret of") {
			t.Error("the panic's value is in the log")
		}
	})
}

func TestNothingSecretIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(_ *Config, r *rig) {
			r.change(func(m *outbox.Merchant) { m.NotifyURL += "?token=hunter2" })
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
	ok := Config{Outbox: newStore(t), Node: "n", Observer: noObserver{}}
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
