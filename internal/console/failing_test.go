package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
)

// TestNowListsWhoFails: the page Now lists a merchant from its first failed exchange on, with the reason.
func TestNowListsWhoFails(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	base, token := node(t, nil)
	api, s := serviceAPI(t, base, token), newSite(t, base).signIn(token)
	if _, err := api.CreateMerchant(t.Context(), client.NewMerchant{ID: "kiosk", Key: &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: "Kiosk", NotifyURL: server.URL + "/n", WithdrawURL: server.URL + "/w"}}); err != nil {
		t.Fatal(err)
	}
	if p := s.get("/console/now"); strings.Contains(p.body, "Merchants that fail") {
		t.Error("none has failed")
	}
	d := countersigntest.Deposit(1)
	if _, err := api.AddDeposits(t.Context(), client.NewDeposit{Merchant: "kiosk", TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID,
		ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex}); err != nil {
		t.Fatal(err)
	}
	await(t, "the first exchange has failed", func() bool {
		m, err := api.Merchant(t.Context(), "kiosk")
		return err == nil && m.Health != nil && m.Health.LastFailure != nil
	})
	m, err := api.Merchant(t.Context(), "kiosk")
	if err != nil {
		t.Fatal(err)
	}
	p := s.get("/console/now")
	_, part, found := strings.Cut(p.body, `id="failing-kiosk"`)
	part, _, _ = strings.Cut(part, "</p>")
	if !found || !strings.Contains(part, strings.ReplaceAll(string(m.Health.LastFailure.Reason), "_", " ")) || !strings.Contains(part, "since") {
		t.Errorf("it has failed with %s, and the page says %q", m.Health.LastFailure.Reason, part)
	}
}
