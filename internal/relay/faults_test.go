package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// Nothing that a body holds stops the relay, reaches the service as something else, or
// holds up another row.
func TestHostileBodies(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop", "other")
	// A table without the checks of ours, as somebody may have made it.
	c.exec(`ALTER TABLE countersign_outbox DROP CONSTRAINT countersign_outbox_kind_check;
		ALTER TABLE countersign_outbox DROP COLUMN merchant; DROP FUNCTION countersign_merchant(json);
		CREATE FUNCTION countersign_merchant(body text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
			BEGIN RETURN CASE WHEN body LIKE '%other%' THEN 'other' ELSE 'shop' END; END $$;
		ALTER TABLE countersign_outbox ALTER COLUMN body TYPE text;
		ALTER TABLE countersign_outbox ADD COLUMN merchant text GENERATED ALWAYS AS (countersign_merchant(body)) STORED;
		CREATE INDEX countersign_outbox_waiting ON countersign_outbox (merchant, id) WHERE refused IS NULL`)
	good := func(id string) string {
		return fmt.Sprintf(`{"merchant": "shop", "trackingId": %q, "tenantUserId": "1", "chainName": "ETH", "symbol": "WETH", "amount": "1", "txId": "0x1", "txIndex": 0,
			"fromAddress": "", "toAddress": "0x2", "riskLevelFrom": 0, "riskLevelTo": 0}`, id)
	}
	hostile := []struct{ kind, body string }{
		{kindDeposit, ""}, {kindDeposit, "no JSON"}, {kindDeposit, "[]"}, {kindDeposit, `"x"`}, {kindDeposit, "null"}, {kindDeposit, "{"}, {kindDeposit, "{}"},
		{kindDeposit, good("in-1") + "," + good("in-2")},                                   // two in the place of one
		{kindDeposit, "[" + good("in-3") + "]"},                                            // a list in a list
		{kindDeposit, good("in-4")[:20] + "}]"},                                            // ends the list
		{kindDeposit, strings.Replace(good("in-5"), "shop", `shop","merchant":"other`, 1)}, // a member twice
		{kindDeposit, strings.Replace(good("in-6"), `"amount"`, `"Amount"`, 1)},
		{kindDeposit, strings.Replace(good("in-7"), `"1"`, `"\u0000"`, 1)},
		{kindDeposit, strings.Replace(good("in-8"), `"ETH"`, "\"E\x01\x1b[31mTH\"", 1)},
		{kindDeposit, strings.Replace(good("in-9"), `"ETH"`, `"\ud800"`, 1)},
		{kindDeposit, strings.Replace(good("in-10"), `"ETH"`, `"`+strings.Repeat("x", 100_000)+`"`, 1)},
		{kindDeposit, strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
		{kindDeposit, strings.Repeat(`{"a":`, 3000) + "1" + strings.Repeat("}", 3000)},
		{kindDeposit, strings.Replace(good("in-11"), `"amount": "1"`, `"amount": 1e999999999`, 1)},
		{kindWithdrawal, good("in-12")},
		{"Deposit", good("in-13")}, {"", good("in-14")}, {strings.Repeat("k", 100_000), good("in-15")},
	}
	var want []string
	for i, h := range hostile {
		c.exec(`INSERT INTO countersign_outbox (kind, body) VALUES ($1, $2)`, h.kind, h.body)
		id := fmt.Sprint("good-", i)
		c.exec(`INSERT INTO countersign_outbox (kind, body) VALUES ($1, $2)`, kindDeposit, good(id))
		want = append(want, id)
	}
	r := s.relay(c)
	c.carried()
	if diff := cmp.Diff(want, s.told("shop")); diff != "" {
		t.Error(diff)
	}
	if n := len(s.told("other")); n != 0 {
		t.Errorf("%d reached a merchant that they were not for", n)
	}
	if got := c.refused(); got != fmt.Sprint(len(hostile)) {
		t.Errorf("%s of %d are refused", got, len(hostile))
	}
	for _, bad := range []string{"\x1b", strings.Repeat("x", 1000), strings.Repeat("k", 1000)} {
		if strings.Contains(r.log.String(), bad) {
			t.Errorf("the log has %.10q", bad)
		}
	}
}

// The table takes what its index and its function could fail at: a core's transaction
// never fails by a text of a body.
func TestTheTableTakesEveryBody(t *testing.T) {
	c := newCore(t)
	for _, body := range []string{`[]`, `null`, `"x"`, `1`, `{}`, `{"merchant": null}`, `{"merchant": {"a": 1}}`, `{"merchant": "\u0000"}`, `{"x": "\u0000", "merchant": "shop"}`,
		`{"merchant": "` + strings.Repeat("m", 100_000) + `"}`, `{"merchant": "Shop"}`, `{"merchant": "shop\n"}`, `{"merchant": "\ud800"}`} {
		c.exec(`INSERT INTO countersign_outbox (kind, body) VALUES ('deposit', $1::text::json)`, body)
		if m := c.one(`SELECT merchant FROM countersign_outbox ORDER BY id DESC LIMIT 1`); m != "" {
			t.Errorf("%.40s is of merchant %q", body, m)
		}
	}
	for _, bad := range []struct{ kind, body string }{{"deposits", "{}"}, {"deposit", "{"}, {"deposit", ""}} {
		if _, err := c.conn.Exec(t.Context(), `INSERT INTO countersign_outbox (kind, body) VALUES ($1, $2::text::json)`, bad.kind, bad.body); err == nil {
			t.Errorf("a row of kind %q with body %q is taken", bad.kind, bad.body)
		}
	}
	if _, err := c.conn.Exec(t.Context(), `INSERT INTO countersign_outbox (kind, body, merchant) VALUES ('deposit', '{}', 'shop')`); err == nil {
		t.Error("a core can say another merchant than the body")
	}
}

// A token of a narrow role carries what it may; what does not fit into its hour waits; and one that is revoked stops the
// relay's calls and loses nothing.
func TestTokens(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop", "other")
	made := must(s.admin.CreateToken(t.Context(), client.NewToken{Name: "relay", Role: client.RoleIngest}))(t)
	r := start(t, Config{From: c.url, Nodes: []*client.Service{clientOf(t, s.front.URL, made.Secret.Reveal())}})
	c.insert(kindWithdrawal, withdrawal("other", "w-1")) // the role may not
	c.insert(kindDeposit, deposit("shop", "d-1"))
	until(t, "the deposit goes", func() bool { return len(s.told("shop")) == 1 && c.waiting() == "1" })
	until(t, "the other merchant is held", func() bool { return strings.Contains(r.log.String(), "merchant=other") })
	until(t, "the metrics say so", func() bool {
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return strings.Contains(w.Body.String(), "countersign_relay_held_merchants 1\n")
	})
	must(s.admin.RevokeToken(t.Context(), made.ID))(t)
	for i := range 5 {
		c.insert(kindDeposit, deposit("shop", fmt.Sprint("d-", i+2)))
	}
	until(t, "it is told", func() bool { return strings.Contains(r.log.String(), "part=service") })
	until(t, "it is not ready", func() bool { return status(r.Handler(), "/readyz") == http.StatusServiceUnavailable })
	if c.waiting() != "6" || c.refused() != "0" || status(r.Handler(), "/healthz") != http.StatusOK {
		t.Errorf("%s rows wait, and %s are refused", c.waiting(), c.refused())
	}
	r.stop()
	limited := must(s.admin.CreateToken(t.Context(), client.NewToken{Name: "limited", Role: client.RoleIngest, Hourly: 3}))(t)
	full := make(chan struct{}, 100)
	s.set(nil, func(_ *http.Request, _ []byte, status int, answer []byte) bool {
		if status == http.StatusTooManyRequests && strings.Contains(string(answer), "0 are left until") {
			full <- struct{}{}
		}
		return true
	})
	second := start(t, Config{From: c.url, Nodes: []*client.Service{clientOf(t, s.front.URL, limited.Secret.Reveal())}})
	<-full
	second.stop()
	if n := len(s.told("shop")); n != 4 || c.refused() != "0" {
		t.Errorf("%d are carried with a token of three an hour, %s are refused", n, c.refused())
	}
	s.relay(c) // with another token
	c.carried()
	if strings.Contains(r.log.String(), made.Secret.Reveal()) {
		t.Error("the log has the token")
	}
}

func status(h http.Handler, path string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}

// The core's database goes away and comes back, also in the middle of a turn.
func TestDatabaseGoesAway(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop")
	name := c.one(`SELECT current_database()`)
	server := must(url.Parse(c.url))(t)
	server.Path = "/postgres"
	outside := &core{t: t, url: server.String()}
	outside.conn = outside.connect()
	cut := func() {
		outside.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND application_name = 'countersign relay'`, name)
	}
	var once atomic.Bool
	s.set(nil, func(r *http.Request, body []byte, _ int, _ []byte) bool {
		if r.Method == http.MethodPost && strings.Contains(string(body), "d-5") && once.CompareAndSwap(false, true) {
			cut() // the service has them; the relay cannot delete them
		}
		return true
	})
	r := s.relay(c)
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprint("d-", i))
		c.insert(kindDeposit, deposit("shop", want[i]))
	}
	c.carried()
	outside.exec(`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS false`)
	cut()
	until(t, "it is told", func() bool {
		return strings.Contains(r.log.String(), "part=core") && status(r.Handler(), "/readyz") == http.StatusServiceUnavailable
	})
	c.insert(kindDeposit, deposit("shop", "d-10")) // by a connection of before
	outside.exec(`ALTER DATABASE ` + name + ` ALLOW_CONNECTIONS true`)
	until(t, "it goes on", func() bool { return c.waiting() == "0" && status(r.Handler(), "/readyz") == http.StatusOK })
	if diff := cmp.Diff(append(want, "d-10"), s.told("shop")); diff != "" {
		t.Error(diff)
	}
}

// A start without the table says what to do; one without the database waits for it.
func TestWithoutTheTable(t *testing.T) {
	api := clientOf(t, "http://127.0.0.1:1", "x")
	r := must(New(Config{From: dbtest.Postgres(t), Nodes: []*client.Service{api}}))(t)
	if err := r.Run(t.Context()); !errors.Is(err, ErrNoTable) || !strings.Contains(err.Error(), "relay ddl") {
		t.Errorf("without the table: %v", err)
	}
	r = must(New(Config{From: "postgres://nobody:secret@127.0.0.1:1/core", Nodes: []*client.Service{api}}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		t.Errorf("without the database: %v", err)
	}
	if why := r.state.why(partCore, partNotices); !strings.Contains(why, "refused") || strings.Contains(why, "secret") {
		t.Errorf("why: %s", why)
	}
	for _, bad := range []Config{{}, {From: "x", Nodes: []*client.Service{api}}, {From: "mysql://x", Nodes: []*client.Service{api}}, {From: "postgres:///x"}} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v is taken", bad.From)
		}
	}
}

// A stop ends what was sent: its rows are deleted, and no transaction is left.
func TestGracefulStop(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop")
	reached, on := make(chan struct{}), make(chan struct{})
	s.set(nil, func(r *http.Request, _ []byte, _ int, _ []byte) bool {
		if r.Method == http.MethodPost {
			close(reached)
			<-on
		}
		return true
	})
	r := s.relay(c)
	c.insert(kindDeposit, deposit("shop", "d-1"))
	<-reached
	ended := make(chan struct{})
	go func() { r.stop(); close(ended) }()
	time.Sleep(50 * time.Millisecond)
	close(on)
	<-ended
	if c.waiting() != "0" {
		t.Error("the row that was acknowledged is still there")
	}
	until(t, "its connections end", func() bool {
		return c.one(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'countersign relay'`) == "0"
	})
}

