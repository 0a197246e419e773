package conformance_test

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/conformance"
	"countersign/envelope"
	"countersign/merchant"
)

// Test keys are made when the tests run.
var testKey, otherKey = sync.OnceValue(makeKey), sync.OnceValue(makeKey)

// makeKey takes no key whose modulus is almost a power of 2: that leaves no room for blocks beyond the modulus.
func makeKey() *envelope.Key {
	for {
		key, err := envelope.GenerateKey(1024)
		if err != nil {
			panic(err)
		}
		if parsePublic(key).N.Bytes()[0] < 0xf0 {
			return key
		}
	}
}

func parsePublic(key *envelope.Key) *rsa.PublicKey {
	der, err := base64.StdEncoding.DecodeString(key.PublicBase64())
	if err != nil {
		panic(err)
	}
	pub, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		panic(err)
	}
	return pub.(*rsa.PublicKey)
}

const (
	testAPIKey      = "merchant-Api-Key-5150"
	testCallbackKey = "Callback-Key-2112"

	// stall is how long endpoints wait for the rest of a request. One case waits for it, and
	// everything else must come within it, also on a busy machine.
	stall = 3 * time.Second
)

var testOrder = client.NewOrder{
	CallBackID: "Order-77A", TenantUserID: "65515", Address: "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8",
	ChainName: "TRON", Symbol: "USDT", Amount: amountOf("987654321098765431"), // as long as the blocks of 1024 bits take (R7)
}

// must returns v of a call that may not fail here.
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

// amountOf returns an amount, or 0 for what is none.
func amountOf(text string) countersign.Amount {
	a, _ := countersign.ParseAmount(text)
	return a
}

// rig is a merchant of package merchant in whose requests, memory and responses faults are planted.
type rig struct {
	key, responseKey *envelope.Key // as the merchant has them
	service          *envelope.Key // opens answers
	padding          envelope.Padding
	other            bool // the service is not of this project
	unbound          bool // the service does not bind
	profile          merchant.Profile
	sign, signer     *envelope.SigningKey
	faults           []fault
	long             chan struct{} // closed by longFirst when a long body is being read
	longFirst        sync.Once
	turn             sync.Mutex // of the fault "one at a time"

	handler http.Handler

	mu      sync.Mutex
	inbox   *merchant.MemoryInbox
	credits map[string][]string // amounts by trackingId
	firsts  map[string]members  // the first callback of each type and identifier
	counts  map[string]int
	kept    map[string][]byte // first responses
	last    string            // trackingId of the credit before
	kills   byte
}

// members are those of a message, numbers as they were written.
type members map[string]any

func (m members) str(name string) string {
	if m[name] == nil {
		return ""
	}
	return fmt.Sprint(m[name])
}

// newRig is a merchant of a service that binds or does not, with the faults of these names.
func newRig(unbound bool, names ...string) *rig {
	g := &rig{key: testKey().Public(), responseKey: testKey().Public(), service: testKey(), unbound: unbound,
		long: make(chan struct{}), inbox: merchant.NewMemoryInbox(), credits: map[string][]string{},
		firsts: map[string]members{}, counts: map[string]int{}, kept: map[string][]byte{}}
	if unbound {
		g.profile.Binding = merchant.BindingWhenPresent
	}
	for _, name := range names {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		g.faults = append(g.faults, faults[i])
	}
	return g
}

// newOther is a rig whose service is not of this project.
func newOther(names ...string) *rig {
	g := newRig(true, names...)
	g.other, g.profile = true, merchant.OtherProvider()
	return g
}

