package outbox

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

var ctx = context.Background()

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// testKeys is the master key of all test databases.
var testKeys = db.NewMasterKey([32]byte{7})

// urls has the URL of each open outbox.
var urls sync.Map

// tampered are outboxes whose tables a test has changed past the program.
var tampered sync.Map

// another returns a second node of the same database, where there can be one.
func another(t testing.TB, s *Outbox) *Outbox {
	t.Helper()
	url, _ := urls.Load(s)
	if !s.Dialect().Shared {
		return s
	}
	return openAt(t, url.(string))
}

func openAt(t testing.TB, url string) *Outbox {
	t.Helper()
	return openWith(t, url, testKeys)
}

func openWith(t testing.TB, url string, key *db.MasterKey) *Outbox {
	t.Helper()
	d := must(db.Open(ctx, db.Config{URL: url, Keys: key}, End()))(t)
	s := New(d)
	t.Cleanup(func() {
		if _, changed := tampered.Load(s); !changed && !t.Failed() && d.Ping(ctx) == nil {
			checkKept(t, s)
		}
		d.Close()
	})
	urls.Store(s, url)
	return s
}

// testPair is one RSA pair for all tests: making pairs takes long.
var testPair = sync.OnceValue(func() *envelope.Key {
	k, err := envelope.GenerateKey(1024)
	if err != nil {
		panic(err)
	}
	return k
})

func must[T any](v T, err error) func(dbtest.Failer) T { return dbtest.Must(v, err) }

var ok = dbtest.OK

func newMerchant(id string) Merchant {
	return Merchant{
		KeySet: KeySet{MerchantKeys: MerchantKeys{APIKey: "api-key-of-" + countersign.APIKey(id), Key: testPair()}}, ID: id,
		Scheme:           client.SchemeService,
		MerchantSettings: client.MerchantSettings{Name: "Merchant " + id, NotifyURL: "https://m.example/notify", WithdrawURL: "https://m.example/withdraw", Concurrency: 1000},
	}
}

// addMerchants makes n merchants m0, m1, …
func addMerchants(t testing.TB, s *Outbox, n int, change func(*Merchant)) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		m := newMerchant(fmt.Sprintf("m%d", i))
		if change != nil {
			change(&m)
		}
		must(s.CreateMerchant(ctx, m, 1))(t)
		ids[i] = m.ID
	}
	return ids
}

// deposit makes a type 1 callback of the usual size.
func deposit(merchant, trackingID string, due db.Millis) NewCallback {
	payload := fmt.Sprintf(`{"type":1,"trackingId":%q,"pad":%q}`, trackingID, strings.Repeat("x", 400))
	return NewCallback{Merchant: merchant, Type: countersign.TypeDeposited, EventID: trackingID, TrackingID: trackingID,
		TxID: "tx-" + trackingID, Payload: []byte(payload), Due: due, Deadline: db.Never}
}

// settlementOf accepts a claimed callback.
func settlementOf(c Claimed) Settlement {
	return Settlement{Merchant: c.Merchant, CallbackID: c.ID, Type: c.Type, Failed: c.Failed, Repeated: c.Repeated, State: client.CallbackAccepted, Reached: true,
		MerchantVersion: c.MerchantVersion, Attempt: Attempt{
			Attempt: client.Attempt{Number: c.Attempt, RequestUUID: fmt.Sprintf("uuid-%s-%d", c.ID, c.Attempt), Started: c.LeaseUntil - 100, HTTPStatus: 200,
				Result: "accepted", Reason: "accepted", Node: "n1", RequestHash: strings.Repeat("ab", 32), ResponseHash: strings.Repeat("cd", 32)},
		}}
}

// UpdateMerchant is ChangeMerchant in a transaction of its own.
func (o *Outbox) UpdateMerchant(ctx context.Context, id string, now db.Millis, change func(*Merchant) error) (m Merchant, err error) {
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		m, err = o.ChangeMerchant(ctx, t, id, now, change)
		return err
	})
	return m, err
}

// Release is ReleaseMany of one that no person judges.
func (o *Outbox) Release(ctx context.Context, id string, holder Holder, permit string, now db.Millis) (Permit, error) {
	done, err := o.ReleaseMany(ctx, []ReleaseRequest{{ID: id, Holder: holder, Permit: permit}}, nil, now)
	if err != nil {
		return Permit{}, err
	}
	return done[0].Issued, done[0].Err
}

// RecordOutcome is RecordOutcomes of one.
func (o *Outbox) RecordOutcome(ctx context.Context, id string, outcome Outcome, now db.Millis) (w Withdrawal, duplicate bool, err error) {
	outcome.ID = id
	done, err := o.RecordOutcomes(ctx, []Outcome{outcome}, now)
	if err != nil {
		return Withdrawal{}, false, err
	}
	return done[0].Withdrawal, done[0].Duplicate, done[0].Err
}

// CreateWithdrawal is CreateWithdrawals of one.
func (o *Outbox) CreateWithdrawal(ctx context.Context, n NewWithdrawal, now db.Millis) (w Withdrawal, duplicate bool, err error) {
	made, err := o.CreateWithdrawals(ctx, []NewWithdrawal{n}, now)
	if err != nil {
		return Withdrawal{}, false, err
	}
	return made[0].Withdrawal, made[0].Duplicate, nil
}