// The rights that docs/provider/relay.md names are enough.
func TestRights(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop")
	name := "relay_" + c.one(`SELECT current_database()`)
	c.exec(`CREATE ROLE ` + name + ` LOGIN; CREATE ROLE core_` + name + ` LOGIN;
		GRANT SELECT, UPDATE, DELETE ON countersign_outbox TO ` + name + `;
		GRANT SELECT, INSERT, UPDATE (seq, withdrawal, body) ON countersign_decisions TO ` + name + `;
		GRANT SELECT, INSERT, UPDATE ON countersign_permits TO ` + name + `;
		GRANT SELECT, UPDATE ON countersign_relay TO ` + name + `;
		GRANT INSERT ON countersign_outbox TO core_` + name)
	as := func(user string) string {
		u := must(url.Parse(c.url))(t)
		q := u.Query()
		q.Set("user", user)
		u.RawQuery = q.Encode()
		return u.String()
	}
	start(t, Config{From: as(name), Nodes: []*client.Service{clientOf(t, s.front.URL, s.token)}, Decisions: true})
	conn := (&core{t: t, url: as("core_" + name)}).connect()
	must(conn.Exec(t.Context(), `INSERT INTO countersign_outbox (kind, body) VALUES ('deposit', $1), ('deposit', '{}'), ('withdrawal', $2)`, deposit("shop", "d-1"), withdrawal("shop", "w-1")))(t)
	until(t, "everything is carried or refused", func() bool { return c.waiting() == "0" && c.refused() == "1" })
	list := must(s.admin.Withdrawals(t.Context(), client.WithdrawalFilter{}, client.PageOptions{}))(t)
	must(s.admin.CancelWithdrawal(t.Context(), list.Items[0].ID))(t)
	until(t, "the decision", func() bool { return c.one(`SELECT count(*) FROM countersign_decisions`) == "1" })
	if tag, err := (&core{t: t, url: as(name)}).connect().Exec(t.Context(), anewDecisionSQL, 9, "shop", "w-1", "shop.again", "{}"); err != nil || tag.RowsAffected() != 1 {
		t.Errorf("giving it another id: %v, %v", tag, err)
	}
}

