package countersigntest_test

import (
	"context"
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

// newMerchant starts a merchant of s, which knows the orders of Order(n).
func newMerchant(t *testing.T, s *countersigntest.Service, c countersigntest.MerchantConfig) (*countersigntest.Merchant, countersigntest.Endpoint) {
	t.Helper()
	c.Key, c.APIKey, c.CallbackAPIKey, c.Orders = s.MerchantKey(), s.APIKey(), s.CallbackAPIKey(), countersigntest.SampleOrders
	m, err := countersigntest.StartMerchant(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m, countersigntest.ToURLs(m.NotifyURL(), m.WithdrawURL(), nil)
}

func callbacks() []countersign.Callback {
	list := []countersign.Callback{countersigntest.Deposit(1), countersigntest.Withdrawal(1)}
	for _, typ := range []countersign.Type{3, 4, 5, 6, 7} {
		list = append(list, countersigntest.Notice(typ, 1))
	}
	return list
}

// TestHonest: two honest ends understand each other, in every order, form and scheme.
func TestHonest(t *testing.T) {
	own, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []countersigntest.ServiceConfig{
		{}, {UUIDFirst: true}, {Chunk: 40}, {Form: envelope.FormField}, {Form: envelope.FormString}, {Unbound: true},
		{Form: envelope.FormObject, UUIDFirst: true, Chunk: 90},
		{RequestKey: own.Public(), Padding: envelope.OAEP, ResponsePadding: envelope.OAEP},
	} {
		s, mc := newService(t, c), countersigntest.MerchantConfig{Unbound: c.Unbound, Padding: c.Padding, ResponsePadding: c.ResponsePadding}
		if c.RequestKey != nil {
			mc.RequestKey = own
		}
		m, to := newMerchant(t, s, mc)
		for _, cb := range callbacks() {
			for range 2 {
				if r := s.Deliver(context.Background(), to, cb); r.Err != nil || r.Code() != 0 {
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
		if r := s.Deliver(context.Background(), to, countersigntest.Withdrawal(1)); r.Details() != countersigntest.Order(1) {
			t.Errorf("confirmed %+v", r.Details())
		}
		other := countersigntest.Withdrawal(1)
		other.CallBackID = "order-x"
		if r := s.Deliver(context.Background(), to, other); r.Code() != countersign.CodeUnknownOrder {
			t.Errorf("an unknown order: %v", r.Err)
		}
	}
}

// TestMerchantDemands: the fake merchant takes nothing unbound, and at the paths of package merchant their own types.
func TestMerchantDemands(t *testing.T) {
	s := newService(t, countersigntest.ServiceConfig{Unbound: true})
	_, to := newMerchant(t, s, countersigntest.MerchantConfig{})
	if r := s.Deliver(context.Background(), to, countersigntest.Deposit(1)); r.Err == nil {
		t.Error("an unbound request was taken")
	}
	s = newService(t, countersigntest.ServiceConfig{})
	m, _ := newMerchant(t, s, countersigntest.MerchantConfig{})
	at := strings.TrimSuffix(m.NotifyURL(), merchant.DefaultNotifyPath)
	for _, cb := range callbacks() {
		if r := s.Deliver(context.Background(), countersigntest.ToURLs(at+"/hooks?of=1", at+"/hooks", nil), cb); r.Err != nil {
			t.Errorf("type %d at another path: %v", cb.CallbackType(), r.Err)
		}
	}
	r := s.Deliver(context.Background(), countersigntest.ToURLs(m.WithdrawURL(), m.NotifyURL(), nil), countersigntest.Deposit(3))
	if r.Err == nil || m.Taken(countersigntest.Deposit(3).TrackingID) != 0 {
		t.Errorf("a deposit at the path of withdrawals: %v", r.Err)
	}
}

// TestMerchantFaults: the fake service takes exactly what is tolerated, and what
// the merchant did is as the fault says.
func TestMerchantFaults(t *testing.T) {
	untaken := map[countersigntest.MerchantFault]bool{
		countersigntest.FaultNotTaken: true, countersigntest.FaultHang: true, countersigntest.FaultHold: true,
		countersigntest.FaultRefuse: true, countersigntest.FaultForever: true,
	}
	// A deposit's answer may say less than everything.
	forDeposits := map[countersigntest.MerchantFault]bool{countersigntest.FaultNoAmount: true}
	for _, f := range countersigntest.MerchantFaults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
			s := newService(t, countersigntest.ServiceConfig{Sign: service})
			m, to := newMerchant(t, s, countersigntest.MerchantConfig{Sign: own, ServiceSigner: service.Public(),
				Fault: func(int, countersign.Callback) countersigntest.MerchantFault { return f }})
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
				r := s.Deliver(ctx, to, cb)
				cancel()
				deposit := cb.CallbackType() == countersign.TypeDeposited
				wantOK := f.Tolerated() || f.NeedsSigning() || deposit && forDeposits[f] ||
					!deposit && f == countersigntest.FaultDetailsDiffer // this service does not know the order
				if (r.Err == nil) != wantOK {
					t.Errorf("type %d: %v, want success %v", cb.CallbackType(), r.Err, wantOK)
				}
				if !deposit && f == countersigntest.FaultDetailsDiffer && r.Details().Differs(countersigntest.Order(1)) != "amount" {
					t.Errorf("confirmed %+v", r.Details())
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
	m, to := newMerchant(t, s, countersigntest.MerchantConfig{
		Fault: func(int, countersign.Callback) countersigntest.MerchantFault { return fault }})
	for range 2 {
		if r := s.Deliver(context.Background(), to, countersigntest.Deposit(1)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if n := m.Taken("deposit-1"); n != 2 {
		t.Errorf("taken %d times", n)
	}
	fault = countersigntest.FaultAnswersLate
	done := make(chan countersigntest.Result)
	go func() { done <- s.Deliver(context.Background(), to, countersigntest.Deposit(2)) }()
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
	s := newService(t, countersigntest.ServiceConfig{
		Fault: func(int, countersign.Callback) countersigntest.ServiceFault { return countersigntest.FaultSpliced },
	})
	if r := s.Deliver(context.Background(), countersigntest.ToHandler(http.NotFoundHandler()), countersigntest.Deposit(1)); r.Err == nil {
		t.Error("a splice without a delivery before it")
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
