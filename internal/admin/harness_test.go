package admin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
)

// everything is the log of the whole suite, and secrets what must not be in
// it, nor in any answer that is not made to show it.
var (
	everything dbtest.Log
	secrets    secretList
)

func TestMain(m *testing.M) {
	code := dbtest.Run(m)
	if leaked := secrets.in(everything.String()); leaked != "" {
		fmt.Printf("the log of the suite holds a secret: %s\n", leaked)
		code = 1
	}
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	if missing := unanswered(); code == 0 && missing != "" {
		fmt.Printf("no test saw the success of %s, so nothing holds it against the document\n", missing)
		code = 1
	}
	os.Exit(code)
}

// secretList has the name of each secret.
type secretList struct{ sync.Map }

func (l *secretList) add(name, secret string) {
	if len(secret) < 8 {
		panic("a secret too short to be looked for: " + name)
	}
	// Key material is looked for by a stretch of it, whatever wraps its lines.
	if len(secret) > 200 {
		secret = secret[100:140]
	}
	l.Store(secret, name)
}

// in names a secret that text holds.
func (l *secretList) in(text string) (name string) {
	l.Range(func(secret, of any) bool {
		if strings.Contains(text, secret.(string)) {
			name = of.(string)
		}
		return name == ""
	})
	return name
}

// answered is every "METHOD /path status" that the suite saw and held against
// the document, and operations all that it should see.
var answered, operations sync.Map

// unanswered names an operation whose success no test saw. It says nothing
// where only a part of the suite ran.
func unanswered() (missing string) {
	for _, part := range []string{"test.run", "test.skip"} {
		if flag.Lookup(part).Value.String() != "" {
			return ""
		}
	}
	operations.Range(func(what, _ any) bool {
		if _, ok := answered.Load(what); !ok {
			missing = what.(string)
		}
		return missing == ""
	})
	return missing
}

// unrecorded lists the operations that change something and add no record of their own
// to the audit log, and testAlarm, which changes nothing.
var unrecorded = []string{"addDeposits", "addAddress", "testAlarm", "testDeposit"}

// elsewhere lists the operations whose success needs an identity provider: tests of the console have one.
var elsewhere = []string{"beginProvider", "finishProvider", "signOut"}

const recorded = ", with a record in the audit log"

// harness is a service API on a database of its own.
type harness struct {
	t       testing.TB
	store   *outbox.Outbox
	kept    *api.Tokens
	control *api.Changes
	server  *Server
	url     string
	tokens  map[client.Role]string
	mu      sync.Mutex
	clock   time.Time
}

type setup func(*Config)

func newHarness(t testing.TB, url string, opts ...setup) *harness {
	t.Helper()
	var master [32]byte
	d := must(db.Open(t.Context(), db.Config{URL: url, Keys: db.NewMasterKey(master)}, outbox.End()))(t)
	t.Cleanup(func() { _ = d.Close() })
	h := &harness{t: t, store: outbox.New(d), kept: api.NewTokens(d), clock: time.UnixMilli(1_750_000_000_000), tokens: map[client.Role]string{}}
	log := slog.New(slog.NewTextHandler(&everything, nil))
	trail := must(journal.Open(t.Context(), journal.Config{DB: d, End: "service", Now: h.now, Log: log}))(t)
	h.control = must(api.NewChanges(api.ChangesConfig{DB: d, Now: h.now}))(t)
	c := Config{
		Process: api.Process{Audit: trail, Now: h.now, Log: log,
			TestAlarm: func(context.Context) (client.AlarmTest, error) {
				return client.AlarmTest{Taken: true, Status: 204}, nil
			},
			Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "countersign_up 1\n") })},
		Outbox:  h.store,
		Changes: h.control,
		CheckURL: func(raw string, allowPrivate bool) error {
			if strings.Contains(raw, "127.0.0.1") && !allowPrivate {
				return errors.New("the address is not public")
			}
			if !strings.HasPrefix(raw, "https://") {
				return errors.New("the scheme is not https")
			}
			return nil
		},
	}
	for _, o := range opts {
		o(&c)
	}
	h.server = must(New(c))(t)
	for _, rt := range h.server.Endpoints() {
		if slices.Contains(elsewhere, rt.ID) {
			continue
		}
		operations.Store(fmt.Sprintf("%s %d", rt.Pattern(), rt.Status), true)
		if rt.Method != http.MethodGet && !slices.Contains(unrecorded, rt.ID) {
			operations.Store(rt.Pattern()+recorded, true)
		}
	}
	srv := httptest.NewServer(h.checked(h.server.Mux()))
	t.Cleanup(srv.Close)
	t.Cleanup(h.server.Stop)
	h.url = srv.URL
	for _, role := range []client.Role{client.RoleViewer, client.RoleIngest, client.RoleCore, client.RoleOperator, client.RoleAdmin} {
		h.tokens[role] = h.keep(api.NewStoreToken("test "+string(role), role, 1))
	}
	return h
}

