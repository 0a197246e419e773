package sqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/merchant"
	"countersign/merchant/sqlinbox"
)

// TestInbox holds the inbox to the rules of merchant.Inbox, with two processes'
// connections.
func TestInbox(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		one, other := s.open(t), s.open(t)
		countersigntest.CheckInbox(t, func() (merchant.Inbox, merchant.Inbox) {
			run(t, one, `DELETE FROM countersign_inbox`)
			run(t, one, `DELETE FROM countersign_blocks`)
			none := func(c *sqlinbox.Config) { c.OnDeposit, c.OnPossibleDuplicate = nil, nil }
			return s.inbox(t, one, none), s.inbox(t, other, none)
		})
	})
}

func TestNewRefuses(t *testing.T) {
	db, err := sql.Open("sqlite", "file::memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	credit := func(context.Context, *sql.Tx, merchant.Deposit) error { return nil }
	for name, c := range map[string]sqlinbox.Config{
		"DB is missing":                  {Dialect: sqlinbox.SQLite},
		"Dialect is missing":             {DB: db},
		"OnPossibleDuplicate is missing": {DB: db, Dialect: sqlinbox.SQLite, OnDeposit: credit},
		"call Create before New":         {DB: db, Dialect: sqlinbox.SQLite},
	} {
		if _, err := sqlinbox.New(c); !errors.Is(err, sqlinbox.ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("New gave %v, want %q", err, name)
		}
	}
	if err := sqlinbox.Create(ctx, db, ""); err == nil {
		t.Error("tables of no dialect were made")
	}
	db.SetMaxOpenConns(1) // another connection would have another database
	if err := sqlinbox.Create(ctx, db, sqlinbox.SQLite); err != nil {
		t.Fatal(err)
	}
	// Two functions for one type: one of them would never be called.
	in, err := sqlinbox.New(sqlinbox.Config{DB: db, Dialect: sqlinbox.SQLite, OnDeposit: credit, OnPossibleDuplicate: sqlinbox.KeepForReview})
	if err != nil {
		t.Fatal(err)
	}
	c := newService(t).MerchantConfig()
	c.Inbox, c.OnPossibleDuplicate = in, merchant.KeepForReview
	if _, err := merchant.New(c); !errors.Is(err, merchant.ErrConfig) || !strings.Contains(err.Error(), "OnPossibleDuplicate is set") {
		t.Errorf("merchant.New gave %v", err)
	}
}

// TestCreate: the tables are made once, whoever makes them how often and at once.
func TestCreate(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		// Where nothing keeps them apart, one round in some twenty fails.
		for range 10 {
			for _, table := range []string{"countersign_inbox", "countersign_blocks", "countersign_locks"} {
				run(t, db, `DROP TABLE `+table)
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if err := sqlinbox.Create(ctx, db, s.dialect); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		service, to := serve(t, s.inbox(t, db, nil), nil)
		deliver(t, service, to, countersigntest.Deposit(1), 0)
		if err := sqlinbox.Create(ctx, db, s.dialect); err != nil {
			t.Fatal(err)
		}
		deliver(t, service, to, countersigntest.Deposit(1), 0)
		booked(t, db, 1)
	})
}

// TestCredits: deposits that come at once, again and as possible duplicates through two
// processes' connections are credited once each.
func TestCredits(t *testing.T) {
	const deposits, times = 12, 4
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		service, to := serve(t, s.inbox(t, db, nil), nil)
		nodes := []countersigntest.Endpoint{to, node(t, service, s.inbox(t, s.open(t), nil), nil)}
		var wg sync.WaitGroup
		for n := range deposits * times {
			wg.Go(func() { deliver(t, service, nodes[n%2], countersigntest.Deposit(n/times), 0) })
		}
		wg.Wait()
		booked(t, db, deposits)
		// The same transfer under another trackingId is kept and not credited.
		again := countersigntest.Deposit(1)
		again.TrackingID = "another"
		deliver(t, service, to, again, 0)
		deliver(t, service, nodes[1], again, 0)
		if n := count(t, db, `SELECT COUNT(*) FROM countersign_inbox WHERE duplicate = 1 AND settled = 1`); n != 1 {
			t.Errorf("%d possible duplicates, want 1", n)
		}
		// Other content under the same trackingId changes nothing.
		changed := countersigntest.Deposit(2)
		changed.Amount = countersigntest.Deposit(3).Amount
		deliver(t, service, to, changed, countersign.CodeDetailsDiffer)
		if n := count(t, db, `SELECT COUNT(*) FROM credits`); n != deposits {
			t.Errorf("%d credits, want %d", n, deposits)
		}
	})
}

