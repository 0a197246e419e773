package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/merchant"
)

// ownUser has all addresses in the books of these tests.
const ownUser = "65515"

func TestMain(m *testing.M) {
	books := owns
	if v, err := books(context.Background(), ownUser, "0x"); v != merchant.VerdictNotYet || err == nil {
		panic("owns says something before it was edited")
	}
	owns = func(_ context.Context, user, _ string) (merchant.Verdict, error) {
		if user != ownUser {
			return merchant.VerdictNo, nil
		}
		return merchant.VerdictYes, nil
	}
	os.Exit(m.Run())
}

// realDeposits are those of the demo: 231 transfers of two blocks of Ethereum.
func realDeposits(t *testing.T) (list []countersign.Deposit) {
	t.Helper()
	file, err := os.Open("../../internal/demo/deposits/deposits.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var d struct {
			TrackingID, TxID, ChainName, Symbol, FromAddress, ToAddress string
			Amount                                                      countersign.Amount
			TxIndex                                                     int64
		}
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		list = append(list, countersign.Deposit{Head: countersign.Head{TrackingID: d.TrackingID, TenantUserID: ownUser}, TxID: d.TxID, ChainName: d.ChainName, Symbol: d.Symbol,
			Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex})
	}
	if len(list) < 200 {
		t.Fatalf("%d deposits", len(list))
	}
	return list
}

// node is a server that speaks the JSON-RPC of Ethereum, over receipts that are made
// of the deposits.
type node struct {
	*httptest.Server
	mu       sync.Mutex
	chainID  string
	head     string
	receipts map[string]map[string]any
	txs      map[string]map[string]any
	answer   func(w http.ResponseWriter) bool // nil: honest
}

func hex(n *big.Int) string { return fmt.Sprintf("%#x", n) }

