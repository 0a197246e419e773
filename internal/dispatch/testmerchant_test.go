package dispatch

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

type noObserver struct{}

func (noObserver) Attempt(countersign.Lane, countersign.Type, client.AttemptResult, client.Reason, time.Duration) {
}
func (noObserver) RSA(string, time.Duration)      {}
func (noObserver) Claimed(countersign.Lane, int)  {}
func (noObserver) Settled(int, time.Duration)     {}
func (noObserver) Decided(countersign.Decision)   {}
func (noObserver) Swept(outbox.Swept)             {}
func (noObserver) InFlight(countersign.Lane, int) {}

// testPair is one pair for the whole test binary, made when first asked for.
var testPair = sync.OnceValue(func() *envelope.Key { return mustKey(1024) })

func mustKey(bits int) *envelope.Key {
	k, err := envelope.GenerateKey(bits)
	if err != nil {
		panic(err)
	}
	return k
}

// testMerchant is the other end, honest by itself.
type testMerchant struct {
	key    *envelope.Key // public part
	apiKey countersign.APIKey
}

func newTestMerchant(pair *envelope.Key) *testMerchant {
	return &testMerchant{key: pair.Public(), apiKey: testKey}
}

// open reads a request as a merchant must: bound, whole, known.
func (m *testMerchant) open(body []byte) (countersign.Callback, error) {
	inner, _, err := envelope.Unwrap(body)
	if err != nil {
		return nil, err
	}
	plaintext, err := envelope.Open(m.key, envelope.PKCS1v15, inner)
	if err != nil {
		return nil, err
	}
	if b := countersign.CheckBinding(plaintext); b != countersign.BindingHolds {
		return nil, fmt.Errorf("binding is %v", b)
	}
	return countersign.ParseCallback(plaintext, countersign.ParseOptions{Lenient: true})
}

// answer is the plaintext that accepts or confirms cb.
func (m *testMerchant) answer(cb countersign.Callback) ([]byte, error) {
	answer := cb.Accept(testDetails())
	if w, ok := answer.(countersign.WithdrawalAnswer); ok {
		b, _, err := w.MarshalBlocks(m.key.MaxChunk(envelope.PKCS1v15))
		return b, err
	}
	return answer.Marshal()
}

// seal wraps the plaintext of an answer into a response.
func (m *testMerchant) seal(plaintext []byte) ([]byte, error) {
	data, err := envelope.Seal(m.key, envelope.PKCS1v15, plaintext)
	if err != nil {
		return nil, err
	}
	return countersign.Response{APIKey: m.apiKey, Data: string(data)}.Marshal()
}

// respond is the whole of an honest merchant: request body in, response out.
func (m *testMerchant) respond(body []byte) ([]byte, error) {
	cb, err := m.open(body)
	if err != nil {
		return m.fail(countersign.CodeCannotOpen), nil
	}
	plaintext, err := m.answer(cb)
	if err != nil {
		return nil, err
	}
	return m.seal(plaintext)
}

// fail is a response with an errCode and no data.
func (m *testMerchant) fail(code countersign.ErrCode) []byte {
	body, err := countersign.Response{APIKey: m.apiKey, ErrCode: code, Message: code.Message()}.Marshal()
	if err != nil {
		panic(err)
	}
	return body
}

// post stands in for the network.
func (m *testMerchant) post(_ context.Context, r request) Response {
	body, err := m.respond(r.body)
	if err != nil {
		return Response{Status: 500}
	}
	return Response{Status: 200, Body: body}
}

// testStoreMerchant is the service's row for a testMerchant at url.
func testStoreMerchant(id string, pair *envelope.Key, url string) outbox.Merchant {
	m := outbox.Merchant{
		KeySet: outbox.KeySet{MerchantKeys: outbox.MerchantKeys{APIKey: testKey, CallbackAPIKey: "callback-key", Key: pair}}, ID: id,
		State:            client.MerchantActive,
		Scheme:           client.SchemeService,
		Version:          1,
		MerchantSettings: client.MerchantSettings{FinalCodes: client.ProtocolCodes(), Name: id, NotifyURL: url + "/notify", WithdrawURL: url + "/withdraw", Concurrency: 1000, AllowPrivate: new(true)},
	}
	m.SetDefaults()
	return m
}

func depositPayload(t testing.TB, n int) outbox.NewCallback {
	t.Helper()
	d := testDeposit()
	d.RequestUUID = countersign.UnboundUUID
	d.TrackingID = fmt.Sprintf("track-%06d", n)
	d.TxID = fmt.Sprintf("8d1b2c3f4a5e60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5%08d", n)
	payload, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return outbox.NewCallback{Type: countersign.TypeDeposited, EventID: d.TrackingID, TrackingID: d.TrackingID, TxID: d.TxID,
		Payload: payload, Deadline: db.Never}
}

func withdrawalPayload(t testing.TB, n int) outbox.NewWithdrawal {
	t.Helper()
	w := &countersign.WithdrawalRequest{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: fmt.Sprintf("w-track-%d", n), TenantUserID: "user-1"}, CallBackID: fmt.Sprintf("cb-%d", n),
	}
	payload, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	d := testDetails()
	return outbox.NewWithdrawal{CallBackID: w.CallBackID, TenantUserID: w.TenantUserID, TrackingID: w.TrackingID, Details: (*client.Details)(&d), Payload: payload}
}
