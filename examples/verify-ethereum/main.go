// Command verify-ethereum answers a gateway's --verify-url (docs/merchant/verify.md): it asks a
// node of Ethereum whether a deposit is on the chain. A merchant without a gateway
// copies chain.verify for its merchant.Config.Verify.
//
// Settings are environment variables: NODE_URL is the node's JSON-RPC, SECRET_FILE the
// file of --verify-secret of the gateway, LISTEN the address (127.0.0.1:8092 if empty).
// Two places are to be edited: tokens and owns. For another chain, also chainID and its name.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"countersign"
	"countersign/merchant"
)

// token is a currency that a contract keeps.
type token struct {
	contract string // in lower case
	decimals int
}

// chainName is what the provider calls the chain, native its own currency.
const (
	chainName = "ETH"
	native    = "ETH"
)

// tokens are the currencies that count, by the symbol of the provider. A contract that is
// not listed can call itself USDT too. EDIT this for what you take.
var tokens = map[string]token{
	"WETH": {"0xc02aaa39b223fe8d0a0e5c4f27ead9083c756cc2", 18},
	"USDT": {"0xdac17f958d2ee523a2206206994597c13d831ec7", 6},
	"USDC": {"0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", 6},
	"DAI":  {"0x6b175474e89094c44da98b954eedeac495271d0f", 18},
	"WBTC": {"0x2260fac5e5542a773aa44fbcfedf7c193bc2c599", 8},
	"LINK": {"0x514910771af9ca656af840dff83e8264ecf986ca", 18},
	"PEPE": {"0x6982508145454ce325ddbe47a25d4ec3d2311933", 18},
}

// owns says whether an address belongs to a user in the merchant's own books. Which user is credited only the provider
// says; the chain does not show it. EDIT this; until then no deposit is verified.
var owns = func(ctx context.Context, tenantUserID, address string) (merchant.Verdict, error) {
	return merchant.VerdictNotYet, errors.New("owns is not written yet: look the address up in your own books")
}

// confirmations is how many blocks must agree, the deposit's own among them. EDIT them for another chain.
const (
	confirmations = 12
	chainID       = 1
)

// transferTopic is the digest of Transfer(address,address,uint256).
const transferTopic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

// chain is a node.
type chain struct {
	url    string
	client *http.Client
}

// never is why a deposit can never become true. Any other error says why it is not true yet.
type never string

func (n never) Error() string { return string(n) }

// verify says whether d is on the chain, and why not.
func (c *chain) verify(ctx context.Context, d countersign.Deposit) (verdict merchant.Verdict, why string) {
	err := c.check(ctx, d)
	if err == nil {
		return merchant.VerdictYes, ""
	}
	if _, is := errors.AsType[never](err); is {
		return merchant.VerdictNo, err.Error()
	}
	return merchant.VerdictNotYet, err.Error()
}

func (c *chain) check(ctx context.Context, d countersign.Deposit) error {
	if d.ChainName != chainName {
		return fmt.Errorf("deposits on the chain %q are not checked here", d.ChainName)
	}
	var id, head quantity
	var r receipt
	err := c.call(ctx, &id, "eth_chainId")
	if err == nil && !id.is(chainID) {
		err = errors.New("the node is of another chain")
	}
	if err == nil {
		err = c.call(ctx, &r, "eth_getTransactionReceipt", d.TxID)
	}
	if err == nil && !strings.EqualFold(r.TransactionHash, d.TxID) {
		err = errors.New("the node does not know the transaction")
	}
	if err == nil {
		err = c.call(ctx, &head, "eth_blockNumber")
	}
	if err != nil {
		return err
	}
	deep := new(big.Int).Sub(&head.Int, &r.BlockNumber.Int)
	switch owned, err := owns(ctx, d.TenantUserID, d.ToAddress); {
	case deep.Cmp(big.NewInt(confirmations-1)) < 0: // a failure can still be undone as well
		return fmt.Errorf("fewer than %d confirmations", confirmations)
	case r.Status == "0x0":
		return never("the transaction failed")
	case r.Status != "0x1":
		return fmt.Errorf("the receipt has the status %q", r.Status)
	case err != nil || owned == merchant.VerdictNotYet:
		return cmp.Or(err, errors.New("the books do not say whose the address is"))
	case owned != merchant.VerdictYes:
		return never("the address is not the user's")
	}
	if d.Symbol == native {
		return c.checkNative(ctx, d, r.TransactionIndex)
	}
	t, known := tokens[d.Symbol]
	if !known {
		return fmt.Errorf("the contract of %q is not known here", d.Symbol)
	}
	return r.find(d, t)
}

// receipt is what a node says of a transaction.
type receipt struct {
	TransactionHash, Status       string
	TransactionIndex, BlockNumber quantity
	Logs                          []struct {
		Address, Data string
		Topics        []string
		LogIndex      quantity
		Removed       bool
	}
}

// find looks for the Transfer log of d. txIndex is the log's index in its block, as the
// node gives it; change this if your provider counts otherwise.
func (r *receipt) find(d countersign.Deposit, t token) error {
	want, err := units(d.Amount, t.decimals)
	if err != nil {
		return never(err.Error())
	}
	matches := 0
	for _, l := range r.Logs {
		if l.Removed || !strings.EqualFold(l.Address, t.contract) || len(l.Topics) != 3 ||
			!strings.EqualFold(l.Topics[0], transferTopic) || !isAddress(l.Topics[2], d.ToAddress) {
			continue
		}
		amount, err := number(l.Data)
		if err != nil {
			return err
		}
		if amount.Cmp(want) == 0 && (d.TxIndex < 0 || l.LogIndex.is(d.TxIndex)) {
			matches++
		}
	}
	switch matches {
	case 1:
		return nil
	case 0:
		return never("no such Transfer log in the transaction")
	}
	return errors.New("several transfers fit, and the deposit has no txIndex")
}

