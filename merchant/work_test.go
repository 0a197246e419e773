package merchant_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
)

// TestDepositFunction: how OnDeposit may end, and that an effect is asked for
// again until it has happened, and never again then.
func TestDepositFunction(t *testing.T) {
	for _, c := range []struct {
		name   string
		fail   func() error
		code   countersign.ErrCode
		reason merchant.Reason
	}{
		{"error", func() error { return errors.New("the ledger is closed") }, 5000, merchant.ReasonFailed},
		{"panic", func() error { panic("ledger") }, 5000, merchant.ReasonPanic},
		{"Goexit", func() error { runtime.Goexit(); return nil }, 5000, merchant.ReasonPanic},
		{"refusal", func() error { return &merchant.CodeError{Code: 2003} }, 2003, merchant.ReasonRefused},
		{"hold", func() error { return fmt.Errorf("wrapped: %w", &merchant.CodeError{Code: 3001, Message: "soon"}) }, 3001, merchant.ReasonHold},
		{"own code", func() error { return &merchant.CodeError{Code: 77} }, 77, merchant.ReasonFailed},
		{"errCode 0", func() error { return &merchant.CodeError{Code: 0} }, 5000, merchant.ReasonFailed},
		{"errCode 1001", func() error { return &merchant.CodeError{Code: 1001} }, 5000, merchant.ReasonFailed},
		{"deadline", func() error { return context.DeadlineExceeded }, 5000, merchant.ReasonTimeout},
		{"bad message", func() error {
			return &merchant.CodeError{Code: 2003, Message: "\xff\x00" + strings.Repeat("é", 300)}
		}, 2003, merchant.ReasonRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			failing, calls := true, 0
			w := newWorld(t, countersigntest.ServiceConfig{}, func(mc *merchant.Config) {
				mc.OnDeposit = func(context.Context, merchant.Deposit) error {
					calls++
					if failing {
						return c.fail()
					}
					return nil
				}
			})
			for range 2 {
				w.refused(t, w.deliver(countersigntest.Deposit(1)), 200, c.code, c.reason)
			}
			failing = false
			w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
			w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonRepeated)
			if calls != 3 {
				t.Errorf("%d calls, want 3", calls)
			}
		})
	}
}

func TestWithdrawalFunction(t *testing.T) {
	order, user := countersigntest.Order(1), countersigntest.Withdrawal(1).TenantUserID
	noAmount := order
	noAmount.Amount = countersign.Amount{}
	for _, c := range []struct {
		name   string
		answer merchant.Answer
		err    error
		code   countersign.ErrCode
		reason merchant.Reason
		kept   bool
	}{
		{"confirm", merchant.Confirm(user, order), nil, 0, merchant.ReasonConfirmed, true},
		{"zero answer", merchant.Answer{}, nil, 5000, merchant.ReasonFailed, false},
		{"details without amount", merchant.Confirm(user, noAmount), nil, 5000, merchant.ReasonFailed, false},
		{"another user's order", merchant.Confirm(user+"0", order), nil, 2002, merchant.ReasonOtherUser, true},
		{"nobody's order", merchant.Confirm("", order), nil, 5000, merchant.ReasonFailed, false},
		{"no details", merchant.Confirm(user, countersign.Details{}), nil, 5000, merchant.ReasonFailed, false},
		{"confirm and an error", merchant.Confirm(user, order), errors.New("no"), 5000, merchant.ReasonFailed, false},
		{"refuse", merchant.Refuse(2004, "not today"), nil, 2004, merchant.ReasonRefused, true},
		{"refuse with a code of their own", merchant.Refuse(40001, ""), nil, 40001, merchant.ReasonRefused, true},
		{"refuse with 0", merchant.Refuse(0, ""), nil, 5000, merchant.ReasonFailed, false},
		{"refuse with a hold", merchant.Refuse(3001, ""), nil, 5000, merchant.ReasonFailed, false},
		{"hold", merchant.Hold(3001, ""), nil, 3001, merchant.ReasonHold, false},
		{"hold with 0", merchant.Hold(0, ""), nil, 5000, merchant.ReasonFailed, false},
		{"hold with a refusal", merchant.Hold(2001, ""), nil, 5000, merchant.ReasonFailed, false},
		{"error that refuses", merchant.Answer{}, &merchant.CodeError{Code: 2005}, 2005, merchant.ReasonRefused, true},
		{"error that holds", merchant.Answer{}, &merchant.CodeError{Code: 3002}, 3002, merchant.ReasonHold, false},
		{"error of 0", merchant.Answer{}, &merchant.CodeError{}, 5000, merchant.ReasonFailed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			w := newWorld(t, countersigntest.ServiceConfig{}, func(mc *merchant.Config) {
				mc.OnWithdrawal = func(context.Context, countersign.WithdrawalRequest) (merchant.Answer, error) {
					calls++
					return c.answer, c.err
				}
			})
			check := func(r countersigntest.Result, reason merchant.Reason) {
				t.Helper()
				if c.code == 0 {
					w.accepted(t, r, reason)
					if r.Details() != order {
						t.Errorf("confirmed %+v", r.Details())
					}
				} else {
					w.refused(t, r, 200, c.code, reason)
				}
			}
			check(w.deliver(countersigntest.Withdrawal(1)), c.reason)
			again, wantCalls := c.reason, 2
			if c.kept {
				again = merchant.ReasonRepeated
			}
			if c.kept && c.code != 0 {
				wantCalls = 1
			}
			check(w.deliver(countersigntest.Withdrawal(1)), again)
			if calls != wantCalls {
				t.Errorf("%d calls, want %d", calls, wantCalls)
			}
		})
	}
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) { c.OnWithdrawal = nil })
	w.refused(t, w.deliver(countersigntest.Withdrawal(1)), 200, countersign.CodeUnknownOrder, merchant.ReasonRefused)
}

