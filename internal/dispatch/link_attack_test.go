package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/db"
	lib "countersign/merchant"
)

// attacked is one message of an exchange on its way, which somebody between the ends may change.
type attacked struct {
	path   string
	host   string
	status int // of a response
	header http.Header
	body   []byte
	plain  []byte // what body carries sealed
}

func (m attacked) clone() attacked {
	m.header, m.body = m.header.Clone(), bytes.Clone(m.body)
	return m
}

// linkAttack is both ends of a signed link, and somebody between them who has every secret of both
// but their Ed25519 keys.
type linkAttack struct {
	t        *testing.T
	random   *rand.Rand
	now      time.Time
	pair     *envelope.Key
	s        *countersigntest.Service
	h        *lib.Handler
	service  *envelope.SigningKey
	merchant *envelope.SigningKey
	stranger *envelope.SigningKey
	effects  map[string]int // by trackingId, and by callBackId of a withdrawal that was asked about
	orders   map[string]int
	n        int
}

const attackHost = "pay.shop.example"

func newLinkAttack(t *testing.T, seed uint64) *linkAttack {
	a := &linkAttack{t: t, random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_780_000_000, 0), effects: map[string]int{}, orders: map[string]int{},
		service: envelope.GenerateSigningKey(), merchant: envelope.GenerateSigningKey(), stranger: envelope.GenerateSigningKey()}
	var err error
	if a.pair, err = envelope.GenerateKey(1024); err != nil {
		t.Fatal(err)
	}
	if a.s, err = countersigntest.MakeService(countersigntest.ServiceConfig{Key: a.pair, Sign: a.service}); err != nil {
		t.Fatal(err)
	}
	c := a.s.MerchantConfig()
	c.Log = slog.New(slog.DiscardHandler)
	c.Sign, c.PublicURL, c.Now = a.merchant, "https://"+attackHost, func() time.Time { return a.now }
	c.Inbox, c.OnPossibleDuplicate = lib.NewMemoryInbox(), lib.KeepForReview
	c.OnDeposit = func(_ context.Context, d lib.Deposit) error { a.effects[d.TrackingID]++; return nil }
	c.OnWithdrawal = func(_ context.Context, w countersign.WithdrawalRequest) (lib.Answer, error) {
		a.effects[w.CallBackID] = 1 // what was confirmed is judged again at each repetition (I1): no other effect
		n := a.orders[w.CallBackID]
		return lib.Confirm(countersigntest.Withdrawal(n).TenantUserID, countersigntest.Order(n)), nil
	}
	if a.h, err = lib.New(c); err != nil {
		t.Fatal(err)
	}
	return a
}

// callback is a new one: a deposit or a withdrawal.
func (a *linkAttack) callback() countersign.Callback {
	a.n++
	if a.n%2 == 0 {
		return countersigntest.Deposit(a.n)
	}
	w := countersigntest.Withdrawal(a.n)
	a.orders[w.CallBackID] = a.n
	return w
}

// about names cb in effects.
func about(cb countersign.Callback) string { return cmp.Or(cb.OrderID(), cb.EventID()) }

// request is a request of cb as the service sends it at at, and what it asks.
func (a *linkAttack) request(cb countersign.Callback, at time.Time) (attacked, countersign.Callback) {
	plain, sent, err := a.s.Plaintext(cb)
	if err != nil {
		a.t.Fatal(err)
	}
	m := attacked{path: lib.DefaultNotifyPath, host: attackHost, header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, plain: plain, body: a.seal(plain)}
	if cb.CallbackType().Lane() == countersign.LaneWithdraw {
		m.path = lib.DefaultWithdrawPath
	}
	a.signRequest(&m, a.service, at)
	return m, sent
}

func (a *linkAttack) seal(plain []byte) []byte {
	body, err := a.s.Seal(plain)
	if err != nil {
		a.t.Fatal(err)
	}
	return body
}

