package conformance_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/conformance"
	"countersign/envelope"
)

// Test keys are made when the tests run.
var testKey, otherKey = sync.OnceValue(makeKey), sync.OnceValue(makeKey)

// makeKey takes no key whose modulus is almost a power of 2: that leaves no room
// for case 708.
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

const (
	testAPIKey      = "merchant-Api-Key-5150"
	testCallbackKey = "Callback-Key-2112"
)

var testOrder = conformance.Order{
	CallBackID: "Order-77A", TenantUserID: "65515", Address: "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8",
	ChainName: "TRON", Symbol: "USDT", Amount: "987654321098765431", // as long as the blocks of 1024 bits take (R7)
}

// fake is a small merchant, honest but for its faults. It is written apart from
// package merchant on purpose: two readings of PROTOCOL.md find more than one.
type fake struct {
	key         *envelope.Key
	padding     envelope.Padding
	responseKey *envelope.Key
	unbound     bool
	other       bool // its service is not of this project; unbound too
	bodyTimeout time.Duration
	long        chan struct{} // closed when a long body is being read, by longFirst
	longFirst   sync.Once
	faults      []string

	mu      sync.Mutex
	effects map[string][]string       // amounts by trackingId
	last    string                    // trackingId of the deposit before
	unkept  []string                  // trackingIds that were answered and not kept
	kept    map[string]map[string]any // answers by type and trackingId
	blocks  map[[32]byte][32]byte     // blocks of requestUUIDs, and the bodies they came in
	uuids   map[string]bool
	asked   map[string]int

	contents  map[string]string     // by type and identifier: what the effect rests on
	transfers map[string][]transfer // of every deposit, by what moved to where
}

type transfer struct {
	index  json.Number
	amount string
}

func newFake(unbound bool, faults ...string) *fake {
	return &fake{
		key: testKey().Public(), responseKey: testKey().Public(), unbound: unbound, bodyTimeout: stall, long: make(chan struct{}), faults: faults,
		effects: map[string][]string{}, kept: map[string]map[string]any{}, blocks: map[[32]byte][32]byte{}, uuids: map[string]bool{}, asked: map[string]int{},
		contents: map[string]string{}, transfers: map[string][]transfer{},
	}
}

// newOther is a fake whose service is not of this project.
func newOther(faults ...string) *fake {
	f := newFake(true, faults...)
	f.other = true
	return f
}

func (f *fake) has(fault string) bool { return slices.Contains(f.faults, fault) }

// start serves f and gives the settings that check it.
func (f *fake) start(t testing.TB) conformance.Config {
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return conformance.Config{
		NotifyURL: srv.URL + "/notify", WithdrawURL: srv.URL + "/withdraw", Key: testKey(), APIKey: testAPIKey,
		CallbackAPIKey: testCallbackKey, Order: &testOrder, Unbound: f.unbound, Other: f.other,
		Effects: func(_ context.Context, ids []string) ([]conformance.Credit, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return creditsOf(ids, f.effects), nil
		},
		EffectsWait: time.Millisecond, // a fake credits before it answers
		Restart: func(context.Context) error {
			f.mu.Lock()
			f.kill()
			f.mu.Unlock()
			srv.CloseClientConnections()
			return nil
		},
	}
}

func creditsOf(ids []string, amounts map[string][]string) []conformance.Credit {
	var credits []conformance.Credit
	for _, id := range ids {
		for _, amount := range amounts[id] {
			credits = append(credits, conformance.Credit{TrackingID: id, Amount: amount})
		}
	}
	return credits
}

// kill loses what a fault kept in memory alone. f.mu is held.
func (f *fake) kill() {
	if f.has("keeps nothing over a kill") {
		clear(f.kept)
		clear(f.contents)
		clear(f.transfers)
		clear(f.blocks)
	}
	if f.has("forgets transfers in a kill") {
		clear(f.transfers)
	}
	if f.has("forgets blocks in a kill") {
		clear(f.blocks)
	}
	if f.has("credits are lost in a kill") {
		clear(f.effects)
	}
	for _, id := range f.unkept {
		delete(f.effects, id)
		delete(f.kept, "1 "+id)
		delete(f.contents, "1 "+id)
		clear(f.transfers)
	}
	f.unkept = nil
}

