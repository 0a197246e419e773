package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/audit"
	"countersign/internal/lab/dbtest"
)

// kills is how often each database's process is killed.
var kills = dbtest.Times(50, 8)

// TestKill kills the service with SIGKILL under load, again and again, and then
// holds it to what it had said: every deposit and withdrawal that it
// acknowledged is told to the merchant, every withdrawal has one decision and
// at most one permit, and the feed of decisions has no gap.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test starts a hundred processes")
	}
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testKill(t, "--data", t.TempDir())
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		testKill(t, "--data", t.TempDir(), "--db", dbtest.Postgres(t))
	})
}

func testKill(t *testing.T, args ...string) {
	m := newKilledMerchant(t)
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--allow-private", "--allow-http",
		"--exchange-timeout", "1s", "--lease", "6s"}, args...)
	l := &killLoad{t: t, m: m, args: args, deposits: map[string]bool{}, withdrawals: map[string]string{}, permits: map[string]map[string]string{}}
	l.start()
	l.register()
	for i := range kills {
		l.hold()
		l.runUntilKilled(func() bool { return i < kills-1 || l.complete() })
		l.start()
	}
	l.finish()
	t.Logf("%d kills, %d deposits and %d withdrawals acknowledged, %d permits", kills, len(l.deposits), len(l.withdrawals), len(l.permits))
}

// killedMerchant answers honestly and counts what it was told.
type killedMerchant struct {
	*httptest.Server
	mu       sync.Mutex
	key      *envelope.Key
	deposits map[string]int
	asked    map[string]int
}

const killAPIKey countersign.APIKey = "kill-test-merchant"