func (a *linkAttack) signRequest(m *attacked, by *envelope.SigningKey, at time.Time) {
	if err := by.SignRequest(envelope.LinkRequest{Method: http.MethodPost, URL: "https://" + m.host + m.path, Header: m.header, Body: m.body}, m.plain, at); err != nil {
		a.t.Fatal(err)
	}
}

func (a *linkAttack) signResponse(m *attacked, by *envelope.SigningKey, asked http.Header, at time.Time) {
	if err := by.SignResponse(envelope.LinkResponse{Status: m.status, Header: m.header, Body: m.body, Request: asked}, m.plain, at); err != nil {
		a.t.Fatal(err)
	}
}

// post returns the merchant's response.
func (a *linkAttack) post(m attacked) attacked {
	r := httptest.NewRequest(http.MethodPost, m.path, bytes.NewReader(m.body))
	r.Host = m.host
	for name, values := range m.header {
		r.Header[name] = values
	}
	r.Header.Set("X-API-KEY", a.s.CallbackAPIKey().Reveal())
	w := httptest.NewRecorder()
	a.h.ServeHTTP(w, r)
	out := attacked{status: w.Code, header: w.Result().Header, body: w.Body.Bytes()}
	if resp, err := countersign.ParseResponse(out.body); err == nil && resp.Data != "" {
		out.plain, _ = envelope.Open(a.pair, envelope.PKCS1v15, []byte(resp.Data))
	}
	return out
}

// answer is a response with any content, as somebody makes it who has the public part and the API key.
func (a *linkAttack) answer(plain []byte) attacked {
	data, err := envelope.Seal(a.pair.Public(), envelope.PKCS1v15, plain)
	if err != nil {
		a.t.Fatal(err)
	}
	body, err := countersign.Response{APIKey: a.s.APIKey(), Data: string(data)}.Marshal()
	if err != nil {
		a.t.Fatal(err)
	}
	return attacked{status: 200, header: http.Header{"Content-Type": {"application/json"}}, body: body, plain: plain}
}

// judge is what the service makes of m as the response to sent, which was asked with these headers.
func (a *linkAttack) judge(sent countersign.Callback, asked http.Header, m attacked) Verdict {
	q := Question{APIKey: a.s.APIKey(), Sent: sent, Deadline: db.MillisOf(a.now.Add(time.Hour)), AnswerKeys: []*envelope.SigningKey{a.merchant.Public()}, Asked: asked}
	return Judge(q, Response{Status: m.status, Header: m.header, Body: m.body, Done: db.MillisOf(a.now)}, func(data string) ([]byte, []int, error) {
		return envelope.Worker{}.OpenBlocks(a.pair, envelope.PKCS1v15, []byte(data))
	})
}

// signatureHeaders are those that sign.
var signatureHeaders = []string{envelope.HeaderDigest, envelope.HeaderSignatureInput, envelope.HeaderSignature}

// flip changes one byte of text to another that a header can have.
func (a *linkAttack) flip(text string) string {
	b := []byte(text)
	i := a.random.IntN(len(b))
	for was := b[i]; b[i] == was || b[i] == ' '; {
		b[i] = byte('!' + a.random.IntN('~'-'!'))
	}
	return string(b)
}

// an alteration changes m, an honest message of which another honest message is at hand. by is who it
// claims to be from, resign signs it as somebody else.
type alteration struct {
	name   string
	change func(a *linkAttack, m *attacked, other attacked, by *envelope.SigningKey, resign func(m *attacked, by *envelope.SigningKey, at time.Time))
}

// claim has a signature by the stranger say that it is by somebody else.
func claim(m *attacked, by, stranger *envelope.SigningKey) {
	m.header.Set(envelope.HeaderSignatureInput, strings.Replace(m.header.Get(envelope.HeaderSignatureInput), stranger.Fingerprint(), by.Fingerprint(), 1))
}

func inInput(old, with string) func(*linkAttack, *attacked, attacked, *envelope.SigningKey, func(*attacked, *envelope.SigningKey, time.Time)) {
	return func(_ *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		m.header.Set(envelope.HeaderSignatureInput, strings.Replace(m.header.Get(envelope.HeaderSignatureInput), old, with, 1))
	}
}