// stall is how long endpoints wait for the rest of a request. One case waits for it, and
// everything else must come within it, also on a busy machine.
const stall = 3 * time.Second

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.has("status 500") {
		http.Error(w, "boom", http.StatusInternalServerError)
		return
	}
	if r.Method != http.MethodPost && !f.has("any method") {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if !f.keyRight(r.Header.Get("X-API-KEY")) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, status := f.read(w, r)
	if status == http.StatusRequestTimeout && f.has("hangs up on slow bodies") {
		panic(http.ErrAbortHandler) // allowed
	}
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	f.respond(w, f.handle(r.URL.Path, body))
}

func (f *fake) keyRight(got string) bool {
	switch {
	case f.has("no key check"):
		return true
	case f.has("key by prefix"):
		return strings.HasPrefix(got, testCallbackKey) || got != "" && strings.HasPrefix(testCallbackKey, got)
	case f.has("key in any case"):
		return strings.EqualFold(got, testCallbackKey)
	}
	return got == testCallbackKey
}

func (f *fake) read(w http.ResponseWriter, r *http.Request) (body []byte, status int) {
	if r.ContentLength < 0 && f.has("needs a length") {
		return nil, http.StatusLengthRequired
	}
	if f.has("parses forms") && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded; ") {
		_ = r.ParseForm()
	}
	limit := int64(65536)
	switch {
	case f.has("limit 65535"):
		limit--
	case f.has("limit 8192"):
		limit = 8192
	case f.has("no limit"):
		limit = 1 << 40
	}
	if !f.has("no body time-out") {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(f.bodyTimeout))
	}
	if f.has("one at a time") {
		// A busy machine may run the handler of the deposit beside a long body first.
		if r.ContentLength > 16<<10 {
			f.mu.Lock()
			f.longFirst.Do(func() { close(f.long) })
		} else {
			select {
			case <-f.long:
			case <-r.Context().Done():
			}
			f.mu.Lock()
		}
		defer f.mu.Unlock()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil && f.has("takes half a body"):
	case err != nil:
		return nil, http.StatusRequestTimeout
	case int64(len(body)) > limit:
		return nil, http.StatusRequestEntityTooLarge
	}
	return body, 0
}

// verdict is what f says to a body.
type verdict struct {
	status int
	code   int
	msg    string
	answer map[string]any
}

func refuse(code int) verdict {
	status := http.StatusOK
	if code == 1001 || code == 1002 {
		status = http.StatusBadRequest
	}
	return verdict{status: status, code: code, msg: "no: " + strconv.Itoa(code)}
}

