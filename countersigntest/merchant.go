package countersigntest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"countersign"
	"countersign/envelope"
	"countersign/merchant"
)

// MerchantConfig has the settings of a Merchant.
type MerchantConfig struct {
	// Key opens requests and seals answers: the public part of the service's
	// pair. Required.
	Key *envelope.Key
	// RequestKey opens requests instead of Key: the merchant's own pair in scheme
	// merchant. Nil: Key.
	RequestKey *envelope.Key
	// Padding and ResponsePadding. Zero: PKCS#1 v1.5.
	Padding, ResponsePadding envelope.Padding
	// APIKey goes into every response. Required.
	APIKey countersign.APIKey
	// CallbackAPIKey is required as X-API-KEY. Empty: none is required.
	CallbackAPIKey countersign.APIKey
	// APIKeyHeader is another name for that header. Empty: X-API-KEY.
	APIKeyHeader string
	// BodyField is the form field or JSON member that carries the body. Empty: data.
	BodyField string
	// Sign is the merchant's own pair, which signs each response with a JSON body to a request that
	// has a signature (PROTOCOL.md, The signed link). Nil: responses are not signed.
	Sign *envelope.SigningKey
	// ServiceSigner is the service's public part, which must have signed every request. Nil: none
	// need be signed.
	ServiceSigner *envelope.SigningKey
	// PublicURL is the beginning of the URLs that the service posts to, without the paths. Empty: the host of the
	// request.
	PublicURL string

	// Unbound accepts requests whose binding does not hold.
	Unbound bool

	// Orders returns the details of an order. If it is nil or returns false, the order is not known, errCode 2001.
	Orders func(callBackID string) (countersign.Details, bool)
	// Users returns the user of an order if the request names none, as services that are not of this project do. Nil:
	// user 1.
	Users func(callBackID string) string

	// Fault chooses the fault of the response to the n-th callback that could be
	// read, counted from 0. Nil: all responses are honest. One goroutine at a
	// time calls it.
	Fault func(n int, cb countersign.Callback) MerchantFault
	// Code chooses an errCode, which is answered in place of anything else. It is called
	// after Fault. Nil, and 0: there is none.
	Code func(cb countersign.Callback) countersign.ErrCode
}

// Merchant is a merchant's server on a loopback address. Without a Fault it takes
// every deposit and notice once and confirms every withdrawal of Orders. It shares
// no code with package merchant, so that the two check each other.
type Merchant struct {
	c       MerchantConfig
	server  *httptest.Server
	closing chan struct{}

	mu       sync.Mutex
	n        int
	received []countersign.Callback
	taken    map[string]int
	previous string          // requestUUID of the callback before
	asked    http.Header     // of the signed request before
	uuids    map[string]bool // of the requests that were taken
	gate     chan struct{}   // closed by Release
}

// SampleOrders is a MerchantConfig.Orders that knows the orders of Withdrawal(n).
func SampleOrders(callBackID string) (countersign.Details, bool) {
	var n int
	if _, err := fmt.Sscanf(callBackID, "order-%d", &n); err != nil || callBackID != Withdrawal(n).CallBackID {
		return countersign.Details{}, false
	}
	return Order(n), true
}

// StartMerchant starts a Merchant. Close stops it.
func StartMerchant(c MerchantConfig) (*Merchant, error) {
	m, err := MakeMerchant(c)
	if err != nil {
		return nil, err
	}
	m.server = httptest.NewServer(m)
	return m, nil
}