// alterations are those of both messages.
var alterations = []alteration{
	{"stripped", func(_ *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		for _, name := range signatureHeaders {
			m.header.Del(name)
		}
	}},
	{"a header stripped", func(a *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		m.header.Del(signatureHeaders[a.random.IntN(3)])
	}},
	{"another label", func(_ *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		for _, name := range signatureHeaders[1:] {
			m.header.Set(name, strings.Replace(m.header.Get(name), "countersign=", "proxy=", 1))
		}
	}},
	{"another content", func(_ *linkAttack, m *attacked, other attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		m.body, m.plain = other.body, other.plain
	}},
	{"another content and its digest", func(_ *linkAttack, m *attacked, other attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		m.body, m.plain = other.body, other.plain
		m.header[envelope.HeaderDigest] = other.header[envelope.HeaderDigest]
	}},
	{"the headers of another", func(_ *linkAttack, m *attacked, other attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		m.header = other.header
	}},
	{"a header of another", func(a *linkAttack, m *attacked, other attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		name := signatureHeaders[a.random.IntN(3)]
		m.header[name] = other.header[name]
	}},
	{"signed by a stranger", func(a *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, resign func(*attacked, *envelope.SigningKey, time.Time)) {
		resign(m, a.stranger, a.now)
	}},
	{"signed by a stranger under the right name", func(a *linkAttack, m *attacked, _ attacked, by *envelope.SigningKey, resign func(*attacked, *envelope.SigningKey, time.Time)) {
		resign(m, a.stranger, a.now)
		claim(m, by, a.stranger)
	}},
	{"held back", func(a *linkAttack, m *attacked, _ attacked, by *envelope.SigningKey, resign func(*attacked, *envelope.SigningKey, time.Time)) {
		resign(m, by, a.now.Add(-6*time.Minute-time.Duration(a.random.IntN(100))*time.Minute))
	}},
	{"from the future", func(a *linkAttack, m *attacked, _ attacked, by *envelope.SigningKey, resign func(*attacked, *envelope.SigningKey, time.Time)) {
		resign(m, by, a.now.Add(6*time.Minute))
	}},
	{"held back and dated anew", func(a *linkAttack, m *attacked, _ attacked, by *envelope.SigningKey, resign func(*attacked, *envelope.SigningKey, time.Time)) {
		at := a.now.Add(-time.Hour)
		resign(m, by, at)
		m.header.Set(envelope.HeaderSignatureInput, strings.Replace(m.header.Get(envelope.HeaderSignatureInput), strconv.FormatInt(at.Unix(), 10), strconv.FormatInt(a.now.Unix(), 10), 1))
	}},
	{"a byte of the body", func(a *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		m.body = []byte(a.flip(string(m.body)))
	}},
	{"a byte of a header", func(a *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		name := append(signatureHeaders[:3:3], "Content-Type")[a.random.IntN(4)]
		m.header.Set(name, a.flip(m.header.Get(name)))
	}},
	{"another algorithm", inInput(`alg="ed25519"`, `alg="hmac-sha256"`)},
	{"no algorithm", inInput(`;alg="ed25519"`, ``)},
	{"no time", func(_ *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		before, after, _ := strings.Cut(m.header.Get(envelope.HeaderSignatureInput), ";created=")
		m.header.Set(envelope.HeaderSignatureInput, before+after[strings.Index(after, ";"):])
	}},
	{"another nonce", inInput(`nonce="`, `nonce="x`)},
	{"a parameter more", inInput(`;created=`, `;expires=9999999999;created=`)},
	{"the body not covered", inInput(` "content-digest"`, ``)},
	{"covered in another order", inInput(`"content-digest" "content-type"`, `"content-type" "content-digest"`)},
	{"for the other direction", func(a *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		in := m.header.Get(envelope.HeaderSignatureInput)
		with := strings.NewReplacer("countersign-request", "countersign-response", "countersign-response", "countersign-request").Replace(in)
		m.header.Set(envelope.HeaderSignatureInput, with)
	}},
}

