package conformance_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/conformance"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

var listenerPair = sync.OnceValue(func() *envelope.Key {
	k, err := envelope.GenerateKey(1024)
	if err != nil {
		panic(err)
	}
	return k
})

const (
	apiKey      = "the-api-key-of-answers"
	callbackKey = "the-callback-api-key"
)

// buffer may be read while a handler writes.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// world starts a listener, and a caller of it that knows the details of withdrawals.
func world(t *testing.T, c conformance.ListenerConfig, timeout time.Duration) (*conformance.Caller, *buffer, string) {
	t.Helper()
	out := &buffer{}
	c.Out = out
	c.Merchant.Key, c.Merchant.APIKey, c.Merchant.CallbackAPIKey = listenerPair().Public(), apiKey, callbackKey
	service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	c.Merchant.Sign, c.Merchant.ServiceSigner = own, service.Public()
	h, err := conformance.NewListener(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		h.Close()
		server.CloseClientConnections()
		server.Close()
	})
	caller, err := conformance.NewCaller(conformance.Config{
		NotifyURL: server.URL + merchant.DefaultNotifyPath, WithdrawURL: server.URL + merchant.DefaultWithdrawPath, Timeout: timeout,
		Key: listenerPair(), APIKey: apiKey, CallbackAPIKey: callbackKey, Ordered: true, User: "65515",
		Sign: service, AnswerKey: own.Public(),
	}, envelope.FormBare, "")
	if err != nil {
		t.Fatal(err)
	}
	return caller, out, server.URL
}

func deliver(t *testing.T, c *conformance.Caller, typ countersign.Type, set ...countersign.Member) conformance.Sent {
	t.Helper()
	m, err := c.Message(typ, nil, set)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := c.Send(context.Background(), typ, m, countersigntest.NoServiceFault)
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

var anyOrder = conformance.Order{Address: "0x01", ChainName: "ETH", Symbol: "USDT", Amount: "2.5"}

// TestFaults: every fault that the flags name is what the provider gets, and is shown.
func TestFaults(t *testing.T) {
	for _, f := range countersigntest.MerchantFaults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if f == countersigntest.FaultHang || f == countersigntest.FaultTrickle {
				timeout = 200 * time.Millisecond // they fail however long it is
			}
			answer, err := conformance.ParseAnswer(string(f))
			if err != nil || answer.Fault != f {
				t.Fatalf("%+v, %v", answer, err)
			}
			if f.About() == "" {
				t.Error("it does not say what it does")
			}
			c, out, _ := world(t, conformance.ListenerConfig{Answer: answer, Orders: []conformance.Order{anyOrder}, Late: time.Millisecond}, timeout)
			sent := deliver(t, c, countersign.TypeRequestWithdraw)
			late := f == countersigntest.FaultAnswersLate // this caller waits for it
			differs := f == countersigntest.FaultDetailsDiffer
			if sent.Accepted() != (f.Tolerated() || late || differs) {
				t.Errorf("%s", sent)
			}
			if differs && sent.Confirmed.Amount != "12.5" {
				t.Errorf("confirmed %+v", sent.Confirmed)
			}
			for _, text := range []string{`callback 1: POST "/callbacks/withdraw"`, "block 0", "binding    holds"} {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is not shown:\n%s", text, out)
				}
			}
		})
	}
}

// TestAnswers: what a person types.
func TestAnswers(t *testing.T) {
	for text, want := range map[string]conformance.Answer{
		"": {}, "y": {}, " y\n": {}, "n": {Code: 2004}, "2001": {Code: 2001}, "decline 3002": {Code: 3002}, "500": {Fault: countersigntest.FaultStatus500},
		"wrong-amount": {Fault: countersigntest.FaultDetailsDiffer}, "-7": {Code: -7},
	} {
		if got, err := conformance.ParseAnswer(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"maybe", "0", "1.5", "splice"} {
		if got, err := conformance.ParseAnswer(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// TestOrders: the details are those of the order, and of its user alone.
func TestOrders(t *testing.T) {
	o := anyOrder
	o.CallBackID, o.TenantUserID = "order-1", "65515"
	c, _, _ := world(t, conformance.ListenerConfig{Orders: []conformance.Order{o}}, 0)
	if sent := deliver(t, c, 2, countersign.Member{Name: "callBackId", Value: `"order-1"`}); !sent.Accepted() || *sent.Confirmed != o {
		t.Errorf("%s", sent)
	}
	for _, m := range []countersign.Member{{Name: "callBackId", Value: `"order-2"`}, {Name: "tenantUserId", Value: `"7"`}} {
		if sent := deliver(t, c, 2, m); sent.Accepted() || !strings.Contains(sent.Problem, "2001") {
			t.Errorf("%s", sent)
		}
	}
	if _, err := conformance.NewListener(conformance.ListenerConfig{Orders: []conformance.Order{{CallBackID: "x", Amount: "0"}}}); err == nil {
		t.Error("an order without details")
	}
}

// TestKept: bodies are kept as they came, beside those of a run before, readable by nobody else; no secret and no
// control character is shown.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "00001.b64"), []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, out, url := world(t, conformance.ListenerConfig{Keep: dir}, 0)
	if sent := deliver(t, c, 1); !sent.Accepted() {
		t.Errorf("%s", sent)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "00001.b64")); err != nil || string(b) != "before" {
		t.Errorf("%q, %v", b, err)
	}
	info, err := os.Stat(filepath.Join(dir, "00002.b64"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	body, err := os.ReadFile(filepath.Join(dir, "00002.b64"))
	if err != nil {
		t.Fatal(err)
	}
	if sent, err := c.Replay(context.Background(), body); err != nil || !sent.Accepted() {
		t.Errorf("%v\n%s", err, sent)
	}
	for _, hostile := range []string{"", "\x1b[31mred", strings.Repeat("A", envelope.MaxBody+1), `{"data":"\u001b"}`} {
		resp, err := http.Post(url+"/callbacks/%1b%5bnotify", "text/plain", strings.NewReader(hostile))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("it was taken")
		}
	}
	for _, secret := range []string{apiKey, callbackKey, listenerPair().PublicBase64(), "\x1b"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is shown:\n%s", secret, out)
		}
	}
}

// TestAsked: one person answers callbacks that come at once, one after another.
func TestAsked(t *testing.T) {
	asked := 0
	c, _, _ := world(t, conformance.ListenerConfig{Ask: func(string) conformance.Answer {
		asked++ // the race detector sees two at once
		return conformance.Answer{Code: 3001}
	}}, 0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if sent := deliver(t, c, 1); sent.Accepted() {
				t.Errorf("%s", sent)
			}
		})
	}
	wg.Wait()
	if asked != 8 {
		t.Errorf("asked %d times", asked)
	}
}
