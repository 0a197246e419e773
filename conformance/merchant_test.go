package conformance_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"

	"countersign"
	"countersign/conformance"
	"countersign/envelope"
	"countersign/merchant"
)

// TestMerchantLibraryPasses: what package merchant makes of a Config passes
// every case, in each of its attitudes to the binding.
func TestMerchantLibraryPasses(t *testing.T) {
	t.Parallel()
	details, err := testOrder.Details()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name           string
		profile        merchant.Profile
		unbound, other bool
		only, fails    string // the cases that may show a difference, and the one that fails
	}{
		{"required", merchant.Profile{}, false, false, "", "^$"},
		{"signed", merchant.Profile{}, false, false, "^(link|deposit|repeat|withdrawal|http)/", "^$"},
		{"when present", merchant.Profile{Binding: merchant.BindingWhenPresent}, false, false, "^(binding|deposit|repeat)/", "^binding/absent$"},
		{"when present, of a service that does not bind", merchant.Profile{Binding: merchant.BindingWhenPresent}, true, false, "", "^$"},
		{"off, of a service that does not bind", merchant.Profile{Binding: merchant.BindingOff}, true, false, "^(binding|deposit|repeat)/", "^$"},
		{"another provider", merchant.OtherProvider(), false, true, "", "^$"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			credited := map[string][]string{}
			var service, own, signer, answerKey *envelope.SigningKey
			if tc.name == "signed" {
				service, own = envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
				signer, answerKey = service.Public(), own.Public()
			}
			var h *merchant.Handler
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
			t.Cleanup(srv.Close)
			var err error
			h, err = merchant.New(merchant.Config{
				Key: testKey().Public(), APIKey: testAPIKey, CallbackAPIKeys: []countersign.APIKey{testCallbackKey},
				Sign: own, ServiceSigner: signer, PublicURL: srv.URL, Profile: tc.profile, BodyTimeout: stall,
				OnDeposit: func(_ context.Context, d merchant.Deposit) error {
					mu.Lock()
					defer mu.Unlock()
					credited[d.TrackingID] = append(credited[d.TrackingID], d.Amount.String())
					return nil
				},
				Inbox: merchant.NewMemoryInbox(), Log: slog.New(slog.DiscardHandler),
				OnPossibleDuplicate: merchant.KeepForReview,
				OnWithdrawal: func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
					if w.CallBackID != testOrder.CallBackID {
						return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil
					}
					return merchant.Confirm(testOrder.TenantUserID, details), nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			c := conformance.Config{
				NotifyURL: srv.URL + merchant.DefaultNotifyPath, WithdrawURL: srv.URL + merchant.DefaultWithdrawPath, Key: testKey(),
				APIKey: testAPIKey, CallbackAPIKey: testCallbackKey, Order: &testOrder, Unbound: tc.unbound, Other: tc.other,
				Sign: service, AnswerKey: answerKey,
				Effects: func(_ context.Context, ids []string) ([]conformance.Credit, error) {
					mu.Lock()
					defer mu.Unlock()
					return creditsOf(ids, credited), nil
				},
			}
			only, fails := regexp.MustCompile(tc.only), regexp.MustCompile(tc.fails)
			c.Only = func(k conformance.Case) bool { return fails.MatchString(k.Name) }
			if results, sum := check(t, c); sum.Failed != len(results) {
				t.Errorf("%s: %v", tc.fails, sum)
			}
			c.Only = func(k conformance.Case) bool { return only.MatchString(k.Name) && !fails.MatchString(k.Name) }
			skips := "none"
			if tc.unbound || tc.other {
				skips = needsBound
			}
			allPass(t, c, skips)
		})
	}
}