// TestAskedAgain: what was confirmed is judged again at each repetition of the question. It may be
// refused then, for ever, and is never confirmed with other details.
func TestAskedAgain(t *testing.T) {
	user := countersigntest.Withdrawal(1).TenantUserID
	for name, lost := range map[string]int{"recorded": 0, "not recorded": 1} {
		t.Run(name, func(t *testing.T) {
			answer := merchant.Confirm(user, countersigntest.Order(1))
			inbox := &losing{Inbox: merchant.NewMemoryInbox(), lost: lost}
			w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
				c.Inbox = inbox
				c.OnWithdrawal = func(context.Context, countersign.WithdrawalRequest) (merchant.Answer, error) { return answer, nil }
			})
			if lost > 0 {
				w.refused(t, w.deliver(countersigntest.Withdrawal(1)), 200, 5000, merchant.ReasonInbox)
			} else {
				w.accepted(t, w.deliver(countersigntest.Withdrawal(1)), merchant.ReasonConfirmed)
			}
			answer = merchant.Confirm(user, countersigntest.Order(2))
			r := w.deliver(countersigntest.Withdrawal(1))
			w.accepted(t, r, merchant.ReasonRepeated)
			if r.Details() != countersigntest.Order(1) {
				t.Errorf("confirmed again with %+v", r.Details())
			}
			answer = merchant.Hold(countersign.CodeAwaitingApproval, "")
			w.refused(t, w.deliver(countersigntest.Withdrawal(1)), 200, countersign.CodeAwaitingApproval, merchant.ReasonHold)
			answer = merchant.Refuse(countersign.CodeOrderCancelled, "")
			w.refused(t, w.deliver(countersigntest.Withdrawal(1)), 200, countersign.CodeOrderCancelled, merchant.ReasonEndedAgain)
			answer = merchant.Confirm(user, countersigntest.Order(1))
			w.refused(t, w.deliver(countersigntest.Withdrawal(1)), 200, countersign.CodeOrderCancelled, merchant.ReasonRepeated)
		})
	}
}

// losing is an Inbox whose first settlements fail.
type losing struct {
	merchant.Inbox
	lost int
}

func (l *losing) Settle(ctx context.Context, s merchant.Settlement) (merchant.Reply, error) {
	if l.lost > 0 {
		l.lost--
		return merchant.Reply{}, errors.New("no disk")
	}
	return l.Inbox.Settle(ctx, s)
}

