package demo

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/merchant"
)

// signedID names the merchant whose messages are signed, in both directions. That of merchantID has no
// signatures.
const signedID = "demo-signed"

// signedMerchant is a second merchant, with package merchant alone. Somebody on its way takes
// the signature away from its first answer.
type signedMerchant struct {
	*daemon.Listener
	handler  atomic.Pointer[merchant.Handler] // nil: it is not registered yet
	stripped atomic.Int32
}

func (d *Demo) listenSigned(log *slog.Logger) (*signedMerchant, error) {
	m := &signedMerchant{}
	var err error
	m.Listener, err = daemon.Listen(daemon.ListenConfig{Name: "signed merchant", Addr: "127.0.0.1:0", Handler: m, Most: 100, Drain: time.Second, Log: log})
	return m, err
}

func (m *signedMerchant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := m.handler.Load()
	if h == nil {
		http.NotFound(w, r)
		return
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	if header := answer.Header(); header.Get(envelope.HeaderSignature) != "" && m.stripped.CompareAndSwap(0, 1) {
		envelope.Unsign(header)
	}
	passOn(w, answer)
}

// askSigned has the signed merchant confirm a withdrawal. The answer without its signature must decide
// nothing, though everything else in it is right.
func (d *Demo) askSigned(ctx context.Context) error {
	key, err := envelope.GenerateKey(d.c.Bits)
	if err != nil {
		return err
	}
	own := envelope.GenerateSigningKey()
	apiKey := countersign.APIKey(d.apiKey.Reveal() + "-signed")
	if err := d.registerAt(ctx, signedID, d.signed.URL(), key, apiKey, own.PublicBase64()); err != nil {
		return err
	}
	registered, err := d.api.Merchant(ctx, signedID)
	if err != nil {
		return err
	}
	service, err := envelope.ParseSigningKey([]byte(registered.ServiceSigningKey))
	if err != nil {
		return err
	}
	order, err := withdrawal{}.details(len(d.asked), "8.25")
	if err != nil {
		return err
	}
	const user = "75746"
	h, err := merchant.New(merchant.Config{Key: key.Public(), APIKey: apiKey, Sign: own, ServiceSigner: service, PublicURL: d.signed.URL(), Inbox: merchant.NewMemoryInbox(), Log: slog.New(slog.DiscardHandler),
		OnWithdrawal: func(context.Context, countersign.WithdrawalRequest) (merchant.Answer, error) {
			return merchant.Confirm(user, *order), nil
		}})
	if err != nil {
		return err
	}
	d.signed.handler.Store(h)
	asked, err := d.api.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: signedID, CallBackID: "signed-order", TenantUserID: user,
		Details: &client.Details{Address: order.Address, ChainName: order.ChainName, Symbol: order.Symbol, Amount: order.Amount}})
	if err != nil {
		return err
	}
	decision := countersign.DecisionNone
	for decision == countersign.DecisionNone {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		w, err := d.api.Withdrawal(ctx, asked.ID)
		if err != nil {
			return err
		}
		decision = w.Decision
	}
	d.signedGot = string(decision)
	unsigned, err := d.alarms(ctx, client.AlarmFilter{Kind: client.AlarmAnswerUnsigned, Merchant: signedID})
	if err != nil {
		return err
	}
	d.check("an answer that lost its signature decides nothing, the signed one confirms", decision == countersign.DecisionConfirmed && unsigned == 1 && d.signed.stripped.Load() == 1,
		fmt.Sprintf("%d alarms answer_unsigned; the other merchant is asked without signatures", unsigned))
	return nil
}