// TestFails: what the function wrote is gone if it fails in any way, nothing is
// recorded, and the next attempt credits once.
func TestFails(t *testing.T) {
	type fault struct {
		name string
		fail func(ctx context.Context, tx *sql.Tx) error
		want countersign.ErrCode
	}
	faults := []fault{
		{"error", func(context.Context, *sql.Tx) error { return errors.New("no such user") }, countersign.CodeInternal},
		{"hold", func(context.Context, *sql.Tx) error { return &merchant.CodeError{Code: countersign.CodeNotKnownYet} }, countersign.CodeNotKnownYet},
		{"refusal", func(context.Context, *sql.Tx) error { return &merchant.CodeError{Code: countersign.CodeRefusedPolicy} }, countersign.CodeRefusedPolicy},
		{"panic", func(context.Context, *sql.Tx) error { panic("a bug") }, countersign.CodeInternal},
		{"time-out", func(ctx context.Context, _ *sql.Tx) error { <-ctx.Done(); return nil }, countersign.CodeInternal},
		{"rolled back", func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }, countersign.CodeInternal},
	}
	swallowed := fault{"swallowed", func(ctx context.Context, tx *sql.Tx) error {
		_, _ = tx.ExecContext(ctx, `INSERT INTO no_such_table VALUES (1)`)
		return nil
	}, countersign.CodeInternal}
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		var now atomic.Pointer[fault]
		service, to := serve(t, s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnDeposit = func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
				f := now.Load()
				if err := s.credit(ctx, tx, d); err != nil || f == nil {
					return err
				}
				return f.fail(ctx, tx)
			}
		}), func(c *merchant.Config) { c.Timeout = 500 * time.Millisecond })
		faults := faults
		if s.dialect == sqlinbox.PostgreSQL { // which alone ends the transaction with the statement that failed
			faults = append(slices.Clone(faults), swallowed)
		}
		for n, f := range faults {
			t.Run(f.name, func(t *testing.T) {
				d, want := countersigntest.Deposit(n), f.want
				now.Store(&f)
				before := count(t, db, `SELECT COUNT(*) FROM credits`)
				for range 2 {
					deliver(t, service, to, d, want)
				}
				waitFor(t, func() bool { return count(t, db, `SELECT COUNT(*) FROM credits`) == before })
				if n := count(t, db, s.text(`SELECT COUNT(*) FROM countersign_inbox WHERE content = ?`), contentOf(d)); n != 0 {
					t.Errorf("%d entries are recorded", n)
				}
				now.Store(nil)
				for range 2 {
					deliver(t, service, to, d, 0)
				}
				booked(t, db, before+1)
			})
		}
	})
}

// waitFor waits until ok holds.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come true")
		}
	}
}

func contentOf(cb countersign.Callback) []byte {
	e := merchant.NewEntry(cb)
	return e.Content[:]
}

// TestCancelled: a caller that gives up gets no effect, and neither holds up the next.
func TestCancelled(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		entered, block := make(chan struct{}, 2), true
		in := s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnDeposit = func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
				if err := s.credit(ctx, tx, d); err != nil || !block {
					return err
				}
				entered <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
		})
		e := merchant.NewEntry(countersigntest.Deposit(1))
		e.At = time.Now()
		short, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			_, err := in.Claim(short, e)
			done <- err
		}()
		<-entered
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the call gave %v", err)
		}
		block = false
		if got, err := in.Claim(ctx, e); err != nil || got.State != merchant.StateTaken {
			t.Errorf("the next gave %v, %v", got.State, err)
		}
		booked(t, db, 1)
	})
}