func TestNoticeFunction(t *testing.T) {
	failing := true
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.OnNotice = func(context.Context, countersign.Callback) error {
			if failing {
				return errors.New("no")
			}
			return nil
		}
	})
	w.refused(t, w.deliver(countersigntest.Notice(5, 1)), 200, 5000, merchant.ReasonFailed)
	failing = false
	w.accepted(t, w.deliver(countersigntest.Notice(5, 1)), merchant.ReasonAccepted)
	w = newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) { c.OnNotice = nil })
	w.accepted(t, w.deliver(countersigntest.Notice(5, 1)), merchant.ReasonAccepted)
	w.accepted(t, w.deliver(countersigntest.Notice(5, 1)), merchant.ReasonRepeated)
}

// TestTimeout: a function that heeds nothing. The service is answered at the
// time-out, nobody runs the function a second time meanwhile, and what it did
// in the end counts.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan error)
		var calls atomic.Int32
		w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
			c.OnDeposit = func(context.Context, merchant.Deposit) error {
				calls.Add(1)
				return <-release
			}
		})
		began := time.Now()
		w.refused(t, w.deliver(countersigntest.Deposit(1)), 200, 5000, merchant.ReasonTimeout)
		if took := time.Since(began); took != merchant.DefaultTimeout {
			t.Errorf("answered after %v", took)
		}
		// The lease holds, then it ends; this process knows better all along.
		for range 4 {
			w.refused(t, w.deliver(countersigntest.Deposit(1)), 200, 5000, merchant.ReasonBusy)
		}
		if time.Since(began) < 40*time.Second {
			t.Error("the lease has not ended, so the test tests nothing")
		}
		release <- nil
		if err := w.handler.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonRepeated)
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestWaitEnds: Wait gives up with its context.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
			c.OnDeposit = func(context.Context, merchant.Deposit) error { <-release; return nil }
		})
		w.deliver(countersigntest.Deposit(1))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.handler.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
		close(release)
	})
}

// TestServiceHangsUp: what has begun is brought to its end for the next attempt.
func TestServiceHangsUp(t *testing.T) {
	ctx, hangUp := context.WithCancel(context.Background())
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.OnDeposit = func(ctx context.Context, _ merchant.Deposit) error {
			hangUp()
			return ctx.Err()
		}
	})
	r := w.service.Deliver(ctx, w.to, countersigntest.Deposit(1))
	w.accepted(t, r, merchant.ReasonAccepted)
	w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonRepeated)
}

// TestTwoProcesses: two handlers on one inbox, as two processes on one database.
func TestTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, countersigntest.ServiceConfig{}, nil)
		entered, release := make(chan struct{}), make(chan struct{})
		details := []countersign.Details{countersigntest.Order(1), countersigntest.Order(2)}
		var asked atomic.Int32
		config := w.service.MerchantConfig()
		config.Inbox, config.Observer = w.inbox, w
		config.OnDeposit = func(_ context.Context, d merchant.Deposit) error {
			close(entered)
			<-release
			w.mu.Lock()
			defer w.mu.Unlock()
			w.deposits[d.TrackingID]++
			return nil
		}
		config.OnPossibleDuplicate = merchant.KeepForReview
		config.OnWithdrawal = func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			n := asked.Add(1) - 1
			if n == 0 {
				<-release
			}
			return merchant.Confirm(w.TenantUserID, details[n%2]), nil
		}
		a, b := newHandler(t, config), newHandler(t, config)

		results := make(chan countersigntest.Result, 2)
		deliver := func(h *merchant.Handler, cb countersign.Callback) {
			results <- w.service.Deliver(context.Background(), countersigntest.ToHandler(h), cb)
		}
		go deliver(a, countersigntest.Deposit(1))
		<-entered
		go deliver(b, countersigntest.Deposit(1))
		time.Sleep(time.Second) // b asks the inbox again and again
		release <- struct{}{}
		for range 2 {
			if r := <-results; r.Err != nil {
				t.Error(r.Err)
			}
		}
		if n := w.effects("deposit-1"); n != 1 {
			t.Errorf("%d effects", n)
		}

		// A withdrawal whose first process hangs beyond its lease. The second
		// is asked and says something else. What is kept first stands.
		go deliver(a, countersigntest.Withdrawal(1))
		if r := <-results; r.Code() != 5000 {
			t.Errorf("the hanging process answers %v", r.Err)
		}
		time.Sleep(time.Minute)
		go deliver(b, countersigntest.Withdrawal(1))
		if r := <-results; r.Err != nil || r.Details() != details[1] {
			t.Errorf("the second process: %v", r.Err)
		}
		close(release)
		if err := a.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		for _, h := range []*merchant.Handler{a, b} {
			go deliver(h, countersigntest.Withdrawal(1))
			if r := <-results; r.Err != nil || r.Details() != details[1] {
				t.Errorf("later: %v", r.Err)
			}
		}
	})
}