// MakeMerchant makes a Merchant without a server, for one of the caller's own. Only ServeHTTP,
// Received, Taken, Release and Close may be called.
func MakeMerchant(c MerchantConfig) (*Merchant, error) {
	if c.Key.Size() == 0 || c.Key.HasPrivate() {
		return nil, fmt.Errorf("countersigntest: the merchant's key must be the public part of the service's pair")
	}
	if c.Sign != nil && !c.Sign.HasPrivate() {
		return nil, errors.New("countersigntest: Sign has no private part")
	}
	if c.RequestKey == nil {
		c.RequestKey = c.Key
	}
	if c.Users == nil {
		c.Users = func(string) string { return "1" }
	}
	c.APIKeyHeader = cmp.Or(c.APIKeyHeader, merchant.DefaultHeader)
	c.BodyField = cmp.Or(c.BodyField, merchant.DefaultBodyField)
	m := &Merchant{c: c, closing: make(chan struct{}), gate: make(chan struct{}), taken: map[string]int{},
		uuids: map[string]bool{}}
	return m, nil
}

// Close ends all connections, hanging ones too, and stops the server.
func (m *Merchant) Close() {
	close(m.closing)
	if m.server == nil {
		return
	}
	m.server.CloseClientConnections()
	m.server.Close()
}

// NotifyURL returns the URL for every type but 2.
func (m *Merchant) NotifyURL() string { return m.server.URL + merchant.DefaultNotifyPath }

// WithdrawURL returns the URL for type 2.
func (m *Merchant) WithdrawURL() string { return m.server.URL + merchant.DefaultWithdrawPath }

// Received returns the callbacks that could be read, attempt by attempt.
func (m *Merchant) Received() []countersign.Callback {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.received)
}

// Taken returns how many times the deposit or notice with that trackingId had its effect here: at most once, unless
// FaultDoneTwice chose otherwise.
func (m *Merchant) Taken(trackingID string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken[trackingID]
}

// Release lets all callbacks go that FaultAnswersLate holds back now.
func (m *Merchant) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.gate)
	m.gate = make(chan struct{})
}

// take is the effect of a deposit or notice: once for each type and trackingId.
func (m *Merchant) take(cb countersign.Callback, again bool) {
	id := cb.EventID()
	if id == "" {
		id = cb.UUID()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken[id] == 0 || again {
		m.taken[id]++
	}
}

func (m *Merchant) refusal(code countersign.ErrCode) countersign.Response {
	return countersign.Response{APIKey: m.c.APIKey, ErrCode: code, Message: code.Message()}
}

// notSigned returns the refusal of PROTOCOL.md, L11.
func (m *Merchant) notSigned(word string) countersign.Response {
	return countersign.Response{APIKey: m.c.APIKey, ErrCode: countersign.CodeMalformed, Message: word}
}

// honest returns the response that accepts or confirms cb, and the plaintext of its data.
func (m *Merchant) honest(cb countersign.Callback) (countersign.Response, []byte) {
	var order countersign.Details
	if cb.CallbackType() == countersign.TypeRequestWithdraw {
		known := false
		if m.c.Orders != nil {
			order, known = m.c.Orders(cb.OrderID())
		}
		if !known {
			return m.refusal(countersign.CodeUnknownOrder), nil
		}
	}
	answer := cb.Accept(order)
	var plaintext []byte
	var err error
	if w, ok := answer.(countersign.WithdrawalAnswer); ok {
		if w.TenantUserID == "" {
			w.TenantUserID = m.c.Users(cb.OrderID())
		}
		// In blocks that a service without the order accepts (PROTOCOL.md, Decision, D7).
		plaintext, _, err = w.MarshalBlocks(m.c.Key.MaxChunk(m.c.ResponsePadding))
	} else {
		plaintext, err = answer.Marshal()
	}
	if err != nil {
		return m.refusal(countersign.CodeInternal), nil
	}
	return m.sealed(plaintext, m.c.Key), plaintext
}

func (m *Merchant) sealed(plaintext []byte, key *envelope.Key) countersign.Response {
	data, err := envelope.Seal(key, m.c.ResponsePadding, plaintext)
	if err != nil {
		return m.refusal(countersign.CodeInternal)
	}
	return countersign.Response{APIKey: m.c.APIKey, Data: string(data)}
}
