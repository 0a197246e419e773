package demo

import (
	"context"
	"fmt"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
)

// signedID is the merchant whose messages are signed in both directions. Those of merchantID are not.
const signedID = "demo-signed"

// askSigned has a second merchant, which signs, confirm a withdrawal. Its first answer is correct but lacks the
// signature, and must decide nothing.
func (d *Demo) askSigned(ctx context.Context) error {
	key, err := envelope.GenerateKey(d.c.Bits)
	if err != nil {
		return err
	}
	known, err := d.api.Merchant(ctx, merchantID)
	if err != nil {
		return err
	}
	service, err := envelope.ParseSigningKey([]byte(known.ServiceSigningKey)) // the same for all merchants
	if err != nil {
		return err
	}
	order, err := withdrawal{}.details(len(d.asked), "8.25")
	if err != nil {
		return err
	}
	own, apiKey := envelope.GenerateSigningKey(), countersign.APIKey(d.apiKey.Reveal()+"-signed")
	m, err := countersigntest.StartMerchant(countersigntest.MerchantConfig{
		Key: key.Public(), APIKey: apiKey, Sign: own, ServiceSigner: service,
		Orders: func(string) (countersign.Details, bool) { return countersign.Details(*order), true },
		Fault: func(n int, _ countersign.Callback) countersigntest.MerchantFault {
			if n == 0 {
				return countersigntest.FaultAnswerUnsigned
			}
			return countersigntest.NoMerchantFault
		},
	})
	if err != nil {
		return err
	}
	defer m.Close()
	if err := d.register(ctx, signedID, m.NotifyURL(), m.WithdrawURL(), key, apiKey, own.PublicBase64()); err != nil {
		return err
	}
	asked, err := d.api.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: signedID, CallBackID: "signed-order", TenantUserID: user, Details: order})
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
	unsigned, err := d.alarms(ctx, client.AlarmFilter{Kind: client.AlarmAnswerDiffers, Merchant: signedID})
	if err != nil {
		return err
	}
	d.check("an answer that lost its signature decides nothing, the signed one confirms", decision == countersign.DecisionConfirmed && unsigned == 1 && len(m.Received()) == 2,
		fmt.Sprintf("%d alarms answer_differs; the other merchant is asked without signatures", unsigned))
	return nil
}