func newKilledMerchant(t *testing.T) *killedMerchant {
	m := &killedMerchant{deposits: map[string]int{}, asked: map[string]int{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

func (m *killedMerchant) setKey(t *testing.T, public string) {
	t.Helper()
	key, err := envelope.ParseKey([]byte(public))
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key = key
}

// orderOf is what the merchant knows of every withdrawal.
func orderOf(callBackID string) countersign.Details {
	a, err := countersign.ParseAmount("1.0" + fmt.Sprint(len(callBackID)))
	if err != nil {
		panic(err)
	}
	return countersign.Details{Address: "T" + callBackID, ChainName: "TRON", Symbol: "USDT", Amount: a}
}

// answerTo is the honest answer to c. That to a withdrawal is bound to it by its
// blocks: the service does not know every order.
func answerTo(c countersign.Callback, key *envelope.Key) ([]byte, error) {
	order := orderOf(c.OrderID())
	if w, ok := c.(*countersign.WithdrawalRequest); ok {
		b, _, err := w.Answer(order).MarshalBlocks(key.MaxChunk(envelope.PKCS1v15))
		return b, err
	}
	return c.Accept(order).Marshal()
}

func (m *killedMerchant) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	key := m.key
	m.mu.Unlock()
	plain, err := envelope.Open(key, envelope.PKCS1v15, body)
	if err != nil || countersign.CheckBinding(plain) != countersign.BindingHolds {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	c, err := countersign.ParseCallback(plain, countersign.ParseOptions{})
	if err != nil {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	switch c.CallbackType() {
	case countersign.TypeDeposited:
		m.deposits[c.EventID()]++
	case countersign.TypeRequestWithdraw:
		m.asked[c.OrderID()]++
	}
	m.mu.Unlock()
	if rand.IntN(50) == 0 { // done, but the reply is lost
		panic(http.ErrAbortHandler)
	}
	b, err := answerTo(c, key)
	if err != nil {
		panic(err)
	}
	data, err := envelope.Seal(key, envelope.PKCS1v15, b)
	if err != nil {
		panic(err)
	}
	b, err = countersign.Response{APIKey: killAPIKey, Data: string(data)}.Marshal()
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(b)
}

// killLoad is the wallet core: it writes down what was acknowledged.
type killLoad struct {
	t     *testing.T
	m     *killedMerchant
	args  []string
	d     *process
	token string
	logs  []*lockedBuffer // of every process

	mu          sync.Mutex
	n           int
	deposits    map[string]bool              // trackingId
	withdrawals map[string]string            // id → callBackId
	permits     map[string]map[string]string // id → claim → permit
	held        []client.AuditProof          // checkpoints of the audit log, one before each kill
}

func (l *killLoad) service() *client.Service {
	api, err := client.NewService(client.Config{URL: l.d.url, Token: client.Secret(l.token)})
	if err != nil {
		l.t.Fatal(err)
	}
	return api
}

// hold keeps a checkpoint, as another company would.
func (l *killLoad) hold() {
	p, err := l.service().AuditCheckpoint(l.t.Context(), 0)
	if err != nil {
		l.t.Fatal(err)
	}
	l.held = append(l.held, p)
}

// checkAudit exports the audit log: it is whole, continues every checkpoint that was
// held, tells of each withdrawal once, of the permit that was given, and of no secret.
func (l *killLoad) checkAudit(ctx context.Context) {
	var b bytes.Buffer
	if err := audit.Export(ctx, &b, l.service(), 1, 0); err != nil {
		l.t.Fatal(err)
	}
	for _, p := range l.held {
		held := strings.NewReader(p.Checkpoint)
		if _, err := audit.Verify(bytes.NewReader(b.Bytes()), l.held[0].Key, held); err != nil {
			l.t.Fatal(err)
		}
	}
	told := map[string]int{} // by kind and withdrawal
	for _, line := range strings.Split(b.String(), "\n") {
		var entry client.AuditEntry
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Seq == 0 {
			continue // the first and the last line
		}
		r, err := audit.Read(entry.Record)
		if err != nil {
			l.t.Fatal(err)
		}
		if len(r.About) == 1 {
			told[r.Kind+" "+r.About[0]]++
		}
		if strings.Contains(line, killAPIKey.Reveal()) {
			l.t.Errorf("the API key is in %s", line)
		}
		for claim, permit := range l.permits[strings.Join(r.About, " ")] {
			if strings.Contains(line, permit) {
				l.t.Errorf("a permit is in %s", line)
			}
			if r.Kind == "withdrawal.released" && !(strings.Contains(line, `"holder":"`+claim+`"`) && strings.Contains(line, audit.Fingerprint(permit))) {
				l.t.Errorf("the release to %s is told as %s", claim, line)
			}
		}
	}
	for id := range l.withdrawals {
		for _, kind := range []string{"withdrawal.created", "withdrawal.decided", "withdrawal.released"} {
			if n := told[kind+" "+id]; n != 1 {
				l.t.Errorf("%s of %s is told %d times", kind, id, n)
			}
		}
		if told["withdrawal.answered "+id] == 0 {
			l.t.Errorf("no answer about %s is told", id)
		}
	}
}

func (l *killLoad) start() {
	l.d = startDaemon(l.t, l.args...)
	l.logs = append(l.logs, l.d.output)
	if l.token == "" {
		l.token = adminToken(l.t, l.args[slices.Index(l.args, "--data")+1])
	}
}

func (l *killLoad) call(ctx context.Context, method, path string, in, out any) error {
	return call(ctx, method, l.d.url+path, l.token, in, out)
}

func (l *killLoad) register() {
	var made struct {
		PublicKey string `json:"publicKey"`
	}
	err := l.call(l.t.Context(), "POST", "/v1/merchants", map[string]any{
		"id": "m", "name": "M", "apiKey": killAPIKey.Reveal(), "key": map[string]any{"bits": 1024}, "concurrency": 16,
		"notifyUrl": l.m.URL + "/n", "withdrawUrl": l.m.URL + "/w",
		"retry": map[string]any{
			"notify":   map[string]any{"delays": []string{"0s"}, "every": "1s"},
			"withdraw": map[string]any{"delays": []string{"0s"}, "every": "1s"},
		},
	}, &made)
	if err != nil {
		l.t.Fatal(err)
	}
	l.m.setKey(l.t, made.PublicKey)
}

// runUntilKilled loads the process from several sides and kills it at a random
// moment, but not before enough.
func (l *killLoad) runUntilKilled(enough func() bool) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var work sync.WaitGroup
	for _, f := range []func(context.Context) error{l.addDeposits, l.addWithdrawal, l.addWithdrawal, l.release, l.release} {
		work.Go(func() {
			untilKilled(ctx, func(ctx context.Context) error {
				err := f(ctx)
				var refused *apiError
				if errors.As(err, &refused) && refused.status < 500 {
					l.t.Errorf("refused: %v", refused)
				}
				return err
			})
		})
	}
	time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
	waitUntil(l.t, "a deposit and a withdrawal acknowledged", l.d.output.String, enough)
	l.d.kill()
	cancel()
	work.Wait()
}

// complete reports whether something of each kind was acknowledged.
func (l *killLoad) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.deposits) > 0 && len(l.withdrawals) > 0
}

func (l *killLoad) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	return l.n
}

func (l *killLoad) addDeposits(ctx context.Context) error {
	var batch []map[string]any
	for range 1 + rand.IntN(4) {
		n := l.next()
		batch = append(batch, map[string]any{
			"merchant": "m", "trackingId": fmt.Sprint("D", n), "tenantUserId": "7", "txId": fmt.Sprint("x", n), "chainName": "TRON",
			"symbol": "USDT", "amount": "1.50", "fromAddress": "TA", "toAddress": "TB", "riskLevelFrom": 1, "riskLevelTo": 2, "txIndex": -1,
		})
	}
	if err := l.call(ctx, "POST", "/v1/deposits", batch, nil); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range batch {
		l.deposits[d["trackingId"].(string)] = true
	}
	return nil
}

func (l *killLoad) addWithdrawal(ctx context.Context) error {
	callBackID := fmt.Sprint("W", l.next())
	in := map[string]any{"merchant": "m", "callBackId": callBackID, "tenantUserId": "7"}
	if len(callBackID)%2 == 0 {
		o := orderOf(callBackID)
		in["details"] = map[string]any{"address": o.Address, "chainName": o.ChainName, "symbol": o.Symbol, "amount": o.Amount.String()}
	}
	var out struct {
		ID string `json:"id"`
	}
	if err := l.call(ctx, "POST", "/v1/withdrawals", in, &out); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.withdrawals[out.ID] = callBackID
	return nil
}

