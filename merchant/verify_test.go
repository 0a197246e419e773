package merchant_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
)

// verified is a merchant whose Verify a test answers.
type verified struct {
	*world
	t      *testing.T
	verify atomic.Pointer[func(context.Context, countersign.Deposit) (merchant.Verdict, error)]
	calls  atomic.Int64
	now    atomic.Int64 // seconds after the start
}

func newVerified(t *testing.T, change func(*merchant.Config)) *verified {
	v, start := &verified{t: t}, time.Now()
	v.world = newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.Now = func() time.Time { return start.Add(time.Duration(v.now.Load()) * time.Second) }
		c.Verify = func(ctx context.Context, d countersign.Deposit) (merchant.Verdict, error) {
			v.calls.Add(1)
			return (*v.verify.Load())(ctx, d)
		}
		if change != nil {
			change(c)
		}
	})
	return v
}

func (v *verified) says(verdict merchant.Verdict, err error) {
	f := func(context.Context, countersign.Deposit) (merchant.Verdict, error) { return verdict, err }
	v.verify.Store(&f)
}

// deliver checks the errCode, the number of calls of Verify so far, and the credits.
func (v *verified) deliver(d *countersign.Deposit, code countersign.ErrCode, reason merchant.Reason, calls int64, credits int) {
	v.t.Helper()
	if r := v.world.deliver(d); r.Code() != code || v.last().Reason != reason {
		v.t.Errorf("%s: errCode %d, %s; want %d, %s", d.TrackingID, r.Code(), v.last().Reason, code, reason)
	}
	if v.calls.Load() != calls || v.effects(d.TrackingID) != credits {
		v.t.Errorf("%s: %d calls, %d credits; want %d, %d", d.TrackingID, v.calls.Load(), v.effects(d.TrackingID), calls, credits)
	}
}

func TestVerify(t *testing.T) {
	v := newVerified(t, nil)
	v.says(merchant.VerdictYes, nil)
	one := countersigntest.Deposit(1)
	v.deliver(one, 0, merchant.ReasonAccepted, 1, 1)
	v.deliver(one, 0, merchant.ReasonRepeated, 1, 1)
	changed := *one
	changed.Amount = countersigntest.Deposit(2).Amount
	v.deliver(&changed, countersign.CodeDetailsDiffer, merchant.ReasonOtherContent, 1, 1)
	again := *one
	again.TrackingID = "again"
	v.deliver(&again, 0, merchant.ReasonPossibleDuplicate, 1, 0) // a person decides

	two := countersigntest.Deposit(2)
	v.says(merchant.VerdictNotYet, nil)
	v.deliver(two, countersign.CodeNotKnownYet, merchant.ReasonHold, 2, 0)
	v.says(merchant.VerdictYes, errors.New("but"))
	v.deliver(two, countersign.CodeNotKnownYet, merchant.ReasonHold, 3, 0)
	v.says(merchant.Verdict(7), nil)
	v.deliver(two, countersign.CodeNotKnownYet, merchant.ReasonHold, 4, 0)
	panics := func(context.Context, countersign.Deposit) (merchant.Verdict, error) { panic("a bug") }
	v.verify.Store(&panics)
	v.deliver(two, countersign.CodeNotKnownYet, merchant.ReasonHold, 5, 0)
	v.says(merchant.VerdictNo, nil)
	v.deliver(two, countersign.CodeRefusedPolicy, merchant.ReasonDisproved, 6, 0)
	v.says(merchant.VerdictYes, nil) // the service sends it again after a mistake was found
	v.deliver(two, 0, merchant.ReasonAccepted, 7, 1)

	// Nothing else is verified.
	r := v.world.deliver(countersigntest.Notice(countersign.TypeWithdraw, 1))
	if r.Err != nil || v.calls.Load() != 7 {
		t.Errorf("a notice: %v, %d calls", r.Err, v.calls.Load())
	}
}

// TestVerifyAnotherIndex: a verdict is about one transfer. A deposit that is still open and
// comes again with another txIndex is asked about anew, and compared anew with the others.
func TestVerifyAnotherIndex(t *testing.T) {
	v := newVerified(t, nil)
	v.says(merchant.VerdictYes, nil)
	one := countersigntest.Deposit(1)
	one.TxIndex = 1
	v.deliver(one, 0, merchant.ReasonAccepted, 1, 1)
	two := *one
	two.TrackingID, two.TxIndex, two.Amount = "two", 2, countersigntest.Deposit(2).Amount
	v.says(merchant.VerdictNotYet, nil)
	v.deliver(&two, countersign.CodeNotKnownYet, merchant.ReasonHold, 2, 0)
	v.says(merchant.VerdictYes, nil)
	two.TxIndex = 1
	v.deliver(&two, 0, merchant.ReasonPossibleDuplicate, 2, 0) // a person decides

	// A verdict that came after its exchange is kept for this question alone.
	three := *one
	three.TrackingID, three.TxIndex, three.Amount = "three", 3, countersigntest.Deposit(3).Amount
	was := merchant.NewEntry(&three)
	three.TxIndex = 4
	is := merchant.NewEntry(&three)
	if was.Question() == is.Question() || was.Content != is.Content {
		t.Error("a question does not tell the transfers of one transaction apart")
	}
}