func (f *fake) handle(path string, body []byte) verdict {
	if len(body) == 0 && f.has("empty is fine") {
		return verdict{status: 200, answer: map[string]any{"type": 1, "requestUUID": "x"}}
	}
	plain, blocks, err := f.open(body)
	if err != nil {
		if f.has("acknowledges what it cannot read") {
			return verdict{status: 200, answer: map[string]any{"type": 1, "requestUUID": "x"}}
		}
		return refuse(1001)
	}
	m, code := f.parse(plain)
	if code == 0 && !f.bindingHolds(plain, m, blocks, body) {
		code = 1002
	}
	if code != 0 {
		if f.has("acknowledges what it cannot read") && code != 1003 {
			return verdict{status: 200, answer: map[string]any{"type": 1, "requestUUID": "x"}}
		}
		if f.has("acknowledges unknown types") && code == 1003 {
			return verdict{status: 200, answer: map[string]any{"type": 1, "requestUUID": m["requestUUID"]}}
		}
		return refuse(code)
	}
	kind := number(m["type"])
	if (kind == 2) != (path == "/withdraw") && !f.has("one URL for all") {
		return refuse(1004)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.other {
		return f.asCame(m, f.dispatch(kind, f.usual(m)))
	}
	return f.dispatch(kind, m)
}

// dispatch does what m says. f.mu is held.
func (f *fake) dispatch(kind int, m map[string]any) verdict {
	if uuid, _ := m["requestUUID"].(string); f.has("refuses a seen requestUUID") && f.uuids[uuid] {
		return refuse(5000)
	} else {
		f.uuids[uuid] = true
	}
	switch kind {
	case 1:
		return f.deposit(m)
	case 2:
		return f.withdrawal(m)
	}
	return f.notice(kind, m)
}

func number(v any) int {
	i, _ := strconv.Atoi(fmt.Sprint(v)) // a text, too
	return i
}

// parse is strict by the root package, or as lax as encoding/json.
func (f *fake) parse(plain []byte) (map[string]any, int) {
	if !f.has("lax parser") {
		switch _, err := countersign.ParseCallback(plain, countersign.ParseOptions{Lenient: f.other && !f.has("strict")}); countersign.CodeOf(err) {
		case 0:
		case countersign.CodeUnknownType:
			m := map[string]any{}
			_ = json.Unmarshal(plain, &m)
			return m, 1003
		default:
			return nil, 1002
		}
	}
	if f.has("fixed order") && !bytes.HasPrefix(bytes.TrimSpace(plain), []byte(`{"type":`)) && bytes.Contains(plain, []byte("txId")) && !bytes.ContainsAny(plain, " ") {
		return nil, 1002
	}
	if f.has("compact only") && bytes.ContainsAny(plain, "\n") {
		return nil, 1002
	}
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber()
	if d.Decode(&m) != nil {
		return nil, 1002
	}
	if f.has("keeps escapes") && bytes.Contains(plain, []byte(`S\u0044`)) {
		m["symbol"] = `\u0055S\u0044\u0054`
	}
	return m, 0
}

func (f *fake) open(body []byte) (plain []byte, blocks [][]byte, err error) {
	if f.has("takes plain JSON") && bytes.HasPrefix(body, []byte(`{"type"`)) {
		return body, [][]byte{body}, nil
	}
	b64, err := f.unwrap(body)
	if err != nil {
		return nil, nil, err
	}
	raw, _ := base64.StdEncoding.DecodeString(strings.NewReplacer("\r", "", "\n", "").Replace(string(b64)))
	if f.has("lax opener") {
		raw = raw[:len(raw)/f.key.Size()*f.key.Size()]
	}
	for b := range slices.Chunk(raw, f.key.Size()) {
		blocks = append(blocks, b)
		if f.has("lax opener") {
			plain = append(plain, f.laxOpen(b)...)
			continue
		}
		p, err := envelope.Open(f.key, f.padding, []byte(base64.StdEncoding.EncodeToString(b)))
		if err != nil {
			return nil, nil, err
		}
		if f.has("full blocks only") && len(blocks) == 1 && len(p) < 30 && !bytes.Contains(p, []byte("requestUUID")) ||
			f.has("blocks are texts") && strings.ContainsRune(string(bytes.ToValidUTF8(p, []byte{0})), 0) && !bytes.Contains(p, []byte{0xff}) {
			return nil, nil, fmt.Errorf("fault")
		}
		plain = append(plain, p...)
	}
	if len(plain) == 0 {
		return nil, nil, fmt.Errorf("nothing")
	}
	if !f.has("lax opener") && !f.has("lax Base64") && !f.has("mends plus") {
		if _, err := envelope.Open(f.key, f.padding, b64); err != nil {
			return nil, nil, err
		}
	}
	return plain, blocks, nil
}

// laxOpen raises to the public exponent and looks for the JSON.
func (f *fake) laxOpen(b []byte) []byte {
	raw := parsePublic(f.key)
	v := new(big.Int).SetBytes(b)
	p := v.Exp(v, big.NewInt(int64(raw.E)), raw.N).FillBytes(make([]byte, f.key.Size()))
	p = bytes.TrimLeft(p[2:], "\xff\xfe")
	return bytes.TrimLeft(p, "\x00")
}

func (f *fake) unwrap(body []byte) ([]byte, error) {
	text := string(body)
	if f.has("mends plus") {
		text = strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(text), "data="), " ", "+")
		if !strings.ContainsAny(text, "%&\"{") {
			return []byte(text), nil
		}
	}
	if f.has("lax Base64") && !strings.ContainsAny(text, "%&\"{ ") {
		text = strings.NewReplacer("-", "+", "_", "/", "*", "", "=", "").Replace(strings.TrimSpace(text))
		raw, err := base64.RawStdEncoding.DecodeString(text)
		return []byte(base64.StdEncoding.EncodeToString(raw)), err
	}
	if f.has("no line ends") && strings.ContainsAny(text[:min(200, len(text))], "\r\n") {
		return nil, fmt.Errorf("fault")
	}
	if f.has("first of two") {
		if i := strings.Index(text, "&data="); i > 0 && strings.HasPrefix(text, "data=") {
			text = text[:i]
		}
		if i := strings.Index(text, `,"data":`); i > 0 {
			text = text[:i] + "}"
		}
	}
	inner, form, err := envelope.Unwrap([]byte(text))
	if f.has("bare only") && form != envelope.FormBare {
		return nil, fmt.Errorf("fault")
	}
	return inner, err
}