var requestAlterations = append(alterations[:len(alterations):len(alterations)], []alteration{
	{"another path", func(_ *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		m.path += "?again"
	}},
	{"another host", func(a *linkAttack, m *attacked, _ attacked, by *envelope.SigningKey, resign func(*attacked, *envelope.SigningKey, time.Time)) {
		m.host = "other.example" // what the service sent to another merchant
		resign(m, by, a.now)
	}},
	{"replayed", func(_ *linkAttack, m *attacked, other attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		*m = other // it may be answered as before, and has no effect
	}},
}...)

var responseAlterations = append(alterations[:len(alterations):len(alterations)], []alteration{
	{"replayed", func(_ *linkAttack, m *attacked, other attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		*m = other
	}},
	{"another answer, unsigned", func(a *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		*m = a.answer(m.plain)
	}},
	{"another answer under the signature", func(a *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		m.body = a.answer(bytes.Replace(m.plain, []byte(`"amount":"`), []byte(`"amount":"9`), 1)).body
	}},
	{"a refusal", func(a *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		m.body, m.plain = []byte(fmt.Sprintf(`{"apiKey":%q,"data":"","errCode":2001,"message":"no"}`, a.s.APIKey().Reveal())), nil
	}},
	{"a hold, unsigned", func(a *linkAttack, m *attacked, _ attacked, _ *envelope.SigningKey, _ func(*attacked, *envelope.SigningKey, time.Time)) {
		m.body, m.plain = []byte(fmt.Sprintf(`{"apiKey":%q,"data":"","errCode":3001,"message":"wait"}`, a.s.APIKey().Reveal())), nil
		m.header = http.Header{"Content-Type": m.header["Content-Type"]}
	}},
}...)

// TestLinkAttack: 1,000 exchanges that are altered, mixed, replayed, stripped and downgraded by
// somebody who has every secret of both ends but their Ed25519 keys. Neither end takes one of them, and
// an independent client in Node takes none either. The honest ones between them are taken.
func TestLinkAttack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	a := newLinkAttack(t, seed)
	otherRequest, otherSent := a.request(a.callback(), a.now)
	otherResponse := a.post(otherRequest)
	if v := a.judge(otherSent, otherRequest.header, otherResponse); v.Result != client.AttemptAccepted {
		t.Fatalf("an honest exchange is %+v", v)
	}
	node := newNodeLink(t)
	const exchanges = 1000
	for i := range exchanges {
		cb := a.callback()
		request, sent := a.request(cb, a.now)
		id := about(cb)
		if i%2 == 0 {
			alter := requestAlterations[i/2%len(requestAlterations)]
			m := request.clone()
			alter.change(a, &m, otherRequest.clone(), a.service, func(m *attacked, by *envelope.SigningKey, at time.Time) { a.signRequest(m, by, at) })
			resp, err := countersign.ParseResponse(a.post(m).body)
			replayed := bytes.Equal(m.body, otherRequest.body) && maps.EqualFunc(m.header, otherRequest.header, slices.Equal[[]string])
			if a.effects[id] != 0 || a.effects[about(otherSent)] != 1 || (err != nil || resp.ErrCode == 0) && !replayed {
				t.Errorf("%d, request, %s: errCode %d, %v, %d effects\n%v", i, alter.name, resp.ErrCode, err, a.effects[id], m.header)
			}
			if !replayed {
				node.ask(t, fmt.Sprintf("%d, request, %s", i, alter.name), a, m, nil, a.service, false)
			}
		}
		// The attacker cannot stop the honest one either, which comes after it.
		response := a.post(request)
		if v := a.judge(sent, request.header, response); v.Result != client.AttemptAccepted || a.effects[id] != 1 {
			t.Fatalf("%d: the honest exchange is %+v, %d effects: %s", i, v, a.effects[id], response.body)
		}
		if i%50 == 0 {
			node.ask(t, fmt.Sprintf("%d, honest", i), a, request, nil, a.service, true)
			node.ask(t, fmt.Sprintf("%d, honest", i), a, response, &request, a.merchant, true)
		}
		if i%2 == 1 {
			alter := responseAlterations[i/2%len(responseAlterations)]
			m := response.clone()
			alter.change(a, &m, otherResponse.clone(), a.merchant, func(m *attacked, by *envelope.SigningKey, at time.Time) { a.signResponse(m, by, request.header, at) })
			v := a.judge(sent, request.header, m)
			if v.Decision != countersign.DecisionNone || v.Result != client.AttemptRetry || v.SignedBy != "" || v.ErrCode != nil || v.Alarm != client.AlarmAnswerDiffers {
				t.Errorf("%d, response, %s: %+v\n%v", i, alter.name, v, m.header)
			}
			node.ask(t, fmt.Sprintf("%d, response, %s", i, alter.name), a, m, &request, a.merchant, false)
		}
		if a.random.IntN(4) == 0 {
			otherRequest, otherSent, otherResponse = request, sent, response
		}
	}
	node.check(t)
}