// TestRewrittenWhileCarried: the core writes a row anew while the relay carries what it read
// before. The new content is not lost: it is carried, or refused where anybody can see it.
func TestRewrittenWhileCarried(t *testing.T) {
	c := newCore(t)
	s := newService(t, "shop")
	core := c.connect()
	var rewrites atomic.Int64
	rewrite := func(text string) {
		if _, err := core.Exec(context.Background(), text); err != nil {
			t.Error(err)
		}
		rewrites.Add(1)
	}
	s.set(nil, func(_ *http.Request, body []byte, _ int, _ []byte) bool {
		switch n := rewrites.Load(); {
		case n == 0 && bytes.Contains(body, []byte("moved-1")): // acknowledged, and not what the core means any more
			rewrite(`UPDATE countersign_outbox SET body = replace(body::text, 'moved-1', 'moved-2')::json WHERE body::text LIKE '%moved-1%'`)
		case n == 1 && bytes.Contains(body, []byte("nobody")): // refused, and mended
			rewrite(`UPDATE countersign_outbox SET body = replace(body::text, 'nobody', 'shop')::json WHERE body::text LIKE '%nobody%'`)
		case n == 2 && bytes.Contains(body, []byte("amount-1")): // another amount under the same trackingId
			rewrite(`UPDATE countersign_outbox SET body = replace(body::text, '"amount":"', '"amount":"9')::json WHERE body::text LIKE '%amount-1%'`)
		}
		return true
	})
	s.relay(c)
	for i, d := range []any{deposit("shop", "moved-1"), deposit("nobody", "mended-1"), deposit("shop", "amount-1")} {
		c.insert(kindDeposit, d)
		until(t, "the row was written anew, and is settled", func() bool { return rewrites.Load() == int64(i+1) && c.waiting() == "0" })
	}
	told := s.told("shop")
	slices.Sort(told)
	if want := []string{"amount-1", "mended-1", "moved-1", "moved-2"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if got := c.one(`SELECT string_agg(body->>'trackingId' || ' ' || (problem->>'status'), ', ') FROM countersign_outbox WHERE refused IS NOT NULL`); got != "amount-1 409" {
		t.Errorf("refused: %s", got)
	}
}