// TestWithdrawals: what OnWithdrawal wrote is kept if its answer is, and the first
// recorded answer stands.
func TestWithdrawals(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		var answer func(n int) (merchant.Answer, error)
		calls := 0
		in := s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnWithdrawal = func(ctx context.Context, tx *sql.Tx, w countersign.WithdrawalRequest) (merchant.Answer, error) {
				calls++
				_, err := tx.ExecContext(ctx, s.text(`INSERT INTO credits (tracking_id) VALUES (?)`), w.CallBackID)
				if err != nil {
					return merchant.Answer{}, err
				}
				return answer(calls)
			}
		})
		service, to := serve(t, in, nil)
		user := func(n int) string { return countersigntest.Withdrawal(n).TenantUserID }
		written := func(n, want int) {
			t.Helper()
			got := count(t, db, s.text(`SELECT COUNT(*) FROM credits WHERE tracking_id = ?`), countersigntest.Withdrawal(n).CallBackID)
			if got != want {
				t.Errorf("withdrawal %d: the function's rows are %d, want %d", n, got, want)
			}
		}
		// A hold keeps nothing, and is asked again.
		answer = func(int) (merchant.Answer, error) { return merchant.Hold(countersign.CodeAwaitingApproval, ""), nil }
		deliver(t, service, to, countersigntest.Withdrawal(1), countersign.CodeAwaitingApproval)
		written(1, 0)
		answer = func(int) (merchant.Answer, error) { return merchant.Confirm(user(1), countersigntest.Order(1)), nil }
		for range 3 {
			r := deliver(t, service, to, countersigntest.Withdrawal(1), 0)
			if !r.Details().Amount.Equal(countersigntest.Order(1).Amount) {
				t.Errorf("the answer is %+v", r.Details())
			}
		}
		// From then on another user's is a contradiction.
		other := countersigntest.Withdrawal(1)
		other.TenantUserID = "another"
		deliver(t, service, to, other, countersign.CodeDetailsDiffer)
		written(1, 1)
		if calls != 4 {
			t.Errorf("the function was called %d times, want 4", calls)
		}
		// A refusal is recorded, from an error too, but then without what was written.
		answer = func(int) (merchant.Answer, error) { return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil }
		deliver(t, service, to, countersigntest.Withdrawal(2), countersign.CodeUnknownOrder)
		answer = func(int) (merchant.Answer, error) {
			return merchant.Answer{}, &merchant.CodeError{Code: countersign.CodeRefusedPolicy, Message: "größer als erlaubt 🚫"}
		}
		deliver(t, service, to, countersigntest.Withdrawal(3), countersign.CodeRefusedPolicy)
		answer = func(int) (merchant.Answer, error) { return merchant.Confirm(user(3), countersigntest.Order(3)), nil }
		deliver(t, service, to, countersigntest.Withdrawal(2), countersign.CodeUnknownOrder)
		r := deliver(t, service, to, countersigntest.Withdrawal(3), countersign.CodeRefusedPolicy)
		if r.Response.Message != "größer als erlaubt 🚫" {
			t.Errorf("the message came back as %q", r.Response.Message)
		}
		written(2, 1)
		written(3, 0)
		// Any other error records nothing for ever.
		answer = func(int) (merchant.Answer, error) { return merchant.Answer{}, errors.New("no order book") }
		deliver(t, service, to, countersigntest.Withdrawal(4), countersign.CodeInternal)
		answer = func(int) (merchant.Answer, error) { return merchant.Confirm(user(4), countersigntest.Order(4)), nil }
		deliver(t, service, to, countersigntest.Withdrawal(4), 0)
		written(4, 1)
	})
}