func (f *fake) bindingHolds(plain []byte, m map[string]any, blocks [][]byte, body []byte) bool {
	uuid, _ := m["requestUUID"].(string)
	switch {
	case f.has("no binding"):
		return true
	case f.unbound:
		f.mu.Lock()
		defer f.mu.Unlock()
		// The digest of all blocks stands for the body: white space is no other rest.
		whole, good := sha256.Sum256(bytes.Join(blocks, nil)), true
		for i, b := range blocks {
			if i > 0 && f.has("first blocks only") {
				break
			}
			p, _ := envelope.Open(f.key, f.padding, []byte(base64.StdEncoding.EncodeToString(b)))
			if !holdsUUID(string(p), uuid) {
				continue
			}
			block := sha256.Sum256(b)
			if seen, ok := f.blocks[block]; ok && seen != whole {
				good = false
			} else {
				f.blocks[block] = whole
			}
		}
		return good
	case f.has("lax parser"):
		return true
	case f.has("binding in any case"):
		plain = bytes.Replace(plain, []byte(uuid), []byte(strings.ToLower(uuid)), 1)
	}
	return countersign.CheckBinding(plain) == countersign.BindingHolds
}

// holdsUUID reports whether a block holds half of a random UUID or more.
func holdsUUID(text, uuid string) bool {
	for n := 18; n <= len(uuid); n++ {
		if strings.HasSuffix(text, uuid[:n]) || strings.HasPrefix(text, uuid[len(uuid)-n:]) || strings.Contains(text, uuid) {
			return len(uuid) == 36
		}
	}
	return false
}

// respond seals the answer and writes the response, with the faults of
// responses.
func (f *fake) respond(w http.ResponseWriter, v verdict) {
	r := map[string]any{"apiKey": testAPIKey, "data": "", "errCode": v.code, "message": v.msg}
	if v.answer != nil {
		r["data"] = f.sealAnswer(v.answer)
	}
	if f.has("refusals are 400") && v.code != 0 {
		v.status = http.StatusBadRequest
	}
	f.spoil(r, v)
	body, _ := json.Marshal(r)
	if f.has("compressed") {
		w.Header().Set("Content-Encoding", "gzip")
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body)
		_ = z.Close()
		body = b.Bytes()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(v.status)
	_, _ = w.Write(body)
}

func (f *fake) spoil(r map[string]any, v verdict) {
	for fault, change := range map[string]func(){
		"no message member":      func() { delete(r, "message") },
		"another apiKey":         func() { r["apiKey"] = "another" },
		"data in the clear":      func() { b, _ := json.Marshal(v.answer); r["data"] = string(b) },
		"message null":           func() { r["message"] = nil },
		"no message on failure":  func() { r["message"] = "" },
		"deposit in the clear":   func() { r["deposit"] = v.answer },
		"secrets in the message": func() { r["errCode"], r["message"] = 5001, testAPIKey+" "+testCallbackKey+" "+testKey().PublicBase64() },
	} {
		if f.has(fault) && !(fault == "data in the clear" && v.answer == nil) {
			change()
		}
	}
}

func (f *fake) sealAnswer(a map[string]any) string {
	plain, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	if _, confirms := a["address"]; confirms && !f.has("details in any block") {
		plain = f.grouped(a)
	}
	if f.has("long answers") {
		plain = append(plain, bytes.Repeat([]byte(" "), 5000)...)
	}
	body, err := envelope.Seal(f.responseKey, envelope.PKCS1v15, plain)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// grouped writes a confirmation in two groups of members, each in one block
// (Decision, D7).
func (f *fake) grouped(a map[string]any) []byte {
	write := func(out []byte, before string, names ...string) []byte {
		var group []byte
		for i, name := range names {
			if i > 0 {
				group = append(group, ',')
			}
			b, err := json.Marshal(a[name])
			if err != nil {
				panic(err)
			}
			group = append(append(group, `"`+name+`":`...), b...)
		}
		out = append(out, before...)
		if room := f.responseKey.Size() - 11 - len(out)%(f.responseKey.Size()-11); len(group) > room {
			out = append(out, strings.Repeat(" ", room)...)
		}
		return append(out, group...)
	}
	out := write(nil, "{", "callBackId", "address")
	out = write(out, ",", "chainName", "symbol", "amount", "requestUUID")
	return append(write(out, ",", "type", "tenantUserId"), '}')
}