// start serves g and returns the settings that check it.
func (g *rig) start(t testing.TB) conformance.Config {
	t.Helper()
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	c := merchant.Config{Key: g.key, Padding: g.padding, ResponseKey: g.responseKey, APIKey: testAPIKey, Profile: g.profile,
		CallbackAPIKeys: []countersign.APIKey{testCallbackKey}, Sign: g.sign, BodyTimeout: stall, Inbox: g,
		OnDeposit: func(_ context.Context, d merchant.Deposit) error { g.credit(d); return nil },
		OnPossibleDuplicate: func(_ context.Context, d merchant.Deposit) error {
			for _, f := range g.faults {
				if f.credits != nil && f.credits(g, d) {
					g.credit(d)
				}
			}
			return nil
		},
		OnWithdrawal: func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			if w.CallBackID != testOrder.CallBackID {
				return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil
			}
			return merchant.Confirm(testOrder.TenantUserID, testOrder.Details()), nil
		},
		Log: slog.New(slog.DiscardHandler)}
	if g.signer != nil {
		c.ServiceSigner, c.PublicURL = g.signer, server.URL
	}
	g.handler = must(merchant.New(c))(t)
	return conformance.Config{NotifyURL: server.URL + merchant.DefaultNotifyPath, WithdrawURL: server.URL + merchant.DefaultWithdrawPath,
		Key: testKey(), APIKey: testAPIKey, CallbackAPIKey: testCallbackKey, Order: &testOrder, Unbound: g.unbound, Other: g.other,
		Effects: func(_ context.Context, ids []string) (credits []conformance.Credit, _ error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, id := range ids {
				for _, amount := range g.credits[id] {
					credits = append(credits, conformance.Credit{TrackingID: id, Amount: amount})
				}
			}
			return credits, nil
		},
		EffectsWait: time.Millisecond, // a rig credits before it answers
		Restart: func(context.Context) error {
			g.mu.Lock()
			g.kills++
			for _, f := range g.faults {
				if f.kill != nil {
					f.kill(g)
				}
			}
			g.mu.Unlock()
			// Connections are accepted in turn: after another one's response a connection that was dialled before is closed too.
			resp, err := server.Client().Get(server.URL)
			if err == nil {
				err = resp.Body.Close()
			}
			server.CloseClientConnections()
			return err
		},
	}
}

func (g *rig) credit(d merchant.Deposit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	amounts := []string{d.Amount.String()}
	for _, f := range g.faults {
		if f.amounts != nil {
			amounts = f.amounts(g, amounts[0])
		}
	}
	g.credits[d.TrackingID], g.last = append(g.credits[d.TrackingID], amounts...), d.TrackingID
}

// Claim is that of the memory, with the faults of entries.
func (g *rig) Claim(ctx context.Context, e merchant.Entry) (merchant.Claimed, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.faults {
		if f.entry != nil {
			f.entry(g, &e)
		}
	}
	return g.inbox.Claim(ctx, e)
}

// Settle is that of the memory.
func (g *rig) Settle(ctx context.Context, s merchant.Settlement) (merchant.Reply, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inbox.Settle(ctx, s)
}

// asked is a request that was read.
type asked struct {
	*rig
	body   []byte
	form   envelope.BodyForm
	blocks [][]byte // what each holds
	plain  []byte   // nil: it does not open
	m      members  // nil: it is no JSON
	kind   int
	key    string // type and identifier
	n      int    // how often it came
}

// ServeHTTP passes a request on to the merchant, with the faults.
func (g *rig) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reads := false // else the merchant reads the body itself
	for _, f := range g.faults {
		if f.http != nil && f.http(g, w, r) {
			return
		}
		reads = reads || f.refuses != nil || f.takes != nil || f.confirms != nil || f.answer != nil || f.response != nil
	}
	if !reads {
		g.handler.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusRequestTimeout)
		return
	}
	q := g.ask(body)
	status, out := g.respond(q, r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(out.Body.Bytes())
}

// ask reads a body as far as it can be read.
func (g *rig) ask(body []byte) *asked {
	q := &asked{rig: g, body: body}
	var inner []byte
	inner, q.form, _ = envelope.Unwrap(body)
	raw, _ := base64.StdEncoding.DecodeString(string(bytes.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return -1
		}
		return r
	}, inner)))
	for b := range slices.Chunk(raw, g.key.Size()) {
		p, err := envelope.Open(g.key, g.padding, []byte(base64.StdEncoding.EncodeToString(b)))
		if err != nil {
			return q
		}
		q.blocks, q.plain = append(q.blocks, p), append(q.plain, p...)
	}
	d := json.NewDecoder(bytes.NewReader(q.plain))
	d.UseNumber()
	if d.Decode(&q.m) != nil {
		q.m = nil
		return q
	}
	_, _ = fmt.Sscan(q.m.str("type"), &q.kind)
	id := q.m.str("trackingId")
	if q.kind == 2 {
		id = ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	q.key = fmt.Sprint(q.kind, " ", id, " ", q.m.str("callBackId"))
	if g.firsts[q.key] == nil {
		g.firsts[q.key] = q.m
	}
	g.counts[q.key]++
	g.counts[q.m.str("requestUUID")]++
	q.n = g.counts[q.key]
	return q
}