// TestAskedAgain: a question that was confirmed is judged again. The application may refuse it,
// with what it writes then, and a type 3 or 5 does by itself, before the first question too.
func TestAskedAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		refuse := false
		var reasons reasons
		service, to := serve(t, s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnWithdrawal = func(ctx context.Context, tx *sql.Tx, w countersign.WithdrawalRequest) (merchant.Answer, error) {
				_, err := tx.ExecContext(ctx, s.text(`INSERT INTO credits (tracking_id) VALUES (?)`), w.CallBackID)
				if refuse {
					return merchant.Refuse(countersign.CodeOrderCancelled, ""), err
				}
				return merchant.Confirm(w.TenantUserID, countersigntest.Order(1)), err
			}
		}), func(c *merchant.Config) { c.Observer = &reasons })
		ended := 0
		written := func(want int) {
			t.Helper()
			if n := count(t, db, `SELECT COUNT(*) FROM credits`); n != want {
				t.Errorf("the function's rows are %d, want %d", n, want)
			}
			if n := reasons.count(merchant.ReasonEndedAgain); n != ended {
				t.Errorf("%d questions after an end were told of, want %d", n, ended)
			}
		}
		question := countersigntest.Withdrawal(1)
		deliver(t, service, to, question, 0)
		deliver(t, service, to, question, 0)
		written(1)
		refuse = true
		deliver(t, service, to, question, countersign.CodeOrderCancelled)
		ended++
		written(2)
		refuse = false
		deliver(t, service, to, question, countersign.CodeOrderCancelled)
		written(2)
		for n, typ := range []countersign.Type{countersign.TypeWithdraw, countersign.TypeInvalidAddress} {
			for _, asked := range []bool{true, false} {
				question := countersigntest.Withdrawal(10)
				question.CallBackID = fmt.Sprint("ended-", n, asked)
				if asked {
					ended++
					deliver(t, service, to, question, 0)
				}
				switch end := countersigntest.Notice(typ, 1).(type) {
				case *countersign.WithdrawalDone:
					end.CallBackID, end.TrackingID = question.CallBackID, question.CallBackID
					deliver(t, service, to, end, 0)
				case *countersign.WithdrawalEnded:
					end.CallBackID, end.TrackingID = question.CallBackID, question.CallBackID
					deliver(t, service, to, end, 0)
				}
				deliver(t, service, to, question, countersign.CodeOrderCancelled)
				deliver(t, service, to, question, countersign.CodeOrderCancelled)
			}
		}
		written(4)
	})
}

// reasons counts how requests ended.
type reasons struct {
	mu  sync.Mutex
	all []merchant.Reason
}

func (r *reasons) Observe(o merchant.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, o.Reason)
}

func (r *reasons) count(reason merchant.Reason) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		if one == reason {
			n++
		}
	}
	return n
}

// TestOneAnswer: two processes that are asked at once with different answers in
// mind give one.
func TestOneAnswer(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		var wg sync.WaitGroup
		amounts := make(chan string, 8)
		service := newService(t)
		for n := range cap(amounts) {
			to := node(t, service, s.inbox(t, s.open(t), func(c *sqlinbox.Config) {
				c.OnWithdrawal = func(_ context.Context, _ *sql.Tx, w countersign.WithdrawalRequest) (merchant.Answer, error) {
					return merchant.Confirm(w.TenantUserID, countersigntest.Order(n)), nil
				}
			}), nil)
			wg.Go(func() {
				r := deliver(t, service, to, countersigntest.Withdrawal(1), 0)
				if r.Answer != nil {
					amounts <- r.Details().Amount.String()
				}
			})
		}
		wg.Wait()
		close(amounts)
		first := <-amounts
		for next := range amounts {
			if next != first {
				t.Errorf("answers with %s and %s", first, next)
			}
		}
	})
}

// TestNotices: a notice has its effect once, in the transaction of its record.
func TestNotices(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		fail := true
		service, to := serve(t, s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnNotice = func(ctx context.Context, tx *sql.Tx, cb countersign.Callback) error {
				_, err := tx.ExecContext(ctx, s.text(`INSERT INTO credits (tracking_id) VALUES (?)`), fmt.Sprint(cb.CallbackType(), cb.EventID()))
				if err == nil && fail {
					err = errors.New("not now")
				}
				return err
			}
		}), nil)
		types := slices.DeleteFunc(countersign.TypeUnknown.Values(), func(t countersign.Type) bool {
			return !t.Effect().IsNotice() || t == countersign.TypeAddress // whose sample has no trackingId
		})
		for _, want := range []countersign.ErrCode{countersign.CodeInternal, 0, 0} {
			for _, typ := range types {
				deliver(t, service, to, countersigntest.Notice(typ, 1), want)
			}
			fail = false
		}
		booked(t, db, len(types))
	})
}

