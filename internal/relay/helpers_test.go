package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	os.Exit(dbtest.Run(m))
}

// core is a wallet core's database with the tables.
type core struct {
	t    testing.TB
	url  string
	conn *pgx.Conn
}

func newCore(t testing.TB) *core {
	t.Helper()
	return newCoreAt(t, dbtest.Postgres(t))
}

func newCoreAt(t testing.TB, url string) *core {
	t.Helper()
	c := &core{t: t, url: url}
	c.conn = c.connect()
	for range 2 { // applying it again changes nothing
		c.exec(DDL(true))
	}
	return c
}

func (c *core) connect() *pgx.Conn {
	c.t.Helper()
	conn := must(pgx.Connect(context.Background(), c.url))(c.t)
	c.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (c *core) exec(text string, args ...any) {
	c.t.Helper()
	var err error
	if len(args) == 0 {
		_, err = c.conn.PgConn().Exec(context.Background(), text).ReadAll()
	} else {
		_, err = c.conn.Exec(context.Background(), text, args...)
	}
	if err != nil {
		c.t.Fatalf("%.200s: %v", text, err)
	}
}

func (c *core) insert(kind string, body any) {
	c.t.Helper()
	text, ok := body.(string)
	if !ok {
		text = string(must(json.Marshal(body))(c.t))
	}
	c.exec(`INSERT INTO countersign_outbox (kind, body) VALUES ($1, $2::json)`, kind, text)
}

// one returns the one value of a query, as text.
func (c *core) one(text string, args ...any) string {
	c.t.Helper()
	var v any
	if err := c.conn.QueryRow(context.Background(), text, args...).Scan(&v); err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
	return fmt.Sprint(v)
}

// carried waits until every row is carried or refused.
func (c *core) carried() {
	c.t.Helper()
	until(c.t, "everything is carried or refused", func() bool { return c.waiting() == "0" })
}

func (c *core) waiting() string {
	c.t.Helper()
	return c.one(`SELECT count(*) FROM countersign_outbox WHERE refused IS NULL`)
}

func (c *core) refused() string {
	c.t.Helper()
	return c.one(`SELECT count(*) FROM countersign_outbox WHERE refused IS NOT NULL`)
}

var until = dbtest.Until

// service is a service with its API, and a place before it that can fail.
type service struct {
	t      testing.TB
	url    string // of the API
	token  string
	admin  *client.Service      // straight to the API
	signs  *envelope.SigningKey // with which the merchant of addConfirming signs its answers
	front  *httptest.Server
	direct *httputil.ReverseProxy

	mu sync.Mutex
	// before answers a call in place of the API where it returns true.
	before func(w http.ResponseWriter, r *http.Request, body []byte) bool
	// after is called with what the API answered, before the caller gets it; if it
	// returns false the caller gets nothing.
	after func(r *http.Request, body []byte, status int, answer []byte) bool
}

// newService runs a service on SQLite with merchants that nobody answers for.
func newService(t testing.TB, merchants ...string) *service { return newServiceOn(t, "", merchants...) }

// newServiceOn runs one on a database of PostgreSQL, unless dbURL is empty.
func newServiceOn(t testing.TB, dbURL string, merchants ...string) *service {
	t.Helper()
	s := &service{t: t}
	d := must(daemon.NewService(daemon.ServiceConfig{Common: daemon.Common{Storage: daemon.Storage{Dir: t.TempDir(), DB: dbURL}, NoConsole: true},
		Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ok(t, d.Open(ctx))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the service: %v", err)
		}
	})
	s.token = strings.TrimSpace(string(must(os.ReadFile(d.TokenFile()))(t)))
	s.url = d.URL()
	s.admin = clientOf(t, s.url, s.token)
	for _, m := range merchants {
		s.addMerchant(m)
	}
	s.direct = httputil.NewSingleHostReverseProxy(must(url.Parse(d.URL()))(t))
	s.direct.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.front = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.front.Close)
	return s
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil && before(w, r, body) {
		return
	}
	if after == nil {
		s.passOn(w, r, body)
		return
	}
	got := httptest.NewRecorder()
	s.passOn(got, r, body)
	if !after(r, body, got.Code, got.Body.Bytes()) {
		panic(http.ErrAbortHandler)
	}
	for k, v := range got.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(got.Code)
	_, _ = w.Write(got.Body.Bytes())
}

// passOn returns a call to the API.
func (s *service) passOn(w http.ResponseWriter, r *http.Request, body []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	s.direct.ServeHTTP(w, r)
}

// set changes what stands before the API.
func (s *service) set(before func(http.ResponseWriter, *http.Request, []byte) bool, after func(*http.Request, []byte, int, []byte) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *service) addMerchant(id string) {
	s.t.Helper()
	must(s.admin.CreateMerchant(context.Background(), client.NewMerchant{ID: id, Key: &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), Name: id, NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"}}))(s.t)
}

func clientOf(t testing.TB, url, token string) *client.Service {
	t.Helper()
	return must(client.NewService(client.Config{URL: url, Token: client.Secret(token), HTTPClient: &http.Client{Transport: &http.Transport{}}}))(t)
}

func must[T any](v T, err error) func(dbtest.Failer) T { return dbtest.Must(v, err) }

var ok = dbtest.OK

// told returns the trackingIds of a merchant's deposits and withdrawals in the order in which
// the service took them. That a withdrawal ended is no row of the core's.
func (s *service) told(merchant string) []string {
	s.t.Helper()
	var list []string
	for c, err := range client.All(context.Background(), s.admin.Callbacks, client.CallbackFilter{Merchant: merchant}) {
		if err != nil {
			s.t.Fatal(err)
		}
		if c.Type != countersign.TypeInvalidAddress {
			list = append([]string{c.TrackingID}, list...)
		}
	}
	return list
}

// log collects what a relay logs.
type log = dbtest.Log

// running is a relay in this process.
type running struct {
	*Relay
	log  *log
	stop func() // waits for its end
}

func start(t testing.TB, c Config) *running {
	t.Helper()
	l := &log{}
	c.Log = slog.New(slog.NewTextHandler(l, nil))
	if c.poll == 0 {
		c.poll = 200 * time.Millisecond
	}
	c.lastPause, c.longestHold = 50*time.Millisecond, 50*time.Millisecond
	r := must(New(c))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the relay: %v", err)
		}
	})
	t.Cleanup(stop)
	return &running{r, l, stop}
}

// relay runs a relay from c to the place before the API of s.
func (s *service) relay(c *core) *running {
	s.t.Helper()
	return start(s.t, Config{From: c.url, Nodes: []*client.Service{clientOf(s.t, s.front.URL, s.token)}, Decisions: true})
}

// deposit is a valid deposit.
func deposit(merchant, trackingID string) map[string]any {
	return map[string]any{"merchant": merchant, "trackingId": trackingID, "tenantUserId": "65515", "chainName": "ETH", "symbol": "WETH", "amount": "7.400",
		"txId": "0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14", "txIndex": 5,
		"fromAddress": "0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b", "toAddress": "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c",
		"riskLevelFrom": 44, "riskLevelTo": 40}
}

// withdrawal is a valid withdrawal.
func withdrawal(merchant, callBackID string) map[string]any {
	return map[string]any{"merchant": merchant, "callBackId": callBackID, "tenantUserId": "65515",
		"details": map[string]any{"address": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", "chainName": "TRON", "symbol": "USDT", "amount": "120.50"}}
}

// fails answers a call with a problem.
func fails(w http.ResponseWriter, status int, detail string) bool {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"status":%d,"title":"x","detail":%q}`, status, detail)
	return true
}
