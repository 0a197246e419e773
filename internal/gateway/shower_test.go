package gateway

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// TestShower: what came is shown, also where it did not arrive whole or the response breaks off; no secret and no control
// character is.
func TestShower(t *testing.T) {
	s := countersigntest.NewService(t)
	fault := countersigntest.NoMerchantFault
	m, err := countersigntest.MakeMerchant(countersigntest.MerchantConfig{Key: s.MerchantKey(), APIKey: s.APIKey(), CallbackAPIKey: s.CallbackAPIKey(),
		Fault: func(int, countersign.Callback) countersigntest.MerchantFault { return fault }})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	server := httptest.NewServer(&Shower{CallbackReader: CallbackReader{Key: s.MerchantKey()}, Next: m, Out: &out})
	to := countersigntest.ToURLs(server.URL+merchant.DefaultNotifyPath, server.URL+merchant.DefaultWithdrawPath, nil)
	if r := s.Deliver(t.Context(), to, countersigntest.Deposit(1)); r.Err != nil {
		t.Error(r.Err)
	}
	s.Deliver(t.Context(), to, countersigntest.Withdrawal(1))
	fault = countersigntest.FaultAnswerLost
	s.Deliver(t.Context(), to, countersigntest.Deposit(2))
	for _, hostile := range []string{"", "\x1b[31mred", strings.Repeat("A", envelope.MaxBody+1), `{"data":"\u001b"}`} {
		resp, err := http.Post(server.URL+"/callbacks/%1b%5bnotify", "text/plain", strings.NewReader(hostile))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("it was taken")
		}
	}
	server.Close() // after which nothing writes
	m.Close()
	for _, text := range []string{`callback 1: POST "/callbacks/notify"`, "block 0", "binding    holds", `callback 2: POST "/callbacks/withdraw"`,
		"callback 3: ", "its body did not arrive"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is not shown:\n%s", text, &out)
		}
	}
	for _, secret := range []string{s.APIKey().Reveal(), s.CallbackAPIKey().Reveal(), s.MerchantKey().PublicBase64(), "\x1b"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is shown:\n%s", secret, &out)
		}
	}
}