// TestDeadlocks: transactions that the database ends because they wait for each other
// are repeated, and have their effects once.
func TestDeadlocks(t *testing.T) {
	const deposits = 5 // few: PostgreSQL looks for a deadlock after a second
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		for _, user := range []string{"a", "b"} {
			run(t, db, s.text(`INSERT INTO balances (user_id, n) VALUES (?, 0)`), user)
		}
		var calls sync.Map
		// The first that holds the one row waits for the first that holds the other, so that
		// each then waits for the other in the database, which sees that.
		var holds [2]sync.Once
		held := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		service, to := serve(t, s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnDeposit = func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
				if _, again := calls.LoadOrStore(d.TrackingID, true); again {
					calls.Store("again", true)
				}
				first := int(d.Amount.String()[3]-'0') % 2 // by the number of the deposit
				for i, user := range []int{first, 1 - first} {
					if _, err := tx.ExecContext(ctx, s.text(`UPDATE balances SET n = n + 1 WHERE user_id = ?`), []string{"a", "b"}[user]); err != nil {
						return fmt.Errorf("booking: %w", err)
					}
					if i == 0 && s.dialect != sqlinbox.SQLite { // which has one writer
						holds[first].Do(func() {
							close(held[first])
							<-held[1-first]
						})
					}
				}
				return s.credit(ctx, tx, d)
			}
		}), func(c *merchant.Config) { c.Timeout = time.Minute })
		var wg sync.WaitGroup
		for n := range deposits {
			wg.Go(func() { deliver(t, service, to, countersigntest.Deposit(n), 0) })
		}
		wg.Wait()
		booked(t, db, deposits)
		if n := count(t, db, `SELECT SUM(n) FROM balances`); n != 2*deposits {
			t.Errorf("the balances are %d, want %d", n, 2*deposits)
		}
		if _, again := calls.Load("again"); !again && s.dialect != sqlinbox.SQLite {
			t.Error("no transaction was repeated: the test shows nothing")
		}
	})
}

// TestSwallowedDeadlock: a function that hides the deadlock at which the database ended its
// transaction credits nothing, so nothing is recorded, also of a deposit that was known
// before. Asked again, it is credited once.
func TestSwallowedDeadlock(t *testing.T) {
	stores[2].run(t, func(t *testing.T, s store) { // MariaDB: SQLite has no deadlocks, and PostgreSQL commits nothing after an error
		db := s.open(t)
		for _, user := range []string{"a", "b"} {
			run(t, db, s.text(`INSERT INTO balances (user_id, n) VALUES (?, 0)`), user)
		}
		add := s.text(`UPDATE balances SET n = n + 1 WHERE user_id = ?`)
		meets, hidden := true, false
		in := s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnDeposit = func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
				if err := s.credit(ctx, tx, d); err != nil {
					return err
				}
				if !meets {
					return nil
				}
				// The other transaction has b, and waits for a. It has written more, so that
				// this one is the victim.
				other, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer func() { _ = other.Rollback() }()
				for n := range 50 {
					if _, err := other.ExecContext(ctx, s.text(`INSERT INTO balances (user_id, n) VALUES (?, 0)`), fmt.Sprint("weight-", n)); err != nil {
						return err
					}
				}
				if _, err := tx.ExecContext(ctx, add, "a"); err != nil {
					return err
				}
				if _, err := other.ExecContext(ctx, add, "b"); err != nil {
					return err
				}
				waits := make(chan error, 1)
				go func() { _, err := other.ExecContext(ctx, add, "a"); waits <- err }()
				time.Sleep(100 * time.Millisecond) // for it to wait; else no deadlock comes, which fails the test
				_, err = tx.ExecContext(ctx, add, "b")
				hidden = err != nil
				<-waits
				return nil // the fault
			}
		})
		e := merchant.NewEntry(countersigntest.Deposit(1))
		e.At, e.Lease = time.Now(), time.Minute
		if c, err := in.Claim(ctx, e); err != nil || c.State != merchant.StateClaimed {
			t.Fatal(c, err)
		}
		act := func() (merchant.Claimed, error) {
			return in.Act(ctx, e, func(_ merchant.Answer, err error) (merchant.Reply, bool) { return merchant.Reply{}, err == nil })
		}
		switch got, err := act(); {
		case !hidden:
			t.Fatalf("no deadlock: the test shows nothing (%v, %v)", got, err)
		case err == nil:
			t.Fatalf("the deposit was recorded as %v without its credit", got.State)
		}
		booked(t, db, 0)
		meets = false
		if got, err := act(); err != nil || got.State != merchant.StateTaken {
			t.Fatal(got, err)
		}
		booked(t, db, 1)
	})
}

