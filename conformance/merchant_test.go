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
	details, err := testOrder.Details()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name           string
		profile        merchant.Profile
		unbound, other bool
		fails          string // the one case that does
	}{
		{"required", merchant.Profile{}, false, false, ""},
		{"signed", merchant.Profile{}, false, false, ""},
		{"when present", merchant.Profile{Binding: merchant.BindingWhenPresent}, false, false, "binding/absent"},
		{"when present, of a service that does not bind", merchant.Profile{Binding: merchant.BindingWhenPresent}, true, false, ""},
		{"off, of a service that does not bind", merchant.Profile{Binding: merchant.BindingOff}, true, false, ""},
		{"another provider", merchant.OtherProvider(), false, true, ""},
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
			if tc.fails != "" {
				c.Only = func(k conformance.Case) bool { return k.Name == tc.fails }
				if _, sum := check(t, c); sum.Failed != 1 {
					t.Errorf("%s: %v", tc.fails, sum)
				}
				c.Only = func(k conformance.Case) bool { return k.Name != tc.fails }
			}
			skips := "none"
			if tc.unbound || tc.other {
				skips = needsBound
			}
			allPass(t, c, skips)
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