// checkNative checks a transfer of the chain's own currency. One that a contract makes has
// no log and cannot be seen here: it stays not yet, for a person. A transaction moves its value
// once: another txIndex than -1 or its own index in the block would be a second deposit of it.
func (c *chain) checkNative(ctx context.Context, d countersign.Deposit, own quantity) error {
	if d.TxIndex != -1 && !own.is(d.TxIndex) {
		return never("txIndex is neither -1 nor the transaction's own index")
	}
	var tx struct {
		Hash, To string
		Value    quantity
	}
	if err := c.call(ctx, &tx, "eth_getTransactionByHash", d.TxID); err != nil {
		return err
	}
	switch want, err := units(d.Amount, 18); {
	case !strings.EqualFold(tx.Hash, d.TxID):
		return errors.New("the node does not know the transaction")
	case !strings.EqualFold(tx.To, d.ToAddress):
		return errors.New("the transaction goes to another address; what a contract passed on is not seen")
	case err != nil || tx.Value.Cmp(want) != 0:
		return never("the transaction moves another amount")
	}
	return nil
}

// units is amount in the smallest unit, exactly.
func units(amount countersign.Amount, decimals int) (*big.Int, error) {
	whole, fraction, _ := strings.Cut(amount.Canonical(), ".")
	if len(fraction) > decimals {
		return nil, fmt.Errorf("the currency has only %d decimals", decimals)
	}
	n, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", decimals-len(fraction)), 10)
	if !ok {
		return nil, errors.New("the deposit has no amount")
	}
	return n, nil
}

// number reads a number of JSON-RPC or 32 bytes of a log.
func number(text string) (*big.Int, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok || digits == "" || len(digits) > 64 || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		return nil, fmt.Errorf("the node wrote %.80q for a number", text)
	}
	n, _ := new(big.Int).SetString(digits, 16)
	return n, nil
}

// quantity is a number of JSON-RPC, and never null.
type quantity struct{ big.Int }

// UnmarshalJSON implements json.Unmarshaler.
func (q *quantity) UnmarshalJSON(text []byte) error {
	n, err := number(strings.Trim(string(text), `"`))
	if err == nil {
		q.Set(n)
	}
	return err
}

func (q *quantity) is(n int64) bool { return q.Cmp(big.NewInt(n)) == 0 }

// isAddress reports whether a topic of 32 bytes holds address.
func isAddress(topic, address string) bool {
	digits, ok := strings.CutPrefix(strings.ToLower(address), "0x")
	return ok && len(digits) == 40 && strings.ToLower(topic) == "0x"+strings.Repeat("0", 24)+digits
}

// maxAnswer bounds an answer of the node. The largest receipts have some MB.
const maxAnswer = 16 << 20

func (c *chain) call(ctx context.Context, into any, method string, params ...any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method,
		"params": append([]any{}, params...)})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("NODE_URL is no URL")
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: the node does not answer", method) // the URL may hold a key
	}
	defer resp.Body.Close()
	result := struct{ Result, Error any }{Result: into} // null makes Result nil
	err = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&result)
	if resp.StatusCode != http.StatusOK || err != nil || result.Error != nil || result.Result == nil {
		return fmt.Errorf("%s: the node answers with status %d and no result (%v)", method, resp.StatusCode, err)
	}
	return nil
}

// maxQuestion bounds a question, in bytes.
const maxQuestion = 128 << 10

// answer is the http.Handler of the gateway's questions.
func (c *chain) answer(secret string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
		h := r.Header
		if err != nil || r.Method != http.MethodPost ||
			!signed(secret, h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature"), body) {
			http.Error(w, "not signed", http.StatusUnauthorized)
			return
		}
		var question struct {
			Type string
			Data struct {
				TrackingID, TenantUserID, TxID, ChainName, Symbol, ToAddress string
				Amount                                                       countersign.Amount
				TxIndex                                                      int64
			}
		}
		if err := json.Unmarshal(body, &question); err != nil || question.Type != "deposit.verify" {
			http.Error(w, "no question about a deposit", http.StatusBadRequest)
			return
		}
		q := question.Data
		verdict, reason := c.verify(r.Context(), countersign.Deposit{
			Head: countersign.Head{TrackingID: q.TrackingID, TenantUserID: q.TenantUserID}, TxID: q.TxID, ChainName: q.ChainName,
			Symbol: q.Symbol, Amount: q.Amount, ToAddress: q.ToAddress, TxIndex: q.TxIndex})
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"verdict": verdict.String(), "reason": reason})
	}
}

// signed checks a signature of Standard Webhooks (docs/merchant/README.md).
func signed(secret, id, timestamp, signatures string, body []byte) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"))
	at, err2 := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || err2 != nil || len(key) < 24 || time.Since(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	good := false
	for _, given := range strings.Fields(signatures) {
		good = hmac.Equal([]byte(given), []byte(want)) || good
	}
	return good
}

func run() error {
	secret, err := os.ReadFile(os.Getenv("SECRET_FILE"))
	if err != nil {
		return fmt.Errorf("SECRET_FILE: %w", err)
	}
	if os.Getenv("NODE_URL") == "" {
		return errors.New("NODE_URL is not set")
	}
	c := &chain{os.Getenv("NODE_URL"), newClient()}
	return (&http.Server{Addr: cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8092"), Handler: c.answer(string(secret)),
		ReadTimeout: 10 * time.Second}).ListenAndServe()
}

// newClient returns a client that follows no redirect, so that only the named node is trusted.
func newClient() *http.Client {
	return &http.Client{Timeout: 10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