// TestBusy: another writer of a SQLite database is waited for.
func TestBusy(t *testing.T) {
	stores[0].run(t, func(t *testing.T, s store) { // SQLite, the one with one writer
		db, other := s.open(t), s.open(t)
		tx, err := other.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(`INSERT INTO balances (user_id, n) VALUES ('x', 1)`); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(200*time.Millisecond, func() { _ = tx.Commit() })
		service, to := serve(t, s.inbox(t, db, nil), nil)
		deliver(t, service, to, countersigntest.Deposit(1), 0)
		booked(t, db, 1)
	})
}

// hostile are identifiers that a collation, a padding or a character set could take for
// each other.
var hostile = []string{
	"a", "A", "a ", "a  ", " a", "á", "a\u0301", "ａ", "ß", "ss", "ẞ", "ı", "i", "I", "İ", "🙂", "🙃", "\ufeffa", "a\u200b", "0", "00", "0.0", "1e3",
	"'; DROP TABLE credits; --", `"`, `\`, `\'`, "?", "$1", ":a", "%", "_", "\x01", "\u0085", "a\n", "a\t", "a\r\n", "NULL", "null",
	strings.Repeat("x", 1023), strings.Repeat("x", 1024), strings.Repeat("🙂", 256),
}

// TestHostileText: identifiers are told apart byte for byte, and come back as they were.
func TestHostileText(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		calls := map[string]int{}
		in := s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnDeposit = func(_ context.Context, _ *sql.Tx, d merchant.Deposit) error { calls[d.TrackingID]++; return nil }
			c.OnWithdrawal = func(_ context.Context, _ *sql.Tx, w countersign.WithdrawalRequest) (merchant.Answer, error) {
				return merchant.Confirm(w.TenantUserID, countersigntest.Order(1)), nil
			}
		})
		service, to := serve(t, in, nil)
		for range 2 {
			for n, id := range hostile {
				d := countersigntest.Deposit(n)
				d.TrackingID, d.TenantUserID, d.FromAddress = id, id, id
				deliver(t, service, to, d, 0)
				w := countersigntest.Withdrawal(n)
				w.CallBackID, w.TrackingID = id, id
				if len(id) < 1000 { // the answer must fit
					deliver(t, service, to, w, 0)
				}
			}
		}
		for _, id := range hostile {
			if calls[id] != 1 {
				t.Errorf("%.20q was credited %d times", id, calls[id])
			}
		}
		var id, callback []byte
		err := db.QueryRow(s.text(`SELECT id, callback FROM countersign_inbox WHERE content = ? AND type = 2`), contentOf(func() countersign.Callback {
			w := countersigntest.Withdrawal(15)
			w.CallBackID, w.TrackingID = hostile[15], hostile[15]
			return w
		}())).Scan(&id, &callback)
		if err != nil || string(id) != hostile[15] || !strings.Contains(string(callback), hostile[15]) {
			t.Errorf("people read %q, %q, %v", id, callback, err)
		}
	})
}

// TestSuspect: a request that shares a block with another is kept for a person, also when
// it comes again after its function failed.
func TestSuspect(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		fail, asked := true, 0
		in := s.inbox(t, db, func(c *sqlinbox.Config) {
			c.OnPossibleDuplicate = func(_ context.Context, _ *sql.Tx, d merchant.Deposit) error {
				asked++
				if fail {
					return errors.New("not now")
				}
				if !d.Suspect || d.PossibleDuplicate {
					t.Errorf("suspect %v, possible duplicate %v", d.Suspect, d.PossibleDuplicate)
				}
				return nil
			}
		})
		claim := func(n int, body, own byte) (merchant.State, error) {
			e := merchant.NewEntry(countersigntest.Deposit(n))
			e.At = time.Now()
			e.Blocks = &merchant.Blocks{Body: merchant.BlockDigest{body}, List: []merchant.Block{
				{Digest: merchant.BlockDigest{1}, Owner: merchant.BlockDigest{byte(n)}}, {Digest: merchant.BlockDigest{own}, Own: true}}}
			c, err := in.Claim(ctx, e)
			return c.State, err
		}
		if state, err := claim(1, 11, 21); state != merchant.StateTaken {
			t.Fatalf("the first: %v, %v", state, err)
		}
		for range 2 { // the very same request
			if _, err := claim(2, 12, 22); err == nil {
				t.Error("a suspect deposit was taken though its function failed")
			}
		}
		fail = false
		if state, err := claim(2, 12, 22); state != merchant.StateTaken {
			t.Errorf("the suspect one: %v, %v", state, err)
		}
		if asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
		if credits, entries := count(t, db, `SELECT COUNT(*) FROM credits`), count(t, db, `SELECT COUNT(*) FROM countersign_inbox WHERE suspect = 1`); credits != 1 || entries != 1 {
			t.Errorf("%d credits, %d suspect entries, want 1 and 1", credits, entries)
		}
	})
}