// TestLeaseIsRenewed: of two processes on one inbox the second does not begin a
// deposit that the first is still at, however long that ignores its context; with
// an inbox that cannot renew, it does. When the first has ended, the reply is
// everybody's.
func TestLeaseIsRenewed(t *testing.T) {
	for _, c := range []struct {
		name  string
		inbox func(merchant.Inbox) merchant.Inbox
		calls int32
	}{
		{"renewed", func(in merchant.Inbox) merchant.Inbox { return in }, 1},
		{"an inbox that cannot", func(in merchant.Inbox) merchant.Inbox { return struct{ merchant.Inbox }{in} }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, countersigntest.ServiceConfig{}, nil)
				config := w.service.MerchantConfig()
				config.Inbox, config.Observer = c.inbox(w.inbox), w
				release := make(chan struct{})
				var calls atomic.Int32
				config.OnDeposit = func(context.Context, merchant.Deposit) error {
					calls.Add(1)
					<-release
					return nil
				}
				config.OnPossibleDuplicate = merchant.KeepForReview
				a, b := newHandler(t, config), newHandler(t, config)
				deliver := func(h *merchant.Handler) countersigntest.Result {
					return w.service.Deliver(context.Background(), countersigntest.ToHandler(h), countersigntest.Deposit(1))
				}
				w.refused(t, deliver(a), 200, 5000, merchant.ReasonTimeout)
				time.Sleep(10 * time.Minute)
				if r := deliver(b); r.Code() != 5000 {
					t.Errorf("the second process: %v", r.Err)
				}
				if n := calls.Load(); n != c.calls {
					t.Errorf("%d calls, want %d", n, c.calls)
				}
				close(release)
				for _, h := range []*merchant.Handler{a, b} {
					if err := h.Wait(context.Background()); err != nil {
						t.Error(err)
					}
				}
				w.accepted(t, deliver(b), merchant.ReasonRepeated)
			})
		})
	}
}

// TestFailedFunctionFreesItsLease: renewing ends before the settling that frees
// the lease, so the next delivery need not wait.
func TestFailedFunctionFreesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan error)
		w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
			c.OnDeposit = func(context.Context, merchant.Deposit) error { return <-release }
		})
		w.refused(t, w.deliver(countersigntest.Deposit(1)), 200, 5000, merchant.ReasonTimeout)
		time.Sleep(10 * time.Minute)
		release <- errors.New("no")
		if err := w.handler.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		go func() { release <- nil }()
		w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
	})
}

// TestKeepForReview: a possible duplicate is accepted, not credited, and the log
// says what it is and which.
func TestKeepForReview(t *testing.T) {
	var log syncBuffer
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.OnPossibleDuplicate = merchant.KeepForReview
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
	again := countersigntest.Deposit(1)
	again.TrackingID = "told-again"
	w.accepted(t, w.deliver(again), merchant.ReasonPossibleDuplicate)
	w.accepted(t, w.deliver(again), merchant.ReasonRepeated)
	if w.effects("deposit-1") != 1 || w.effects("told-again") != 0 {
		t.Error("the possible duplicate was credited")
	}
	for _, want := range []string{"level=WARN", "id=told-again", "seq=2", "not credited before a decision"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, log.String())
		}
	}
}