// keep stores a token and gives its secret.
func (h *harness) keep(k api.Token) string {
	h.t.Helper()
	secret, hash := api.MintToken()
	secrets.add("token", secret.Reveal())
	ok(h.t, h.kept.Create(h.t.Context(), k, hash))
	return secret.Reveal()
}

// end is the service as the suite of both ends sees it.
func (h *harness) end() endtest.End {
	return endtest.End{API: h.server.API, URL: h.url, Tokens: h.kept, Keep: h.keep, Pass: func() { h.pass(2 * time.Second) }}
}

func sqlite(t testing.TB, opts ...setup) *harness {
	return newHarness(t, endtest.SQLite(outbox.End())(t), opts...)
}

func (h *harness) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock
}

func (h *harness) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock = h.clock.Add(d)
}

// shown finds the secrets in an answer of shows.
var shown = regexp.MustCompile(`"(token|permit|publicKey|responsePublicKey|apiKey|callbackApiKey)":"([^"]+)"`)

// shows lists the operations whose answers hold a secret on purpose.
var shows = []string{"createMerchant", "stageRotation", "createToken", "releaseWithdrawal", "releaseWithdrawals"}

// checked holds every answer against the document, and looks for secrets in it.
func (h *harness) checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := h.records(r)
		endtest.Fits(h.t, h.server.API, next, func(rt *api.Endpoint, status int, body string) {
			what := fmt.Sprintf("%s %d", rt.Pattern(), status)
			if slices.Contains(shows, rt.ID) && status < 400 {
				for _, m := range shown.FindAllStringSubmatch(body, -1) {
					secrets.add(m[1], m[2])
				}
			} else if leaked := secrets.in(body); leaked != "" {
				h.t.Errorf("%s shows a secret: %s", what, leaked)
			}
			answered.Store(what, true)
			if h.records(r) > before && status < 300 {
				answered.Store(rt.Pattern()+recorded, true)
			}
		}).ServeHTTP(w, r)
	})
}

// records is how many records the audit log has, before and after a call that may
// change something.
func (h *harness) records(r *http.Request) (n int64) {
	if r.Method == http.MethodGet {
		return 0
	}
	if _, err := db.One(context.WithoutCancel(r.Context()), h.store, `SELECT size FROM audit_head`, nil, &n); err != nil && !errors.Is(err, db.ErrClosed) {
		h.t.Error(err)
	}
	return n
}

// with keeps a token, and returns a client that has it.
func (h *harness) with(k api.Token) *client.Service {
	h.t.Helper()
	return h.holder(k.ID, h.keep(k)).Service
}

// client returns a client with the token of a role.
func (h *harness) client(role client.Role) *client.Service {
	return h.holder("", h.tokens[role]).Service
}

// raw makes a call without the client (endtest.Call).
func (h *harness) raw(role client.Role, method, path, contentType string, body any) endtest.Answer {
	h.t.Helper()
	return h.as(h.tokens[role], method, path, contentType, body)
}

// as is raw with the secret of a token; empty: without one.
func (h *harness) as(secret, method, path, contentType string, body any) endtest.Answer {
	h.t.Helper()
	return endtest.Call(h.t, secret, method, h.url+path, contentType, body)
}

func (h *harness) postJSON(path string, body any) endtest.Answer {
	h.t.Helper()
	return h.raw(client.RoleAdmin, post, path, api.TypeJSON, body)
}

// pages reads a list to its end, in pages of two.
func pages[T any](t testing.TB, read func(client.PageOptions) (page []T, next *string, err error)) (all []T) {
	t.Helper()
	for o := (client.PageOptions{Limit: 2}); ; {
		page, next, err := read(o)
		ok(t, err)
		if all = append(all, page...); next == nil {
			return all
		}
		o.Cursor = *next
	}
}

// counts says how much the store holds.
type counts struct{ merchants, callbacks, withdrawals, tokens, alarms int }

func (h *harness) counts() (c counts) {
	h.t.Helper()
	for table, n := range map[string]*int{"merchants": &c.merchants, "callbacks": &c.callbacks, "withdrawals": &c.withdrawals, "tokens": &c.tokens, "alarms": &c.alarms} {
		must(db.One(context.Background(), h.store, "SELECT COUNT(*) FROM "+table, nil, n))(h.t)
	}
	return c
}

