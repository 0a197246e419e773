package dispatch

import (
	"encoding/base64"
	"encoding/pem"
	"testing"
	"testing/synctest"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/outbox"
)

// away gives pair as a row of a key store has it that nobody gave.
func away(t *testing.T, pair *envelope.Key) *envelope.Key {
	t.Helper()
	der, err := base64.StdEncoding.DecodeString(pair.PublicBase64())
	must(err)
	key, err := envelope.ParseStoredKey(pem.EncodeToMemory(&pem.Block{Type: "COUNTERSIGN STORED KEY", Headers: map[string]string{"Id": "00ff"}, Bytes: der}))
	must(err)
	return key
}

// TestKeyStoreAway: while the token with a merchant's private part is away, its callbacks wait
// and are tried again, and none of it counts as failed; it is not paused, and others go on.
func TestKeyStoreAway(t *testing.T) {
	for name, put := range map[string]func(*outbox.Merchant, *envelope.Key){
		"seals": func(m *outbox.Merchant, k *envelope.Key) { m.Key = k },
		"opens": func(m *outbox.Merchant, k *envelope.Key) { m.ResponseKey = k },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var whole outbox.Merchant
				r := newRig(t, func(_ *Config, r *rig) {
					whole = r.merchants["m1"]
					m := whole
					put(&m, away(t, m.Key))
					r.merchants["m1"] = m
				})
				r.start(t)
				deposit := r.addDeposit("m1", 1)
				question := r.addWithdrawal("m1", 2, 200*time.Hour, true)
				other := r.addDeposit("m2", 3)
				time.Sleep(time.Hour)
				if c := r.callback(other); c.State != outbox.CallbackAccepted {
					t.Errorf("the other merchant's: %s %s", c.State, c.LastReason)
				}
				for _, id := range []string{deposit, question} {
					if c := r.callback(id); c.State != outbox.CallbackPending && c.State != outbox.CallbackSending || c.LastReason != client.ReasonKeyStore || c.Failed != 0 {
						t.Errorf("%s: %s %s, %d failed", id, c.State, c.LastReason, c.Failed)
					}
				}
				r.mu.Lock()
				is := r.merchants["m1"].State
				whole.Version = 2
				r.merchants["m1"] = whole // as if the token were back
				r.mu.Unlock()
				if is != outbox.MerchantActive {
					t.Errorf("the merchant is %s", is)
				}
				time.Sleep(time.Minute)
				if c, w := r.callback(deposit), r.withdrawal(question); c.State != outbox.CallbackAccepted || w.State != outbox.WithdrawalConfirmed {
					t.Errorf("afterwards: %s %s, %s", c.State, c.LastReason, w.State)
				}
				r.stop()
			})
		})
	}
}