// TestDefaultLog: a Config without Log is not silent.
func TestDefaultLog(t *testing.T) {
	var log syncBuffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(before)
	service := newService(t, countersigntest.ServiceConfig{})
	c := service.MerchantConfig()
	c.Inbox = merchant.NewMemoryInbox()
	h := must(merchant.New(c))(t)
	service.Deliver(context.Background(), countersigntest.ToHandler(h), countersigntest.Deposit(1))
	if !strings.Contains(log.String(), "reason=accepted") {
		t.Errorf("logged: %q", log.String())
	}
}

// TestContradiction: the holder of a lost lease finds other details kept, and
// is told neither.
func TestContradiction(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	config := w.service.MerchantConfig()
	config.Inbox, config.Observer = w.inbox, w
	config.OnWithdrawal = func(ctx context.Context, r countersign.WithdrawalRequest) (merchant.Answer, error) {
		// Another process, whose clock ran ahead, has decided meanwhile.
		e := merchant.NewEntry(&r)
		e.At, e.Lease = time.Now().Add(time.Hour), time.Minute
		c, err := w.inbox.Claim(ctx, e)
		if c.State == merchant.StateSettled {
			return merchant.Confirm(r.TenantUserID, countersigntest.Order(2)), err
		}
		if err != nil || c.State != merchant.StateClaimed {
			return merchant.Answer{}, fmt.Errorf("the other process: %v, %w", c.State, err)
		}
		_, err = w.inbox.Settle(ctx, merchant.Settlement{
			Type: r.CallbackType(), ID: e.ID, Claim: c.Claim, Final: true, Reply: merchant.Reply{Details: countersigntest.Order(1)},
		})
		return merchant.Confirm(r.TenantUserID, countersigntest.Order(2)), err
	}
	to := countersigntest.ToHandler(newHandler(t, config))
	r := w.service.Deliver(context.Background(), to, countersigntest.Withdrawal(1))
	w.refused(t, r, 200, countersign.CodeDetailsDiffer, merchant.ReasonDetailsChange)
	r = w.service.Deliver(context.Background(), to, countersigntest.Withdrawal(1))
	w.accepted(t, r, merchant.ReasonRepeated)
	if r.Details() != countersigntest.Order(1) {
		t.Errorf("confirmed %+v", r.Details())
	}
}

// TestThousandAtOnce: one deposit, 1,000 deliveries, one effect, and success for
// every one of them.
func TestThousandAtOnce(t *testing.T) {
	t.Parallel()
	const deliveries = 1000
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	config := w.service.MerchantConfig()
	config.Inbox, config.Timeout, config.BodyTimeout = w.inbox, patience, patience
	config.OnDeposit = func(_ context.Context, d merchant.Deposit) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.deposits[d.TrackingID]++
		return nil
	}
	config.OnPossibleDuplicate = merchant.KeepForReview
	ends := []countersigntest.Endpoint{
		countersigntest.ToHandler(newHandler(t, config)), countersigntest.ToHandler(newHandler(t, config)),
	}
	// Nine of ten come with one body, since sealing and opening each takes seconds.
	body := sealedBody(t, w.service, countersigntest.Deposit(1))
	var wg sync.WaitGroup
	var failures atomic.Int32
	for i := range deliveries {
		wg.Go(func() {
			if i%10 == 0 {
				if r := w.service.Deliver(context.Background(), ends[i/10%2], countersigntest.Deposit(1)); r.Err != nil {
					failures.Add(1)
				}
				return
			}
			r := w.service.Post(context.Background(), ends[i%2], merchant.DefaultNotifyPath, body)
			if answer, err := countersign.ParseResponse(r.Raw); r.Status != http.StatusOK || err != nil || answer.ErrCode != 0 {
				failures.Add(1)
			}
		})
	}
	wg.Wait()
	if n := failures.Load(); n != 0 {
		t.Errorf("%d of %d failed", n, deliveries)
	}
	if n := w.effects("deposit-1"); n != 1 {
		t.Errorf("%d effects", n)
	}
}