func newNode(t *testing.T, deposits []countersign.Deposit) *node {
	n := &node{chainID: "0x1", head: "0x1060bd5", receipts: map[string]map[string]any{}, txs: map[string]map[string]any{}}
	topic := func(address string) string { return "0x" + strings.Repeat("0", 24) + strings.TrimPrefix(address, "0x") }
	for _, d := range deposits {
		r := n.receipts[d.TxID]
		if r == nil {
			r = map[string]any{"transactionHash": d.TxID, "transactionIndex": fmt.Sprintf("0x%x", max(d.TxIndex, 0)), "blockNumber": "0x1060bca", "status": "0x1", "logs": []any{}}
			n.receipts[d.TxID] = r
			n.txs[d.TxID] = map[string]any{"hash": d.TxID, "to": "0x0000000000000000000000000000000000000001", "value": "0x0"}
		}
		if d.Symbol == native {
			value, err := units(d.Amount, 18)
			if err != nil {
				t.Fatal(err)
			}
			n.txs[d.TxID] = map[string]any{"hash": d.TxID, "to": d.ToAddress, "value": hex(value)}
			continue
		}
		amount, err := units(d.Amount, tokens[d.Symbol].decimals)
		if err != nil {
			t.Fatal(err)
		}
		r["logs"] = append(r["logs"].([]any), map[string]any{"address": tokens[d.Symbol].contract, "logIndex": fmt.Sprintf("0x%x", d.TxIndex), "removed": false,
			"topics": []string{transferTopic, topic(d.FromAddress), topic(d.ToAddress)}, "data": fmt.Sprintf("0x%064x", amount)})
	}
	n.Server = httptest.NewServer(n)
	t.Cleanup(n.Close)
	return n
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answer != nil && n.answer(w) {
		return
	}
	var call struct {
		JSONRPC string
		ID      int
		Method  string
		Params  []string
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil || call.JSONRPC != "2.0" {
		http.Error(w, "no call", http.StatusBadRequest)
		return
	}
	result := map[string]func() any{
		"eth_chainId":               func() any { return n.chainID },
		"eth_blockNumber":           func() any { return n.head },
		"eth_getTransactionReceipt": func() any { return orNull(n.receipts[call.Params[0]]) },
		"eth_getTransactionByHash":  func() any { return orNull(n.txs[call.Params[0]]) },
	}[call.Method]()
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": result})
}

func orNull(m map[string]any) any {
	if m == nil {
		return nil
	}
	return m
}

func (n *node) chain() *chain {
	return &chain{n.URL, newClient()}
}

// TestRealDeposits: each is found, and each that differs in anything that counts is not.
func TestRealDeposits(t *testing.T) {
	deposits := realDeposits(t)
	c := newNode(t, deposits).chain()
	const yes, no, notYet = merchant.VerdictYes, merchant.VerdictNo, merchant.VerdictNotYet
	for i, d := range deposits {
		for what, k := range map[string]struct {
			change        func(*countersign.Deposit)
			token, native merchant.Verdict
		}{
			"nothing":      {func(*countersign.Deposit) {}, yes, yes},
			"amount":       {func(d *countersign.Deposit) { d.Amount = lastDigit(t, d.Amount) }, no, no},
			"toAddress":    {func(d *countersign.Deposit) { d.ToAddress = "0x" + strings.Repeat("a", 40) }, no, notYet}, // a contract could have passed it on
			"txId":         {func(d *countersign.Deposit) { d.TxID = "0x" + strings.Repeat("ab", 32) }, notYet, notYet}, // the node may lag
			"symbol":       {func(d *countersign.Deposit) { d.Symbol = "FAKE" }, notYet, notYet},
			"chain":        {func(d *countersign.Deposit) { d.ChainName = "BSC" }, notYet, notYet},
			"tenantUserId": {func(d *countersign.Deposit) { d.TenantUserID = "65516" }, no, no},
			"txIndex":      {func(d *countersign.Deposit) { d.TxIndex += 10_000 }, no, no},
			"index of -2":  {func(d *countersign.Deposit) { d.TxIndex = -2 }, yes, no},
			"contract": {func(d *countersign.Deposit) {
				if d.Symbol != native {
					d.Symbol = map[bool]string{true: "USDT", false: "USDC"}[d.Symbol != "USDT"]
				}
			}, no, yes},
		} {
			if i%8 != 0 && what != "nothing" { // the rest is the same code
				continue
			}
			changed, want := d, k.token
			if d.Symbol == native {
				want = k.native
			}
			k.change(&changed)
			if got, reason := c.verify(t.Context(), changed); got != want {
				t.Errorf("%s with another %s: %v (%s), want %v", d.TrackingID, what, got, reason, want)
			}
		}
	}
}

// TestTransfers: a transaction moves its value once, whatever its index is. Of two equal transfers of a token in one
// transaction each is one deposit, and one that does not say which it is is neither.
func TestTransfers(t *testing.T) {
	deposits := realDeposits(t)
	value, first := deposits[slices.IndexFunc(deposits, func(d countersign.Deposit) bool { return d.Symbol == native })], deposits[1]
	second := first
	second.TxIndex += 1000
	c := newNode(t, []countersign.Deposit{value, first, second}).chain()
	unindexed := func(d countersign.Deposit) countersign.Deposit { d.TxIndex = -1; return d }
	for name, k := range map[string]struct {
		d    countersign.Deposit
		want merchant.Verdict
	}{
		"a value without an index": {unindexed(value), merchant.VerdictYes},
		"the first":                {first, merchant.VerdictYes},
		"the second":               {second, merchant.VerdictYes},
		"one of two":               {unindexed(second), merchant.VerdictNotYet},
	} {
		if got, reason := c.verify(t.Context(), k.d); got != k.want {
			t.Errorf("%s: %v (%s), want %v", name, got, reason, k.want)
		}
	}
}

// lastDigit returns another amount, which differs in its last digit alone.
func lastDigit(t *testing.T, a countersign.Amount) countersign.Amount {
	t.Helper()
	text := []byte(a.String())
	last := len(text) - 1
	text[last] = '0' + (text[last]-'0'+1)%10
	b, err := countersign.ParseAmount(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestChain: what the chain does not show deep enough, or the node does not say
// clearly, is not yet.
func TestChain(t *testing.T) {
	deposits := realDeposits(t)
	d := deposits[1]
	for name, c := range map[string]struct {
		change func(n *node)
		want   merchant.Verdict
	}{
		"honest":            {func(*node) {}, merchant.VerdictYes},
		"eleven":            {func(n *node) { n.head = "0x1060bd4" }, merchant.VerdictNotYet},
		"the node lags":     {func(n *node) { n.head = "0x1060bc0" }, merchant.VerdictNotYet},
		"pending":           {func(n *node) { n.receipts[d.TxID]["blockNumber"] = nil }, merchant.VerdictNotYet},
		"failed":            {func(n *node) { n.receipts[d.TxID]["status"] = "0x0" }, merchant.VerdictNo},
		"failed, not deep":  {func(n *node) { n.receipts[d.TxID]["status"] = "0x0"; n.head = "0x1060bcc" }, merchant.VerdictNotYet},
		"no status":         {func(n *node) { delete(n.receipts[d.TxID], "status") }, merchant.VerdictNotYet},
		"no logs":           {func(n *node) { n.receipts[d.TxID]["logs"] = []any{} }, merchant.VerdictNo},
		"another receipt":   {func(n *node) { n.receipts[d.TxID] = n.receipts[deposits[0].TxID] }, merchant.VerdictNotYet},
		"another chain":     {func(n *node) { n.chainID = "0x5" }, merchant.VerdictNotYet},
		"a number too long": {func(n *node) { n.head = "0x1" + strings.Repeat("0", 64) }, merchant.VerdictNotYet},
		"removed":           {func(n *node) { logOf(n, d)["removed"] = true }, merchant.VerdictNo},
		"another event":     {func(n *node) { logOf(n, d)["topics"].([]string)[0] = "0x" + strings.Repeat("1", 64) }, merchant.VerdictNo},
		"an NFT": {func(n *node) {
			l := logOf(n, d)
			l["topics"] = append(l["topics"].([]string), l["data"].(string))
		}, merchant.VerdictNo},
		"long data":   {func(n *node) { l := logOf(n, d); l["data"] = l["data"].(string) + strings.Repeat("0", 64) }, merchant.VerdictNotYet},
		"error":       {func(n *node) { n.answer = says(200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000}}`) }, merchant.VerdictNotYet},
		"no result":   {func(n *node) { n.answer = says(200, `{"jsonrpc":"2.0","id":1}`) }, merchant.VerdictNotYet},
		"status 429":  {func(n *node) { n.answer = says(429, `{}`) }, merchant.VerdictNotYet},
		"no JSON":     {func(n *node) { n.answer = says(200, `<html>`) }, merchant.VerdictNotYet},
		"other types": {func(n *node) { n.answer = says(200, `{"result":{"status":7}}`) }, merchant.VerdictNotYet},
		"gone":        {func(n *node) { go n.Close(); time.Sleep(10 * time.Millisecond) }, merchant.VerdictNotYet},
	} {
		n := newNode(t, deposits)
		c.change(n)
		got, reason := n.chain().verify(t.Context(), d)
		if got != c.want {
			t.Errorf("%s: %v (%s), want %v", name, got, reason, c.want)
		}
		if strings.Contains(reason, n.URL) {
			t.Errorf("%s: the reason names the node's URL: %v", name, reason)
		}
	}
}

func logOf(n *node, d countersign.Deposit) map[string]any {
	for _, l := range n.receipts[d.TxID]["logs"].([]any) {
		if l := l.(map[string]any); l["logIndex"] == fmt.Sprintf("0x%x", d.TxIndex) {
			return l
		}
	}
	return nil
}

func says(status int, body string) func(http.ResponseWriter) bool {
	return func(w http.ResponseWriter) bool {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}
}

// TestAnswer: a signed question is answered, no other.
func TestAnswer(t *testing.T) {
	deposits := realDeposits(t)
	n := newNode(t, deposits)
	key := bytes.Repeat([]byte("k"), 32)
	server := httptest.NewServer(n.chain().answer("whsec_" + base64.StdEncoding.EncodeToString(key) + "\n"))
	defer server.Close()
	ask := func(key []byte, at time.Time, body string) (int, string) {
		t.Helper()
		stamp := strconv.FormatInt(at.Unix(), 10)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("verify_1." + stamp + "." + body))
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("webhook-id", "verify_1")
		req.Header.Set("webhook-timestamp", stamp)
		req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer map[string]string
		_ = json.NewDecoder(resp.Body).Decode(&answer)
		return resp.StatusCode, answer["verdict"]
	}
	d := deposits[0]
	body := fmt.Sprintf(`{"type":"deposit.verify","data":{"trackingId":"d","tenantUserId":"65515","txId":%q,"chainName":"ETH","symbol":%q,"amount":%q,"toAddress":%q,"txIndex":%d}}`,
		d.TxID, d.Symbol, d.Amount.String(), d.ToAddress, d.TxIndex)
	if status, verdict := ask(key, time.Now(), body); status != 200 || verdict != "yes" {
		t.Errorf("status %d, %q", status, verdict)
	}
	if status, verdict := ask(key, time.Now(), strings.Replace(body, `"amount":"`, `"amount":"1`, 1)); status != 200 || verdict != "no" {
		t.Errorf("another amount: status %d, %q", status, verdict)
	}
	for name, status := range map[string]int{
		"key":  first(ask(bytes.Repeat([]byte("x"), 32), time.Now(), body)),
		"time": first(ask(key, time.Now().Add(-time.Hour), body)),
	} {
		if status != http.StatusUnauthorized {
			t.Errorf("another %s: status %d", name, status)
		}
	}
	if status, _ := ask(key, time.Now(), `{"type":"deposit.taken"}`); status != http.StatusBadRequest {
		t.Errorf("another message: status %d", status)
	}
}

func first(status int, _ string) int { return status }
