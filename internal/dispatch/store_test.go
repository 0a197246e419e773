package dispatch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
)

// store is an outbox on SQLite that lies the way the world lies: what fails may have been done.
type store struct {
	*outbox.Outbox

	mu       sync.Mutex
	settled  []outbox.Settlement // applied ones
	returned int                 // callbacks that were given back

	senseless string // id of a callback whose settlements are refused

	// fault is asked before and after every call; a true answer makes it fail, before with nothing done, after with
	// everything done.
	fault func(method string, done bool) bool
}

var errFault = errors.New("the database is away")

func newStore(t testing.TB, known ...outbox.Merchant) *store {
	t.Helper()
	d := must(db.Open(t.Context(), db.Config{URL: endtest.SQLite(outbox.End())(t), Keys: db.NewMasterKey([32]byte{1})}, outbox.End()))
	t.Cleanup(func() { d.Close() })
	s := &store{Outbox: outbox.New(d), fault: func(string, bool) bool { return false }}
	for _, m := range known {
		must(s.CreateMerchant(t.Context(), m, now()))
	}
	return s
}

func must[T any](v T, err error) T {
	ok(err)
	return v
}

func ok(err error) {
	if err != nil {
		panic(err)
	}
}

func now() db.Millis { return db.MillisOf(time.Now()) }

// lies runs do, unless a fault comes first.
func lies[T any](s *store, method string, do func() (T, error)) (got T, err error) {
	s.mu.Lock()
	fails := s.fault(method, false)
	s.mu.Unlock()
	if fails {
		return got, errFault
	}
	done, err := do()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.fault(method, true) {
		return got, cmp.Or(err, errFault)
	}
	return done, nil
}

func (s *store) add(n outbox.NewCallback) string {
	done := must(s.Ingest(context.Background(), []outbox.NewCallback{n}, now()))
	return done[0].ID
}

func (s *store) addDeposit(merchant string, n int) string {
	c := depositPayload(n)
	c.Merchant = merchant
	return s.add(c)
}

func (s *store) addWithdrawal(merchant string, n int, within time.Duration, ordered bool) string {
	w := withdrawalPayload(n)
	if w.Merchant, w.Deadline = merchant, db.MillisOf(time.Now().Add(within)); !ordered {
		w.Details = nil
	}
	made := must(s.CreateWithdrawals(context.Background(), []outbox.NewWithdrawal{w}, now()))
	return made[0].Withdrawal.ID
}

// change changes the merchant m1.
func (s *store) change(change func(*outbox.Merchant)) {
	ok(s.Write(context.Background(), func(ctx context.Context, t *db.Tx) error {
		_, err := s.ChangeMerchant(ctx, t, "m1", now(), func(m *outbox.Merchant) error { change(m); return nil })
		return err
	}))
}

func (s *store) merchantM1() outbox.Merchant {
	return must(s.Outbox.Merchant(context.Background(), "m1"))
}

func (s *store) callback(id string) outbox.Callback {
	return must(s.Callback(context.Background(), id))
}

func (s *store) withdrawal(id string) outbox.Withdrawal {
	return must(s.Withdrawal(context.Background(), id))
}

func (s *store) attemptsOf(id string) []outbox.Attempt {
	return must(s.Attempts(context.Background(), id))
}

func (s *store) Claim(ctx context.Context, r outbox.ClaimRequest) ([]outbox.Claimed, error) {
	return lies(s, "claim", func() ([]outbox.Claimed, error) { return s.Outbox.Claim(ctx, r) })
}

func (s *store) NextDue(ctx context.Context, l countersign.Lane, share int) (db.Millis, error) {
	return lies(s, "nextdue", func() (db.Millis, error) { return s.Outbox.NextDue(ctx, l, share) })
}

func (s *store) Settle(ctx context.Context, list []outbox.Settlement, at db.Millis) ([]outbox.Settled, error) {
	for i, x := range list {
		if x.CallbackID == s.senseless {
			return nil, &db.ItemError{Item: i, Err: errFault}
		}
	}
	return lies(s, "settle", func() ([]outbox.Settled, error) {
		done, err := s.Outbox.Settle(ctx, list, at)
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, d := range done {
			if d.Applied {
				s.settled = append(s.settled, list[i])
			}
		}
		return done, err
	})
}

func (s *store) GiveBack(ctx context.Context, list []outbox.Claimed, at db.Millis) error {
	_, err := lies(s, "giveback", func() (struct{}, error) {
		s.mu.Lock()
		s.returned += len(list)
		s.mu.Unlock()
		return struct{}{}, s.Outbox.GiveBack(ctx, list, at)
	})
	return err
}

func (s *store) Sweep(ctx context.Context, at db.Millis) (outbox.Swept, error) {
	return lies(s, "sweep", func() (outbox.Swept, error) { return s.Outbox.Sweep(ctx, at) })
}

func (s *store) Merchant(ctx context.Context, id string) (outbox.Merchant, error) {
	return lies(s, "merchant", func() (outbox.Merchant, error) { return s.Outbox.Merchant(ctx, id) })
}