// release tries to take permits, two wallets against each other, old
// withdrawals as well as new ones.
func (l *killLoad) release(ctx context.Context) error {
	l.mu.Lock()
	ids := slices.Collect(maps.Keys(l.withdrawals))
	l.mu.Unlock()
	if len(ids) == 0 {
		time.Sleep(5 * time.Millisecond)
		return nil
	}
	return l.releaseOne(ctx, ids[rand.IntN(len(ids))], fmt.Sprint("wallet", rand.IntN(2)))
}

func (l *killLoad) releaseOne(ctx context.Context, id, claim string) error {
	var out struct {
		Permit string `json:"permit"`
	}
	err := l.call(ctx, "POST", "/v1/withdrawals/"+id+"/release", map[string]any{"claim": claim}, &out)
	var refused *apiError
	if errors.As(err, &refused) && refused.status == http.StatusConflict {
		return nil // not decided yet, or the other wallet has it
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.permits[id] == nil {
		l.permits[id] = map[string]string{}
	}
	if before, ok := l.permits[id][claim]; ok && before != out.Permit {
		l.t.Errorf("withdrawal %s: claim %s got the permit %s and then %s", id, claim, before, out.Permit)
	}
	l.permits[id][claim] = out.Permit
	if len(l.permits[id]) > 1 {
		l.t.Errorf("withdrawal %s was released to %v", id, l.permits[id])
	}
	return nil
}

// finish lets the last process work everything off and checks it.
func (l *killLoad) finish() {
	t, ctx := l.t, l.t.Context()
	waitUntil(t, "every callback settled", l.d.output.String, func() bool {
		var stats struct {
			Lanes []struct {
				State string
				Count int64
			}
		}
		if err := l.call(ctx, "GET", "/v1/stats", nil, &stats); err != nil {
			t.Fatal(err)
		}
		open := int64(0)
		for _, lane := range stats.Lanes {
			if lane.State == "pending" || lane.State == "sending" {
				open += lane.Count
			}
		}
		return open == 0
	})
	for id := range l.withdrawals { // every one of them can be released now, once
		for _, claim := range []string{"wallet0", "wallet1"} {
			if err := l.releaseOne(ctx, id, claim); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.m.mu.Lock()
	for trackingID := range l.deposits {
		if l.m.deposits[trackingID] == 0 {
			t.Errorf("deposit %s was acknowledged and never told", trackingID)
		}
	}
	for id, callBackID := range l.withdrawals {
		if l.m.asked[callBackID] == 0 {
			t.Errorf("withdrawal %s was acknowledged and never asked for", callBackID)
		}
		if len(l.permits[id]) != 1 {
			t.Errorf("withdrawal %s has %d permits", callBackID, len(l.permits[id]))
		}
	}
	l.m.mu.Unlock()
	l.checkFeed(ctx)
	l.checkAudit(ctx)
	if status := l.d.stop(t); status != 0 {
		t.Errorf("it ended with status %d:\n%s", status, l.d.output)
	}
	l.checkLogs()
}

// checkLogs looks for secrets in all that a hundred starts and ends have
// printed.
func (l *killLoad) checkLogs() {
	secrets := []string{l.token, killAPIKey.Reveal(), l.m.key.PublicBase64()[40:]}
	for _, permits := range l.permits {
		secrets = append(secrets, slices.Collect(maps.Values(permits))...)
	}
	for _, log := range l.logs {
		text := log.String()
		for _, s := range secrets {
			if strings.Contains(text, s) {
				l.t.Errorf("a secret is in the log:\n%s", text)
			}
		}
	}
}

// checkFeed reads the feed of decisions to its end.
func (l *killLoad) checkFeed(ctx context.Context) {
	decided := map[string]bool{}
	after := int64(0)
	for {
		var page struct {
			Decisions []struct {
				Seq        int64
				Withdrawal struct{ ID, Decision string }
			}
			Next json.Number
		}
		if err := l.call(ctx, "GET", fmt.Sprintf("/v1/decisions?limit=1000&after=%d", after), nil, &page); err != nil {
			l.t.Fatal(err)
		}
		if len(page.Decisions) == 0 {
			break
		}
		for _, d := range page.Decisions {
			if d.Seq != after+1 {
				l.t.Errorf("after decision %d comes %d", after, d.Seq)
			}
			after = d.Seq
			if decided[d.Withdrawal.ID] {
				l.t.Errorf("withdrawal %s was decided twice", d.Withdrawal.ID)
			}
			decided[d.Withdrawal.ID] = true
			if d.Withdrawal.Decision != "confirmed" {
				l.t.Errorf("withdrawal %s is %s", d.Withdrawal.ID, d.Withdrawal.Decision)
			}
		}
	}
	for id := range l.withdrawals {
		if !decided[id] {
			l.t.Errorf("withdrawal %s has no decision", id)
		}
	}
}