// TestPrune: blocks are kept for 30 days, and then forgotten.
func TestPrune(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		in := s.inbox(t, db, nil)
		now := time.Now()
		for n := range 3 {
			e := merchant.NewEntry(countersigntest.Deposit(n))
			e.At = now.Add(-time.Duration(29+n) * 24 * time.Hour)
			e.Blocks = &merchant.Blocks{Body: merchant.BlockDigest{byte(n)}, List: []merchant.Block{{Digest: merchant.BlockDigest{byte(n)}, Own: true}}}
			if _, err := in.Claim(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Prune(ctx, now.Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db, `SELECT COUNT(*) FROM countersign_blocks`); n != 2 {
			t.Errorf("%d blocks are left, want 2", n)
		}
		booked(t, db, 3)
	})
}

// TestWithoutTables: an error that says what is missing, and no answer but "again".
func TestWithoutTables(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		service, to := serve(t, s.inbox(t, db, nil), nil)
		if s.dialect != sqlinbox.SQLite {
			run(t, db, `DELETE FROM countersign_locks WHERE n > 10`)
			_, err := s.inbox(t, db, nil).Claim(ctx, merchant.NewEntry(countersigntest.Deposit(1)))
			if err == nil || !strings.Contains(err.Error(), "sqlinbox.DDL") {
				t.Errorf("without the rows of countersign_locks: %v", err)
			}
		}
		run(t, db, `DROP TABLE countersign_inbox`)
		deliver(t, service, to, countersigntest.Deposit(1), countersign.CodeInternal)
		if n := count(t, db, `SELECT COUNT(*) FROM credits`); n != 0 {
			t.Errorf("%d credits without a record", n)
		}
	})
}

// TestOnlyActSettles: a caller that does not know merchant.Transactor records nothing
// without its effect.
func TestOnlyActSettles(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		in := s.inbox(t, db, nil)
		e := merchant.NewEntry(countersigntest.Deposit(1))
		e.At, e.Lease = time.Now(), time.Minute
		c, err := in.Claim(ctx, e)
		if err != nil || c.State != merchant.StateClaimed {
			t.Fatalf("claiming: %v, %v", c.State, err)
		}
		if _, err := in.Settle(ctx, merchant.Settlement{Type: countersign.TypeDeposited, ID: e.ID, Claim: c.Claim, Final: true, At: e.At}); err == nil {
			t.Error("it was settled without its credit")
		}
		e.Lease = 0
		for _, want := range []merchant.State{merchant.StateTaken, merchant.StateSettled} {
			if c, err := in.Claim(ctx, e); err != nil || c.State != want {
				t.Errorf("claiming without a lease: %v, %v, want %v", c.State, err, want)
			}
		}
		booked(t, db, 1)
	})
}

// TestVerify: while the network is asked about a deposit no transaction is open, and
// nothing is credited before the answer.
func TestVerify(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		db := s.open(t)
		answers := []merchant.Verdict{merchant.VerdictNotYet, merchant.VerdictNo, merchant.VerdictYes}
		service, to := serve(t, s.inbox(t, db, nil), func(c *merchant.Config) {
			c.Verify = func(context.Context, countersign.Deposit) (merchant.Verdict, error) {
				if n := db.Stats().InUse; n != 0 {
					t.Errorf("%d connections are in use", n)
				}
				if n := count(t, db, `SELECT COUNT(*) FROM credits`); n != 0 {
					t.Errorf("%d credits before the answer", n)
				}
				answer := answers[0]
				answers = answers[1:]
				return answer, nil
			}
		})
		for _, want := range []countersign.ErrCode{countersign.CodeNotKnownYet, countersign.CodeRefusedPolicy, 0, 0} {
			deliver(t, service, to, countersigntest.Deposit(1), want)
		}
		booked(t, db, 1)
	})
}