// nodeLink has an independent client judge the same messages.
type nodeLink struct {
	node  string // empty: Node or the module is not installed
	lines []string
	names []string
	wants []bool
}

// newNodeLink needs npm http-message-signatures, which .ci/run installs.
func newNodeLink(t *testing.T) *nodeLink {
	node, err := exec.LookPath("node")
	if err == nil && os.Getenv("NODE_PATH") == "" {
		cache, _ := os.UserCacheDir()
		t.Setenv("NODE_PATH", filepath.Join(cache, "countersign-node", "node_modules"))
	}
	if err == nil {
		err = exec.Command(node, "-e", `require("http-message-signatures")`).Run()
	}
	switch {
	case err == nil:
		return &nodeLink{node: node}
	case os.Getenv("CI") == "true":
		t.Fatal("Node or http-message-signatures of npm is not installed, and CI must have them")
	}
	t.Log("Node or http-message-signatures of npm is not installed: nothing was compared with it")
	return new(nodeLink)
}

// ask keeps the question whether the client takes m.
func (n *nodeLink) ask(t *testing.T, name string, a *linkAttack, m attacked, request *attacked, key *envelope.SigningKey, want bool) {
	type message struct {
		Method  string            `json:"method,omitempty"`
		URL     string            `json:"url,omitempty"`
		Status  int               `json:"status,omitempty"`
		Headers map[string]string `json:"headers"`
	}
	of := func(m attacked) message {
		if m.status != 0 {
			return message{Status: m.status, Headers: flat(m.header)}
		}
		return message{Method: http.MethodPost, URL: "https://" + attackHost + m.path, Headers: flat(m.header)}
	}
	q := map[string]any{"seq": len(n.lines), "op": "take", "message": of(m), "key": "-----BEGIN PUBLIC KEY-----\n" + key.PublicBase64() + "\n-----END PUBLIC KEY-----\n",
		"body64": base64.StdEncoding.EncodeToString(m.body), "plaintext64": base64.StdEncoding.EncodeToString(m.plain), "now": a.now.Unix()}
	if request != nil {
		q["request"] = of(*request)
	}
	line, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	n.lines, n.names, n.wants = append(n.lines, string(line)), append(n.names, name), append(n.wants, want)
}

func (n *nodeLink) check(t *testing.T) {
	if n.node == "" {
		return
	}
	cmd := exec.Command(n.node, filepath.Join("..", "..", "envelope", "testdata", "interop", "link.js"))
	cmd.Stdin = strings.NewReader(strings.Join(n.lines, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]string{}
	for line := range strings.Lines(string(out)) {
		seq, says, _ := strings.Cut(strings.TrimSpace(line), " ")
		i, err := strconv.Atoi(seq)
		if err != nil {
			t.Fatalf("node says %s", line)
		}
		got[i] = says
	}
	for i, want := range n.wants {
		if got[i] != strconv.FormatBool(want) {
			t.Errorf("node says of %s: %q, not %v\n%s", n.names[i], got[i], want, n.lines[i])
		}
	}
	t.Logf("node judged %d messages", len(n.wants))
}
