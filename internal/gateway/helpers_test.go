package gateway

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// dialects gives a fresh database of each kind.
var dialects = []struct {
	name string
	url  func(testing.TB) string
}{{"sqlite", endtest.SQLite(book.End())}, {"postgres", endtest.Postgres(book.End())}}

var testKeys = db.NewMasterKey([32]byte{9})

func openDB(t testing.TB, url string) *db.DB {
	t.Helper()
	d := must(db.Open(t.Context(), db.Config{URL: url, Keys: testKeys}, book.End()))(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// rig is a gateway between an honest service and the merchant's own systems.
type rig struct {
	*Gateway
	t       testing.TB
	db      *db.DB
	service *countersigntest.Service
	clock   *clock
	log     *dbtest.Log
	to      countersigntest.Endpoint // the callbacks, without a network
	client  user                     // an operator
	app     user                     // the merchant's application
}

// clock is a time that tests move.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.at.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.at.Add(d.Milliseconds()) }

func newService(t testing.TB, c countersigntest.ServiceConfig) *countersigntest.Service {
	t.Helper()
	c.Key = testPair()
	return must(countersigntest.MakeService(c))(t)
}

// testPair is one RSA pair for all tests: making pairs takes long.
var testPair = sync.OnceValue(func() *envelope.Key {
	k, err := envelope.GenerateKey(1024)
	if err != nil {
		panic(err)
	}
	return k
})

// newRig makes a gateway on the database at url. change may be nil.
func newRig(t testing.TB, url string, service *countersigntest.Service, change func(*Config)) *rig {
	t.Helper()
	return newRigOn(t, openDB(t, url), service, change)
}

// eachRig runs test with a gateway on each kind of database.
func eachRig(t *testing.T, change func(*Config), test func(t *testing.T, r *rig)) {
	eachRigOf(t, countersigntest.ServiceConfig{}, change, test)
}

// eachUnbound is eachRig with a service that does not bind.
func eachUnbound(t *testing.T, change func(*Config), test func(t *testing.T, r *rig)) {
	eachRigOf(t, countersigntest.ServiceConfig{Unbound: true}, change, test)
}

func eachRigOf(t *testing.T, service countersigntest.ServiceConfig, change func(*Config), test func(t *testing.T, r *rig)) {
	endtest.Each(t, book.End(), func(t *testing.T, url string) { test(t, newRig(t, url, newService(t, service), change)) })
}

// newRigOn is newRig on a database that is open: one more node, or one after the other.
func newRigOn(t testing.TB, d *db.DB, service *countersigntest.Service, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, db: d, service: service, clock: newClock(), log: &dbtest.Log{}}
	c := Config{Process: api.Process{Now: r.clock.now, Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))},
		DB: r.db, Callbacks: service.MerchantConfig()}
	var err error
	if c.Audit, err = journal.Open(t.Context(), journal.Config{DB: r.db, End: "merchant", Now: r.clock.now, Log: c.Log}); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&c)
	}
	if r.Gateway, err = New(c); err != nil {
		t.Fatal(err)
	}
	ok(t, r.BeginForwarding(t.Context()))
	r.to = countersigntest.ToHandler(r.Callbacks())
	server := httptest.NewServer(endtest.Fits(t, r.base, r.API(), nil))
	t.Cleanup(server.Close)
	r.client, r.app = r.withRole(server.URL, client.RoleAdmin), r.withRole(server.URL, client.RoleApp)
	return r
}

// withRole returns a user whose token has a role.
func (r *rig) withRole(url string, role client.Role) user {
	r.t.Helper()
	return r.withToken(url, api.NewStoreToken("test", role, 1))
}

// withToken returns a user with a token.
func (r *rig) withToken(url string, k api.Token) user {
	r.t.Helper()
	return newUser(r.t, url, client.Secret(r.keep(k)))
}

// keep keeps a token and returns its secret.
func (r *rig) keep(k api.Token) string {
	r.t.Helper()
	secret, hash := api.MintToken()
	ok(r.t, api.NewTokens(r.db).Create(r.t.Context(), k, hash))
	return secret.Reveal()
}

// deliver lets the service tell cb and gives the errCode of the response.
func (r *rig) deliver(cb countersign.Callback) countersign.ErrCode {
	r.t.Helper()
	result := r.service.Deliver(r.t.Context(), r.to, cb)
	var refused *countersigntest.Refusal
	if result.Err != nil && !errors.As(result.Err, &refused) {
		r.t.Fatalf("delivering type %d: %v", cb.CallbackType(), result.Err)
	}
	return result.Code()
}

