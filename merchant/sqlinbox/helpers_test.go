package sqlinbox_test

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
	"countersign/merchant/sqlinbox"
)

func TestMain(m *testing.M) {
	if os.Getenv(childSettings) != "" {
		os.Exit(child())
	}
	os.Exit(dbtest.Run(m))
}

var ctx = context.Background()

// kind is a kind of databases.
type kind struct {
	name string
	make func(testing.TB) store
}

// store is a database of a kind.
type store struct {
	dialect     sqlinbox.Dialect
	driver, dsn string
}

var stores = []kind{
	{"sqlite", func(t testing.TB) store {
		// Without a busy_timeout, so that the Inbox itself must wait for its turn.
		return store{sqlinbox.SQLite, "sqlite", "file:" + dbtest.SQLite(t) + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"}
	}},
	{"postgres", func(t testing.TB) store { return store{sqlinbox.PostgreSQL, "pgx", dbtest.Postgres(t)} }},
	{"mariadb", func(t testing.TB) store { return store{sqlinbox.MySQL, "mysql", dbtest.MariaDB(t)} }},
}

// eachStore runs test with an empty database of each kind, all at once: most of the time goes by while one commits.
func eachStore(t *testing.T, test func(t *testing.T, s store)) {
	for _, k := range stores {
		k.run(t, test)
	}
}

func (k kind) run(t *testing.T, test func(t *testing.T, s store)) {
	t.Run(k.name, func(t *testing.T) {
		t.Parallel()
		test(t, k.filled(t))
	})
}

// filled is an empty database with the tables of the Inbox and of the ledger.
func (k kind) filled(t testing.TB) store {
	t.Helper()
	s := k.make(t)
	db := s.open(t)
	if err := sqlinbox.Create(ctx, db, s.dialect); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`CREATE TABLE credits (tracking_id VARCHAR(100), user_id VARCHAR(100), amount VARCHAR(100))`,
		`CREATE TABLE balances (user_id VARCHAR(100) PRIMARY KEY, n INTEGER NOT NULL)`,
	} {
		if s.dialect == sqlinbox.MySQL {
			text += ` ENGINE=InnoDB`
		}
		run(t, db, text)
	}
	return s
}

func open(s store) (*sql.DB, error) { return sql.Open(s.driver, s.dsn) }

func (s store) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := open(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// text returns the statement with the parameters of s.
func (s store) text(statement string) string {
	if s.dialect == sqlinbox.PostgreSQL {
		for n := 1; strings.Contains(statement, "?"); n++ {
			statement = strings.Replace(statement, "?", "$"+string(rune('0'+n)), 1)
		}
	}
	return statement
}

// credit books d. Nothing in the tables prevents that it books d twice.
func (s store) credit(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
	_, err := tx.ExecContext(ctx, s.text(`INSERT INTO credits (tracking_id, user_id, amount) VALUES (?, ?, ?)`),
		d.TrackingID, d.TenantUserID, d.Amount.String())
	return err
}

func (s store) inbox(t testing.TB, db *sql.DB, change func(*sqlinbox.Config)) *sqlinbox.Inbox {
	t.Helper()
	c := sqlinbox.Config{DB: db, Dialect: s.dialect, OnDeposit: s.credit, OnPossibleDuplicate: sqlinbox.KeepForReview}
	if change != nil {
		change(&c)
	}
	in, err := sqlinbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func run(t testing.TB, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.Exec(text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// count returns the only number that a query gives.
func count(t testing.TB, db *sql.DB, text string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRow(text, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// booked fails unless the credits and the settled entries are n each, of n deposits.
func booked(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	credits, deposits := count(t, db, `SELECT COUNT(*) FROM credits`), count(t, db, `SELECT COUNT(DISTINCT tracking_id) FROM credits`)
	entries := count(t, db, `SELECT COUNT(*) FROM countersign_inbox WHERE settled = 1`)
	if credits != n || deposits != n || entries != n {
		t.Errorf("%d credits of %d deposits, and %d settled entries; want %d of each", credits, deposits, entries, n)
	}
}

// pair is the services' pair: making one takes longer than most of these tests.
var pair = sync.OnceValues(func() (*envelope.Key, error) { return envelope.GenerateKey(1024) })

func newService(t testing.TB) *countersigntest.Service {
	t.Helper()
	key, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	service, err := countersigntest.MakeService(countersigntest.ServiceConfig{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// serve returns a service, and the merchant's endpoint over in.
func serve(t testing.TB, in merchant.Inbox, change func(*merchant.Config)) (*countersigntest.Service, countersigntest.Endpoint) {
	t.Helper()
	service := newService(t)
	return service, node(t, service, in, change)
}

// node returns an endpoint of the merchant over in.
func node(t testing.TB, service *countersigntest.Service, in merchant.Inbox, change func(*merchant.Config)) countersigntest.Endpoint {
	t.Helper()
	c := service.MerchantConfig()
	c.Inbox, c.Log = in, slog.New(slog.DiscardHandler)
	if change != nil {
		change(&c)
	}
	h, err := merchant.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return countersigntest.ToHandler(h)
}

// deliver fails unless the errCode is want.
func deliver(t testing.TB, service *countersigntest.Service, to countersigntest.Endpoint, cb countersign.Callback, want countersign.ErrCode) countersigntest.Result {
	t.Helper()
	r := service.Deliver(ctx, to, cb)
	if got := r.Code(); got != want || (want == 0) != (r.Err == nil) {
		t.Errorf("%s: errCode %d (%v), want %d", cb.EventID(), got, r.Err, want)
	}
	return r
}
