package conformance_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"countersign"
	"countersign/conformance"
	"countersign/envelope"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// TestMerchantLibraryPasses: what package merchant makes of a Config passes
// every case, in each of its attitudes to the binding.
func TestMerchantLibraryPasses(t *testing.T) {
	t.Parallel()
	amount, err := countersign.ParseAmount(testOrder.Amount)
	if err != nil {
		t.Fatal(err)
	}
	details := countersign.Details{Address: testOrder.Address, ChainName: testOrder.ChainName, Symbol: testOrder.Symbol, Amount: amount}
	for _, tc := range []struct {
		name           string
		profile        merchant.Profile
		unbound, other bool
		skips          string
	}{
		{"required", merchant.Profile{}, false, false, "none"},
		{"signed", merchant.Profile{}, false, false, "none"},
		{"when present, of a service that does not bind", merchant.Profile{Binding: merchant.BindingWhenPresent}, true, false, needsBound},
		{"off, of a service that does not bind", merchant.Profile{Binding: merchant.BindingOff}, true, false, needsBound},
		{"another provider", merchant.OtherProvider(), false, true, needsBound},
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
			allPass(t, conformance.Config{
				NotifyURL: srv.URL + merchant.DefaultNotifyPath, WithdrawURL: srv.URL + merchant.DefaultWithdrawPath, Key: testKey(),
				APIKey: testAPIKey, CallbackAPIKey: testCallbackKey, Order: &testOrder, Unbound: tc.unbound, Other: tc.other,
				Sign: service, AnswerKey: answerKey,
				Effects: func(_ context.Context, ids []string) ([]conformance.Credit, error) {
					mu.Lock()
					defer mu.Unlock()
					return creditsOf(ids, credited), nil
				},
			}, tc.skips)
		})
	}
}

// TestLargerKeys: the cases are about rules, not about one size of blocks. With
// 3072 bits Base64 needs no padding, and with 4096 a deposit is one block.
func TestLargerKeys(t *testing.T) {
	t.Parallel()
	sizes := regexp.MustCompile(`^(sealing|form|binding)/|^deposit/(plain|blocks)$|^http/largest`)
	for _, bits := range []int{2048, 3072, 4096} {
		t.Run(strconv.Itoa(bits), func(t *testing.T) {
			if bits > 2048 {
				dbtest.Whole(t, "larger keys run the code of 2048 bits, slowly")
				if raceDetector {
					t.Skip("no other code than with 2048 bits, and slow with the race detector")
				}
			}
			key, err := envelope.GenerateKey(bits)
			if err != nil {
				t.Fatal(err)
			}
			f := newFake(false)
			f.key, f.responseKey = key.Public(), key.Public()
			c := f.start(t)
			c.Key = key
			c.Only = func(k conformance.Case) bool { return sizes.MatchString(k.Name) }
			results, sum := check(t, c)
			for _, r := range results {
				skips := strings.HasPrefix(r.Problem, "needs ") || strings.Contains(r.Problem, "too close to a power of 2") ||
					bits == 3072 && strings.Contains(r.Problem, "need no padding")
				if r.Ending == conformance.Fail || r.Ending == conformance.Skip && !skips {
					t.Error(describe(r))
				}
			}
			if sum.Passed < 12 {
				t.Errorf("%v", sum)
			}
			t.Log(sum)
		})
	}
}

// TestBindingOnlyWhenPresent: a merchant that takes requests without binding
// from a service that binds fails the one case that says so.
func TestBindingOnlyWhenPresent(t *testing.T) {
	t.Parallel()
	h, err := merchant.New(merchant.Config{
		Key: testKey().Public(), APIKey: testAPIKey, CallbackAPIKeys: []countersign.APIKey{testCallbackKey},
		Profile: merchant.Profile{Binding: merchant.BindingWhenPresent}, BodyTimeout: stall,
		Inbox: merchant.NewMemoryInbox(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	results, sum := check(t, conformance.Config{
		NotifyURL: srv.URL + merchant.DefaultNotifyPath, WithdrawURL: srv.URL + merchant.DefaultWithdrawPath, Key: testKey(),
		APIKey: testAPIKey, CallbackAPIKey: testCallbackKey,
	})
	for name, r := range results {
		if fails := r.Ending == conformance.Fail; fails != (name == "binding/absent") {
			t.Errorf("%s: %s", name, describe(r))
		}
	}
	if sum.Failed != 1 {
		t.Errorf("%v", sum)
	}
}
