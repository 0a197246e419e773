package db_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(purgingChild); url != "" {
		purgeForEver(url)
		return
	}
	os.Exit(dbtest.Run(m))
}

var ctx = context.Background()

var testKeys = db.NewMasterKey([32]byte{7})

const (
	start db.Millis = 1_795_000_000_000
	day   db.Millis = 24 * 3_600_000
	keep            = 90 * 24 * time.Hour
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func onEachDatabase(t *testing.T, end db.End, fn func(t *testing.T, url string)) {
	for name, url := range endtest.Kinds(end) {
		t.Run(name, func(t *testing.T) { fn(t, url(t)) })
	}
}

func open(t testing.TB, url string, end db.End) *db.DB {
	t.Helper()
	d := must(db.Open(ctx, db.Config{URL: url, Keys: testKeys}, end))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

var testPair = sync.OnceValue(func() *envelope.Key {
	k, err := envelope.GenerateKey(1024)
	if err != nil {
		panic(err)
	}
	return k
})

// newService opens a service with the merchant shop.
func newService(t testing.TB, url string) *outbox.Outbox {
	t.Helper()
	o := outbox.New(open(t, url, outbox.End()))
	addShop(t, o)
	return o
}

func addShop(t testing.TB, o *outbox.Outbox) {
	t.Helper()
	must(o.CreateMerchant(ctx, outbox.Merchant{
		KeySet: outbox.KeySet{MerchantKeys: outbox.MerchantKeys{APIKey: "api-key-of-shop", Key: testPair()}}, ID: "shop",
		Scheme:           client.SchemeService,
		MerchantSettings: client.MerchantSettings{NotifyURL: "https://m.example/n", WithdrawURL: "https://m.example/w", Concurrency: 1000},
	}, 1))(t)
}

func config(d *db.DB) db.PurgeConfig {
	return db.PurgeConfig{DB: d, Keep: keep, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

// purgeAll runs steps until a walk has ended, at time now, and gives how many rows went.
func purgeAll(t testing.TB, p *db.Purger, now db.Millis) (total int64) {
	t.Helper()
	for {
		done := must(p.Step(ctx, now))(t)
		total += done.Purged
		if done.Ended {
			return total
		}
		now += db.Millis(done.Wait.Milliseconds()) + 1
	}
}

// stepThrough purges from a time on beside others, and gives how many it purged. It can run
// in a goroutine of its own.
func stepThrough(t testing.TB, p *db.Purger, from db.Millis) (total int64) {
	for at := from; at < from+day; at += 1000 {
		done, err := p.Step(ctx, at)
		if err != nil {
			t.Error(err)
			break
		}
		total += done.Purged
		if done.Ended {
			break
		}
	}
	return total
}

func deposit(id string) outbox.NewCallback {
	return outbox.NewCallback{Merchant: "shop", Type: countersign.TypeDeposited, EventID: id, TrackingID: id, TxID: "tx-" + id, Deadline: db.Never,
		Payload: []byte(fmt.Sprintf(`{"type":1,"trackingId":%q,"symbol":"USDT","amount":"2.5","pad":%q}`, id, strings.Repeat("x", 380)))}
}

func ingest(t testing.TB, o *outbox.Outbox, n outbox.NewCallback, at db.Millis) client.Accepted {
	t.Helper()
	n.Due = at
	return must(o.Ingest(ctx, []outbox.NewCallback{n}, at))(t)[0]
}

// settled keeps n deposits that their merchant accepts at once, and gives their ids.
func settled(t testing.TB, o *outbox.Outbox, n int, of func(i int) outbox.NewCallback) (ids []string) {
	t.Helper()
	for len(ids) < n {
		var list []outbox.NewCallback
		for len(list) < min(200, n-len(ids)) {
			list = append(list, of(len(ids)+len(list)))
			list[len(list)-1].Due = start
		}
		for _, in := range must(o.Ingest(ctx, list, start))(t) {
			ids = append(ids, in.ID)
		}
		settle(t, o, countersign.LaneNotify, start, accept)
	}
	return ids
}

// numbered is a deposit that is called by its number.
func numbered(i int) outbox.NewCallback { return deposit(fmt.Sprint("d", i)) }

// settle claims what is due in a lane and ends each attempt in the state that of gives. It returns how many.
func settle(t testing.TB, o *outbox.Outbox, lane countersign.Lane, at db.Millis, of func(outbox.Claimed, *outbox.Settlement)) int {
	t.Helper()
	claimed := must(o.Claim(ctx, outbox.ClaimRequest{Lane: lane, Now: at, LeaseUntil: at + 1000, Max: 500}))(t)
	var list []outbox.Settlement
	for _, c := range claimed {
		s := outbox.Settlement{Merchant: c.Merchant, CallbackID: c.ID, State: client.CallbackAccepted, Reached: true,
			MerchantVersion: c.MerchantVersion,
			Attempt: outbox.Attempt{Attempt: client.Attempt{Number: c.Attempt, RequestUUID: fmt.Sprint(c.ID, c.Attempt), Started: at, HTTPStatus: 200, Result: "accepted", Reason: "accepted", Node: "n",
				RequestHash: strings.Repeat("ab", 32), ResponseHash: strings.Repeat("cd", 32)}}}
		of(c, &s)
		list = append(list, s)
	}
	for _, s := range must(o.Settle(ctx, list, at))(t) {
		if !s.Applied {
			t.Fatalf("not settled: %+v", s)
		}
	}
	return len(list)
}

func accept(outbox.Claimed, *outbox.Settlement) {}

func newBook(t testing.TB, url string) *book.Book {
	t.Helper()
	return book.New(open(t, url, book.End()), book.Config{})
}

func releaseOne(ctx context.Context, o *outbox.Outbox, id string, h outbox.Holder, permit string, now db.Millis) (outbox.Permit, error) {
	done, err := o.ReleaseMany(ctx, []outbox.ReleaseRequest{{ID: id, Holder: h, Permit: permit}}, nil, now)
	if err != nil {
		return outbox.Permit{}, err
	}
	return done[0].Issued, done[0].Err
}

func recordOne(ctx context.Context, o *outbox.Outbox, id string, x outbox.Outcome, now db.Millis) (outbox.Withdrawal, bool, error) {
	x.ID = id
	done, err := o.RecordOutcomes(ctx, []outbox.Outcome{x}, now)
	if err != nil {
		return outbox.Withdrawal{}, false, err
	}
	return done[0].Withdrawal, done[0].Duplicate, done[0].Err
}

func createOne(ctx context.Context, o *outbox.Outbox, n outbox.NewWithdrawal, now db.Millis) (outbox.Withdrawal, bool, error) {
	made, err := o.CreateWithdrawals(ctx, []outbox.NewWithdrawal{n}, now)
	if err != nil {
		return outbox.Withdrawal{}, false, err
	}
	return made[0].Withdrawal, made[0].Duplicate, nil
}