// exec changes the database past the gateway.
func (r *rig) exec(text string, args ...any) {
	r.t.Helper()
	ok(r.t, r.db.Write(r.t.Context(), func(ctx context.Context, x *db.Tx) error {
		_, err := x.Exec(ctx, text, args...)
		return err
	}))
}

// all reads a list to its end.
func all[T any](t testing.TB, list iter.Seq2[T, error]) (items []T) {
	t.Helper()
	for x, err := range list {
		ok(t, err)
		items = append(items, x)
	}
	return items
}

// answers delivers cb and wants an errCode.
func (r *rig) answers(cb countersign.Callback, want countersign.ErrCode) {
	r.t.Helper()
	if got := r.deliver(cb); got != want {
		r.t.Errorf("type %d of %s%s: errCode %d, want %d\n%s", cb.CallbackType(), cb.EventID(), cb.OrderID(), got, want, r.log)
	}
}

// asked asks for withdrawal n and wants an errCode.
func (r *rig) asked(n int, want countersign.ErrCode) {
	r.t.Helper()
	r.answers(countersigntest.Withdrawal(n), want)
}

// confirmed asks for withdrawal n and gives the details that were confirmed.
func (r *rig) confirmed(n int) countersign.Details {
	r.t.Helper()
	result := r.service.Deliver(r.t.Context(), r.to, countersigntest.Withdrawal(n))
	if result.Err != nil {
		r.t.Fatalf("withdrawal %d: %v\n%s", n, result.Err, r.log)
	}
	return result.Details()
}

// newOrder is the order that countersigntest.Withdrawal(n) asks for.
func newOrder(n int) client.NewOrder {
	w, d := countersigntest.Withdrawal(n), countersigntest.Order(n)
	return client.NewOrder{CallBackID: w.CallBackID, TenantUserID: w.TenantUserID, Address: d.Address, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount}
}

func (r *rig) order(n int) {
	r.t.Helper()
	must(r.app.AddOrder(r.t.Context(), newOrder(n)))(r.t)
}

// state wants order n to be in a state.
func (r *rig) state(n int, want client.OrderState) client.Order {
	r.t.Helper()
	o := must(r.client.Order(r.t.Context(), countersigntest.Withdrawal(n).CallBackID))(r.t)
	if o.State != client.OrderState(want) {
		r.t.Fatalf("order %d is %s (%s), want %s", n, o.State, o.Reason, want)
	}
	return o
}

// orderTask returns the task about an order, which says who has approved it and who is missing.
func (r *rig) orderTask(n int) client.Task {
	r.t.Helper()
	return must(r.client.OrderApproval(r.t.Context(), countersigntest.Withdrawal(n).CallBackID))(r.t)
}

// alarms returns of all rows of alarms, in order, what of returns, without what is empty.
func alarms[T comparable](r *rig, of func(client.Alarm) T) (list []T) {
	r.t.Helper()
	page := must(r.client.Alarms(r.t.Context(), client.AlarmFilter{}, client.PageOptions{Limit: 1000}))(r.t)
	var none T
	for _, a := range slices.Backward(page.Items) {
		if v := of(a); v != none {
			list = append(list, v)
		}
	}
	return list
}

func kindOf(a client.Alarm) client.AlarmKind { return a.Kind }

func wantOf[T comparable](r *rig, what string, of func(client.Alarm) T, want []T) {
	r.t.Helper()
	if got := alarms(r, of); !slices.Equal(got, want) {
		r.t.Fatalf("%s of alarms are %v, want %v", what, got, want)
	}
}

func (r *rig) wantAlarms(want ...client.AlarmKind) {
	r.t.Helper()
	wantOf(r, "the kinds", kindOf, want)
}

// wantNumbers holds the rows of alarms to how often they were raised.
func (r *rig) wantNumbers(want ...int64) {
	r.t.Helper()
	wantOf(r, "the numbers", func(a client.Alarm) int64 { return a.Number }, want)
}

// allDeposits reads the feed to its end and holds it to having no gap.
func (r *rig) allDeposits() (all []client.DepositEntry) {
	r.t.Helper()
	for {
		part := must(r.client.Deposits(r.t.Context(), client.FeedOptions{After: int64(len(all)), Limit: 1000}))(r.t)
		if len(part.Items) == 0 {
			return all
		}
		for _, d := range part.Items {
			if all = append(all, d); d.Seq != int64(len(all)) {
				r.t.Fatalf("deposit %d comes where %d was due", d.Seq, len(all))
			}
		}
	}
}

var ok = dbtest.OK

func must[T any](v T, err error) func(dbtest.Failer) T { return dbtest.Must(v, err) }
