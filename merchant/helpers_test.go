package merchant_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"log/slog"
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

// logs gathers what every handler of the whole test run logs; what must not be
// in there is gathered in secrets. TestMain looks for one in the other.
var (
	logs    syncBuffer
	secrets sync.Map
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leakChecker{m}) }

type leakChecker struct{ m *testing.M }

func (l leakChecker) Run() int {
	// Each sequence costs many RSA operations. The command line still decides.
	if err := flag.Set("rapid.checks", "15"); err != nil {
		println(err.Error())
		return 1
	}
	code := l.m.Run()
	text := logs.String()
	secrets.Range(func(secret, _ any) bool {
		if s := secret.(string); len(s) >= 8 && strings.Contains(text, s) {
			println("a secret is in the log of the test run")
			code = 1
		}
		return true
	})
	return code
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

// pair is one pair for the whole test binary.
var pair = sync.OnceValue(func() *envelope.Key { return mustKey(1024) })

func mustKey(bits int) *envelope.Key {
	k, err := envelope.GenerateKey(bits)
	if err != nil {
		panic(err)
	}
	return k
}

func newService(tb testing.TB, c countersigntest.ServiceConfig) *countersigntest.Service {
	tb.Helper()
	if c.Key == nil {
		c.Key = pair()
	}
	s := must(countersigntest.MakeService(c))(tb)
	secrets.Store(s.APIKey().Reveal(), true)
	secrets.Store(s.CallbackAPIKey().Reveal(), true)
	secrets.Store(s.MerchantKey().PublicBase64(), true)
	secrets.Store(s.MerchantKey().PublicBase64()[30:70], true)
	return s
}

// sealedBody is a request body of cb.
func sealedBody(t failer, s *countersigntest.Service, cb countersign.Callback) []byte {
	t.Helper()
	body, _, err := s.Body(cb)
	ok(t, err)
	return body
}

func newHandler(tb testing.TB, c merchant.Config) *merchant.Handler {
	tb.Helper()
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return must(merchant.New(c))(tb)
}

// failer is a test, a benchmark, a fuzz test or a property's run.
type failer interface {
	Helper()
	Fatal(...any)
}

// must returns v of a call that may not fail here.
func must[T any](v T, err error) func(failer) T {
	return func(t failer) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is a time-out that no test waits for and no machine is too slow for.
const patience = 10 * time.Minute

// world is an honest service and a handler that counts.
type world struct {
	service *countersigntest.Service
	handler *merchant.Handler
	inbox   merchant.Inbox
	to      countersigntest.Endpoint

	mu       sync.Mutex
	deposits map[string]int // OnDeposit that returned nil, by trackingId
	suspects map[string]int // OnPossibleDuplicate likewise
	asked    map[string]int // OnWithdrawal, by callBackId
	notices  []countersign.Callback
	seen     []merchant.Observation
}

func (w *world) Observe(o merchant.Observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, o)
}

// observed is how many requests have ended.
func (w *world) observed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// last is how the last request ended.
func (w *world) last() merchant.Observation {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) == 0 {
		return merchant.Observation{}
	}
	return w.seen[len(w.seen)-1]
}

func (w *world) effects(trackingID string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deposits[trackingID]
}

func (w *world) total() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.notices)
	for _, m := range []map[string]int{w.deposits, w.suspects, w.asked} {
		for _, k := range m {
			n += k
		}
	}
	return n
}

func (w *world) deliver(cb countersign.Callback) countersigntest.Result {
	return w.service.Deliver(context.Background(), w.to, cb)
}

// newWorld makes one; change may alter the merchant's configuration.
func newWorld(tb testing.TB, sc countersigntest.ServiceConfig, change func(*merchant.Config)) *world {
	tb.Helper()
	w := &world{
		service: newService(tb, sc), inbox: merchant.NewMemoryInbox(),
		deposits: map[string]int{}, suspects: map[string]int{}, asked: map[string]int{},
	}
	c := w.service.MerchantConfig()
	c.Inbox = w.inbox
	c.Observer = w
	c.BodyTimeout = patience
	c.OnDeposit = func(_ context.Context, d merchant.Deposit) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if d.PossibleDuplicate || d.Seq <= 0 {
			return errors.New("not a deposit for this function")
		}
		w.deposits[d.TrackingID]++
		return nil
	}
	c.OnPossibleDuplicate = func(_ context.Context, d merchant.Deposit) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.suspects[d.TrackingID]++
		return nil
	}
	c.OnWithdrawal = func(_ context.Context, r countersign.WithdrawalRequest) (merchant.Answer, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked[r.CallBackID]++
		if o, ok := countersigntest.SampleOrders(r.CallBackID); ok {
			return merchant.Confirm(r.TenantUserID, o), nil
		}
		return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil
	}
	c.OnNotice = func(_ context.Context, cb countersign.Callback) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.notices = append(w.notices, cb)
		return nil
	}
	if change != nil {
		change(&c)
	}
	w.inbox = c.Inbox
	w.handler = newHandler(tb, c)
	w.to = countersigntest.ToHandler(w.handler)
	tb.Cleanup(func() { _ = w.handler.Wait(context.Background()) })
	return w
}

// refused checks the errCode of a result and how the handler saw it.
func (w *world) refused(t *testing.T, r countersigntest.Result, status int, code countersign.ErrCode, reason merchant.Reason) {
	t.Helper()
	o := w.last()
	if r.Status != status || r.Code() != code || o.Reason != reason || o.Status != status {
		t.Errorf("status %d, errCode %d, reason %q (%v); want %d, %d, %q", r.Status, r.Code(), o.Reason, r.Err, status, code, reason)
	}
	if r.Response.Data != "" {
		t.Error("a refusal has data")
	}
	if code > 0 && r.Response.Message == "" {
		t.Error("a refusal has no message")
	}
}

func (w *world) accepted(t *testing.T, r countersigntest.Result, reason merchant.Reason) {
	t.Helper()
	if r.Err != nil || w.last().Reason != reason {
		t.Errorf("result %v, reason %q; want success, %q", r.Err, w.last().Reason, reason)
	}
}

// inboxFault is one way in which a store fails.
type inboxFault int

const (
	noFault      inboxFault = iota
	notDone                 // it fails, and nothing has happened
	doneButFails            // it fails, and it has happened
	panics                  // it panics, and nothing has happened
)

var errInbox = errors.New("the inbox fails on purpose")

// faultyInbox fails as fault says for each call, "claim" or "settle".
type faultyInbox struct {
	*merchant.MemoryInbox
	fault func(call string) inboxFault
}

func (f *faultyInbox) Claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	return fail(f.fault("claim"), func() (merchant.Claimed, error) { return f.MemoryInbox.Claim(ctx, e) })
}

func (f *faultyInbox) Settle(ctx context.Context, s merchant.Settlement) (merchant.Reply, error) {
	return fail(f.fault("settle"), func() (merchant.Reply, error) { return f.MemoryInbox.Settle(ctx, s) })
}

func fail[T any](fault inboxFault, do func() (T, error)) (got T, err error) {
	switch fault {
	case notDone:
		return got, errInbox
	case panics:
		panic(errInbox)
	}
	if got, err = do(); fault == doneButFails {
		err = cmp.Or(err, errInbox)
	}
	return got, err
}