// merchant makes a merchant with little work: its key is shared by the suite.
func (h *harness) merchant(id string) client.CreatedMerchant {
	h.t.Helper()
	return must(h.client(client.RoleAdmin).CreateMerchant(h.t.Context(), newMerchant(id)))(h.t)
}

// testKey is one pair for all tests, since pairs are slow to make.
var testKey = sync.OnceValue(func() *envelope.Key {
	k, err := envelope.GenerateKey(2048)
	if err != nil {
		panic(err)
	}
	secrets.add("public key", k.PublicBase64())
	secrets.add("private key", privatePEM(k))
	return k
})

func privatePEM(k *envelope.Key) string {
	pem, err := k.PrivatePEM()
	if err != nil {
		panic(err)
	}
	return string(pem)
}

const (
	testAPIKey         = "api-key-of-the-suite-7f3a"
	testCallbackAPIKey = "callback-api-key-of-the-suite-91cc"
)

func newMerchant(id string) client.NewMerchant {
	secrets.add("apiKey", testAPIKey)
	secrets.add("callbackApiKey", testCallbackAPIKey)
	return client.NewMerchant{
		ID:               id,
		Key:              &client.KeySpec{PrivateKey: client.Secret(privatePEM(testKey()))},
		MerchantSettings: client.MerchantSettings{Name: "Merchant " + id, NotifyURL: "https://" + id + ".example/notify", WithdrawURL: "https://" + id + ".example/withdraw"},
		MerchantSecrets:  client.MerchantSecrets{APIKey: testAPIKey, CallbackAPIKey: testCallbackAPIKey},
	}
}

func amount(s string) countersign.Amount {
	a, err := countersign.ParseAmount(s)
	if err != nil {
		panic(err)
	}
	return a
}

func newDeposit(merchant string, n int) client.NewDeposit {
	return client.NewDeposit{
		Merchant: merchant, TrackingID: fmt.Sprintf("dep-%d", n), TenantUserID: "user-7", TxID: fmt.Sprintf("0xabc%d", n),
		ChainName: "TRON", Symbol: "USDT", Amount: amount("2.500000"), FromAddress: "TFrom", ToAddress: "TTo",
		RiskLevelFrom: 10, RiskLevelTo: 0, TxIndex: -1,
	}
}

func newAddress(merchant string, n int) client.NewAddress {
	return client.NewAddress{
		Merchant: merchant, ChangeID: fmt.Sprintf("change-%d", n), TenantUserID: "user-7", NewAddress: "TNew",
		ToAddress: "TOld", ChainName: "TRON", Symbol: "USDT",
	}
}

func newWithdrawal(merchant string, n int) client.NewWithdrawal {
	return client.NewWithdrawal{
		Merchant: merchant, CallBackID: fmt.Sprintf("w-%d", n), TenantUserID: "user-7",
		Details: &client.Details{Address: "TTarget", ChainName: "TRON", Symbol: "USDT", Amount: amount("12.5")},
	}
}

// decide settles the type 2 callback of a withdrawal the way the sender does.
func (h *harness) decide(id string, d countersign.Decision) {
	h.t.Helper()
	ctx := context.Background()
	now := db.MillisOf(h.now())
	claimed := must(h.store.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneWithdraw, Now: now, LeaseUntil: now + 45_000, Max: 100}))(h.t)
	for _, c := range claimed {
		if c.Withdrawal == nil || c.Withdrawal.ID != id {
			continue
		}
		code, state := int64(0), client.CallbackAccepted
		if d == countersign.DecisionDeclined {
			code, state = 2004, client.CallbackRefused
		}
		s := outbox.Settlement{
			Merchant: c.Merchant, CallbackID: c.ID, Type: c.Type, State: state, Reached: true, Counts: true, Decision: d, MerchantVersion: c.MerchantVersion,
			Attempt: outbox.Attempt{Attempt: client.Attempt{Number: c.Attempt, RequestUUID: "00000000-0000-8000-8000-000000000001", Started: now, HTTPStatus: 200, ErrCode: &code, Result: "accepted", Reason: "accepted", Node: "test", DurationMs: 3}},
		}
		if d == countersign.DecisionConfirmed && c.Withdrawal.Ordered != nil {
			s.Details = *c.Withdrawal.Ordered
		}
		must(h.store.Settle(ctx, []outbox.Settlement{s}, now))(h.t)
		return
	}
	h.t.Fatalf("withdrawal %s is not due", id)
}
