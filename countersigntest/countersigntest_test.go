package countersigntest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var pair = sync.OnceValue(func() *envelope.Key {
	k, err := envelope.GenerateKey(1024)
	if err != nil {
		panic(err)
	}
	return k
})

func newService(t *testing.T, c countersigntest.ServiceConfig) *countersigntest.Service {
	t.Helper()
	c.Key = pair()
	s, err := countersigntest.MakeService(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func callbacks() []countersign.Callback {
	list := []countersign.Callback{countersigntest.Deposit(1), countersigntest.Withdrawal(1)}
	for _, typ := range []countersign.Type{3, 4, 5, 6, 7} {
		list = append(list, countersigntest.Notice(typ, 1))
	}
	return list
}

// TestHonest: two honest ends understand each other, in every order and form.
func TestHonest(t *testing.T) {
	for _, c := range []countersigntest.ServiceConfig{
		{}, {Order: countersigntest.UUIDFirst}, {Chunk: 40}, {Form: envelope.FormField}, {Form: envelope.FormString},
		{Form: envelope.FormObject, Order: countersigntest.UUIDFirst, Chunk: 90},
	} {
		s := newService(t, c)
		m := countersigntest.NewMerchant(t, s)
		for _, cb := range callbacks() {
			for range 2 {
				if r := s.Deliver(context.Background(), m.Endpoint(), cb); r.Err != nil || r.Code() != 0 {
					t.Errorf("type %d: %v", cb.CallbackType(), r.Err)
				}
			}
		}
		if n := m.Taken("deposit-1"); n != 1 {
			t.Errorf("taken %d times", n)
		}
		if n := len(m.Received()); n != 14 {
			t.Errorf("%d attempts received", n)
		}
		r := s.Deliver(context.Background(), m.Endpoint(), countersigntest.Withdrawal(1))
		if r.Withdrawal == nil || r.Withdrawal.Details != countersigntest.Order(1) {
			t.Errorf("confirmed %+v", r.Withdrawal)
		}
		other := countersigntest.Withdrawal(1)
		other.CallBackID = "order-x"
		if r := s.Deliver(context.Background(), m.Endpoint(), other); r.Code() != countersign.CodeUnknownOrder {
			t.Errorf("an unknown order: %v", r.Err)
		}
	}
}

// TestUnbound: the fake merchant demands the binding unless told otherwise.
func TestUnbound(t *testing.T) {
	s := newService(t, countersigntest.ServiceConfig{Unbound: true})
	if r := s.Deliver(context.Background(), countersigntest.NewMerchant(t, s).Endpoint(), countersigntest.Deposit(1)); r.Err == nil {
		t.Error("an unbound request was taken")
	}
	m, err := countersigntest.StartMerchant(countersigntest.MerchantConfig{
		Key: s.MerchantKey(), APIKey: s.APIKey(), CallbackAPIKey: s.CallbackAPIKey(), Unbound: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if r := s.Deliver(context.Background(), m.Endpoint(), countersigntest.Deposit(1)); r.Err != nil {
		t.Error(r.Err)
	}
}

// TestAnyPath: with AnyPath the type says what a callback is, and not the path; a path of package
// merchant takes its own types still.
func TestAnyPath(t *testing.T) {
	s := newService(t, countersigntest.ServiceConfig{})
	m, err := countersigntest.StartMerchant(countersigntest.MerchantConfig{
		Key: s.MerchantKey(), APIKey: s.APIKey(), CallbackAPIKey: s.CallbackAPIKey(), AnyPath: true, Orders: countersigntest.SampleOrders,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	to := func(notify, withdraw string) countersigntest.Endpoint {
		at := strings.TrimSuffix(m.NotifyURL(), merchant.DefaultNotifyPath)
		return countersigntest.ToURLs(at+notify, at+withdraw, nil)
	}
	for _, cb := range []countersign.Callback{countersigntest.Deposit(1), countersigntest.Withdrawal(2)} {
		if r := s.Deliver(context.Background(), to("/hooks?of=1", "/hooks"), cb); r.Err != nil {
			t.Errorf("type %d: %v", cb.CallbackType(), r.Err)
		}
	}
	r := s.Deliver(context.Background(), to(merchant.DefaultWithdrawPath, merchant.DefaultNotifyPath), countersigntest.Deposit(3))
	if r.Err == nil || m.Taken(countersigntest.Deposit(3).TrackingID) != 0 {
		t.Errorf("a deposit at the path of withdrawals: %v", r.Err)
	}
}

// TestMerchantFaults: the fake service takes exactly what is tolerated, and what
// the merchant did is as the fault says.
func TestMerchantFaults(t *testing.T) {
	untaken := map[countersigntest.MerchantFault]bool{
		countersigntest.FaultNotTaken: true, countersigntest.FaultHang: true, countersigntest.FaultHold: true,
		countersigntest.FaultRefuse: true, countersigntest.FaultForever: true, countersigntest.FaultHuge: true,
	}
	// A deposit's answer may say less than everything.
	forDeposits := map[countersigntest.MerchantFault]bool{countersigntest.FaultNoAmount: true}
	for _, f := range countersigntest.MerchantFaults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
			s := newService(t, countersigntest.ServiceConfig{Sign: service})
			m, err := countersigntest.StartMerchant(countersigntest.MerchantConfig{
				Key: s.MerchantKey(), APIKey: s.APIKey(), CallbackAPIKey: s.CallbackAPIKey(), Orders: countersigntest.SampleOrders,
				Sign: own, ServiceSigner: service.Public(),
				Fault: func(int, countersign.Callback) countersigntest.MerchantFault { return f },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			for _, cb := range []countersign.Callback{countersigntest.Deposit(1), countersigntest.Withdrawal(1)} {
				ctx, cancel := context.WithCancel(context.Background())
				switch f {
				case countersigntest.FaultHang, countersigntest.FaultTrickle, countersigntest.FaultAnswersLate:
					// They fail however long one waits, once the merchant has the deposit.
					go func() {
						for !untaken[f] && m.Taken("deposit-1") == 0 {
							time.Sleep(time.Millisecond)
						}
						time.Sleep(150 * time.Millisecond)
						cancel()
					}()
				}
				r := s.Deliver(ctx, m.Endpoint(), cb)
				cancel()
				deposit := cb.CallbackType() == countersign.TypeDeposited
				wantOK := f.Tolerated() || f.NeedsSigning() || deposit && forDeposits[f] ||
					!deposit && f == countersigntest.FaultDetailsDiffer // this service does not know the order
				if (r.Err == nil) != wantOK {
					t.Errorf("type %d: %v, want success %v", cb.CallbackType(), r.Err, wantOK)
				}
				if !deposit && f == countersigntest.FaultDetailsDiffer && r.Withdrawal.Details.Differs(countersigntest.Order(1)) != "amount" {
					t.Errorf("confirmed %+v", r.Withdrawal.Details)
				}
			}
			want := 1
			if untaken[f] {
				want = 0
			}
			if n := m.Taken("deposit-1"); n != want {
				t.Errorf("taken %d times, want %d", n, want)
			}
		})
	}
}

func TestDoneTwiceAndLate(t *testing.T) {
	s := newService(t, countersigntest.ServiceConfig{})
	fault := countersigntest.FaultDoneTwice
	m, err := countersigntest.StartMerchant(countersigntest.MerchantConfig{
		Key: s.MerchantKey(), APIKey: s.APIKey(), CallbackAPIKey: s.CallbackAPIKey(),
		Fault: func(int, countersign.Callback) countersigntest.MerchantFault { return fault },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for range 2 {
		if r := s.Deliver(context.Background(), m.Endpoint(), countersigntest.Deposit(1)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if n := m.Taken("deposit-1"); n != 2 {
		t.Errorf("taken %d times", n)
	}
	fault = countersigntest.FaultAnswersLate
	done := make(chan countersigntest.Result)
	go func() { done <- s.Deliver(context.Background(), m.Endpoint(), countersigntest.Deposit(2)) }()
	for m.Taken("deposit-2") == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case r := <-done:
		t.Fatalf("answered before it was released: %v", r.Err)
	default:
	}
	m.Release()
	if r := <-done; r.Err != nil {
		t.Error(r.Err)
	}
}

// TestServiceFaults: what the network and a thief do, seen by the fake merchant.
func TestServiceFaults(t *testing.T) {
	for _, c := range []struct {
		fault    countersigntest.ServiceFault
		received int // attempts that could be read
		accepted bool
	}{
		{countersigntest.NoServiceFault, 1, true},
		{countersigntest.FaultSpliced, 0, false},
		{countersigntest.FaultReplayed, 1, false},
		{countersigntest.FaultSwapped, 0, false},
		{countersigntest.FaultOldUUID, 0, false},
		{countersigntest.FaultCut, 0, false},
		{countersigntest.FaultOtherKey, 0, false},
		{countersigntest.FaultPlain, 0, false},
		{countersigntest.FaultSpaces, 0, false},
		{countersigntest.FaultNoAPIKey, 0, false},
		{countersigntest.FaultWrongAPIKey, 0, false},
		{countersigntest.FaultWrongURL, 0, false},
		{countersigntest.FaultUnsigned, 0, false},
		{countersigntest.FaultStripped, 0, false},
		{countersigntest.FaultOtherSigner, 0, false},
		{countersigntest.FaultAltered, 0, false},
		{countersigntest.FaultOldSignature, 0, false},
		{countersigntest.FaultOtherSignature, 0, false},
		{countersigntest.FaultOtherPlaintext, 0, false},
		{countersigntest.FaultSignedURL, 0, false},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			var fault countersigntest.ServiceFault
			service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
			s := newService(t, countersigntest.ServiceConfig{
				Sign:  service,
				Fault: func(int, countersign.Callback) countersigntest.ServiceFault { return fault },
			})
			m, err := countersigntest.StartMerchant(countersigntest.MerchantConfig{
				Key: s.MerchantKey(), APIKey: s.APIKey(), CallbackAPIKey: s.CallbackAPIKey(), Orders: countersigntest.SampleOrders, Sign: own, ServiceSigner: service.Public(),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Close)
			if r := s.Deliver(context.Background(), m.Endpoint(), countersigntest.Deposit(1)); r.Err != nil {
				t.Fatal(r.Err)
			}
			before := len(m.Received())
			fault = c.fault
			r := s.Deliver(context.Background(), m.Endpoint(), countersigntest.Deposit(2))
			if (r.Err == nil) != c.accepted {
				t.Errorf("result %v", r.Err)
			}
			if n := len(m.Received()) - before; n != c.received {
				t.Errorf("%d attempts were read, want %d", n, c.received)
			}
		})
	}
	s := newService(t, countersigntest.ServiceConfig{
		Fault: func(int, countersign.Callback) countersigntest.ServiceFault { return countersigntest.FaultSpliced },
	})
	if r := s.Deliver(context.Background(), countersigntest.ToHandler(http.NotFoundHandler()), countersigntest.Deposit(1)); r.Err == nil {
		t.Error("a splice without a delivery before it")
	}
}

// TestSchemeMerchant: both fakes with a pair that the merchant made.
func TestSchemeMerchant(t *testing.T) {
	own, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, countersigntest.ServiceConfig{RequestKey: own.Public(), Padding: envelope.OAEP, ResponsePadding: envelope.OAEP})
	m, err := countersigntest.StartMerchant(countersigntest.MerchantConfig{
		Key: s.MerchantKey(), RequestKey: own, Padding: envelope.OAEP, ResponsePadding: envelope.OAEP,
		APIKey: s.APIKey(), CallbackAPIKey: s.CallbackAPIKey(), Orders: countersigntest.SampleOrders,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, cb := range callbacks() {
		if r := s.Deliver(context.Background(), m.Endpoint(), cb); r.Err != nil {
			t.Errorf("type %d: %v", cb.CallbackType(), r.Err)
		}
	}
}

// TestBadConfigs: what cannot work is said at once.
func TestBadConfigs(t *testing.T) {
	if _, err := countersigntest.MakeService(countersigntest.ServiceConfig{Key: pair().Public()}); err == nil {
		t.Error("a service without a private part")
	}
	for _, k := range []*envelope.Key{nil, pair()} {
		if m, err := countersigntest.StartMerchant(countersigntest.MerchantConfig{Key: k, APIKey: "x"}); err == nil {
			m.Close()
			t.Error("a merchant with the wrong key")
		}
	}
	if countersigntest.Notice(countersign.TypeDeposited, 1) != nil {
		t.Error("a notice of type 1")
	}
	if _, err := countersigntest.Splice([]byte("AAAA"), []byte("AAAA"), 1, 128); err == nil {
		t.Error("a splice of what are no blocks")
	}
	if _, err := countersigntest.Splice([]byte("*"), []byte("AAAA"), 1, 3); err == nil {
		t.Error("a splice of what is no Base64")
	}
}

// TestFaultyInbox: each fault does what its name says.
func TestFaultyInbox(t *testing.T) {
	var fault countersigntest.InboxFault
	m := merchant.NewMemoryInbox()
	f := &countersigntest.FaultyInbox{Inbox: m, Fault: func(string) countersigntest.InboxFault { return fault }}
	claim := func(n int) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err, _ = p.(error)
			}
		}()
		_, err = f.Claim(context.Background(), merchant.NewEntry(countersigntest.Deposit(n)))
		return err
	}
	for n, c := range []struct {
		fault countersigntest.InboxFault
		fails bool
		done  int
	}{
		{countersigntest.NoInboxFault, false, 1},
		{countersigntest.InboxNotDone, true, 0},
		{countersigntest.InboxPanics, true, 0},
		{countersigntest.InboxDoneButFails, true, 1},
	} {
		before := m.Len()
		fault = c.fault
		if err := claim(n); errors.Is(err, countersigntest.ErrInboxFault) != c.fails || m.Len()-before != c.done {
			t.Errorf("fault %d: %v, %d done", c.fault, err, m.Len()-before)
		}
	}
}