// respond returns the merchant's response to q with the faults.
func (g *rig) respond(q *asked, r *http.Request) (status int, out *httptest.ResponseRecorder) {
	out = httptest.NewRecorder()
	for _, f := range g.faults {
		if f.refuses != nil && (q.m != nil || f.unread) {
			if code := f.refuses(q); code != 0 {
				status = http.StatusOK
				if code == 1001 || code == 1002 {
					status = http.StatusBadRequest
				}
				return g.write(q, out, status, members{"apiKey": testAPIKey, "data": "", "errCode": code, "message": "no"})
			}
		}
		o := testOrder
		if f.confirms != nil && q.kind == 2 && f.confirms(q, &o) {
			a := members{"type": 2, "tenantUserId": q.m["tenantUserId"], "callBackId": q.m["callBackId"], "address": o.Address,
				"chainName": o.ChainName, "symbol": o.Symbol, "amount": o.Amount, "requestUUID": q.m["requestUUID"]}
			return g.write(q, out, http.StatusOK, g.accepts(a))
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(q.body)), int64(len(q.body))
	g.handler.ServeHTTP(out, r)
	var said members
	if json.Unmarshal(out.Body.Bytes(), &said) != nil {
		return out.Code, out
	}
	code := 0
	_, _ = fmt.Sscan(said.str("errCode"), &code)
	for _, f := range g.faults {
		if code != 0 && f.takes != nil && f.takes(q, code) {
			return g.write(q, out, http.StatusOK, g.accepts(members{"type": 1, "requestUUID": q.m["requestUUID"]}))
		}
	}
	return g.write(q, out, out.Code, said)
}

// write writes a response with the faults of answers and responses.
func (g *rig) write(q *asked, out *httptest.ResponseRecorder, status int, said members) (int, *httptest.ResponseRecorder) {
	var a members
	plain, err := envelope.Open(g.service, envelope.PKCS1v15, []byte(said.str("data")))
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(plain))
		d.UseNumber()
		_ = d.Decode(&a)
	}
	for _, f := range g.faults {
		if f.answer != nil && a != nil && (q.kind != 2 || f.questions) {
			f.answer(q, a)
			said["data"] = g.accepts(a)["data"]
		}
	}
	out.Body.Reset()
	for _, f := range g.faults {
		if f.response != nil {
			status = f.response(q, status, said, a)
		}
	}
	if _, has := said["raw"]; has {
		_, _ = out.Body.Write(said["raw"].([]byte))
		return status, out
	}
	_ = json.NewEncoder(out.Body).Encode(said)
	return status, out
}

// accepts returns the response that has the sealed answer a.
func (g *rig) accepts(a members) members {
	plain, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	body, err := envelope.Seal(g.responseKey, envelope.PKCS1v15, plain)
	if err != nil {
		panic(err)
	}
	return members{"apiKey": testAPIKey, "data": string(body), "errCode": 0, "message": ""}
}

// laxOpen opens blocks without looking at their padding, and returns what they hold from the first { on.
func (q *asked) laxOpen() (plain []byte) {
	pub, size := parsePublic(q.rig.key), q.rig.key.Size()
	raw, _ := base64.StdEncoding.DecodeString(string(q.body))
	for b := range slices.Chunk(raw[:len(raw)/size*size], size) {
		v := new(big.Int).SetBytes(b)
		p := v.Exp(v, big.NewInt(int64(pub.E)), pub.N).FillBytes(make([]byte, size))
		plain = append(plain, bytes.TrimLeft(bytes.TrimLeft(p[2:], "\xff\xfe"), "\x00")...)
	}
	return plain
}