// TestVerifyEnds: what is not verified within VerifyFor is refused, and counts if it
// turns out true after all.
func TestVerifyEnds(t *testing.T) {
	v := newVerified(t, func(c *merchant.Config) { c.VerifyFor = time.Hour })
	v.says(merchant.VerdictNotYet, nil)
	d := countersigntest.Deposit(1)
	v.deliver(d, countersign.CodeNotKnownYet, merchant.ReasonHold, 1, 0)
	v.now.Store(3599)
	v.deliver(d, countersign.CodeNotKnownYet, merchant.ReasonHold, 2, 0)
	v.now.Store(3600)
	v.deliver(d, countersign.CodeRefusedPolicy, merchant.ReasonUnverified, 3, 0)
	v.says(merchant.VerdictYes, nil)
	v.deliver(d, 0, merchant.ReasonAccepted, 4, 1)
}

// TestVerifySlow: the exchange does not wait, and the result is for the next one.
func TestVerifySlow(t *testing.T) {
	v := newVerified(t, func(c *merchant.Config) { c.VerifyWait = 20 * time.Millisecond })
	for n, verdict := range []merchant.Verdict{merchant.VerdictYes, merchant.VerdictNo} {
		free, ended := make(chan struct{}), make(chan struct{})
		slow := func(context.Context, countersign.Deposit) (merchant.Verdict, error) {
			defer close(ended)
			<-free
			return verdict, nil
		}
		v.verify.Store(&slow)
		d, calls := countersigntest.Deposit(n), int64(n+1)
		for range 2 {
			v.deliver(d, countersign.CodeNotKnownYet, merchant.ReasonHold, calls, 0)
		}
		close(free)
		<-ended
		for v.world.deliver(d).Code() == countersign.CodeNotKnownYet { // until the result is kept; nothing else can change
		}
		if credits, want := v.effects(d.TrackingID), 1-n; credits != want || v.calls.Load() != calls {
			t.Errorf("%v: %d credits, %d calls; want %d, %d", verdict, credits, v.calls.Load(), want, calls)
		}
	}
}

// TestVerifyOnce: deliveries at the same time ask once.
func TestVerifyOnce(t *testing.T) {
	v := newVerified(t, nil)
	v.says(merchant.VerdictYes, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if r := v.world.deliver(countersigntest.Deposit(1)); r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
	wg.Wait()
	if v.calls.Load() != 1 || v.effects("deposit-1") != 1 {
		t.Errorf("%d calls, %d credits", v.calls.Load(), v.effects("deposit-1"))
	}
}

// TestVerifyStops: Wait ends calls that run, and returns after them.
func TestVerifyStops(t *testing.T) {
	v := newVerified(t, func(c *merchant.Config) { c.VerifyWait = time.Millisecond })
	var ended atomic.Bool
	stuck := func(ctx context.Context, _ countersign.Deposit) (merchant.Verdict, error) {
		<-ctx.Done()
		ended.Store(true)
		return merchant.VerdictNotYet, ctx.Err()
	}
	v.verify.Store(&stuck)
	v.deliver(countersigntest.Deposit(1), countersign.CodeNotKnownYet, merchant.ReasonHold, 1, 0)
	if err := v.handler.Wait(t.Context()); err != nil || !ended.Load() {
		t.Errorf("Wait gave %v, and Verify has ended: %v", err, ended.Load())
	}
}

// TestVerifyRecordsOnly: without an OnDeposit a deposit is recorded after the yes.
func TestVerifyRecordsOnly(t *testing.T) {
	v := newVerified(t, func(c *merchant.Config) { c.OnDeposit, c.OnPossibleDuplicate = nil, nil })
	v.says(merchant.VerdictNotYet, nil)
	d := countersigntest.Deposit(1)
	v.deliver(d, countersign.CodeNotKnownYet, merchant.ReasonHold, 1, 0)
	v.says(merchant.VerdictYes, nil)
	v.deliver(d, 0, merchant.ReasonAccepted, 2, 0)
	v.deliver(d, 0, merchant.ReasonRepeated, 2, 0)
}

func TestVerdicts(t *testing.T) {
	for _, want := range []merchant.Verdict{merchant.VerdictNotYet, merchant.VerdictYes, merchant.VerdictNo} {
		if got, err := merchant.ParseVerdict(want.String()); got != want || err != nil {
			t.Errorf("%v came back as %v, %v", want, got, err)
		}
	}
	for _, text := range []string{"", "YES", "true", "Verdict(7)"} {
		if got, err := merchant.ParseVerdict(text); err == nil || got != merchant.VerdictNotYet {
			t.Errorf("%q is %v", text, got)
		}
	}
	c := countersigntest.NewService(t).MerchantConfig()
	c.Inbox, c.VerifyWait = merchant.NewMemoryInbox(), time.Hour
	if _, err := merchant.New(c); !errors.Is(err, merchant.ErrConfig) {
		t.Errorf("a VerifyWait longer than Timeout: %v", err)
	}
}
