package merchant_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// What FuzzHandler does with its data.
const (
	postRaw   = iota // post it
	postSeal         // seal it as a plaintext
	postBind         // bind it, then seal it
	postSpoil        // seal a genuine deposit and put the data over a part of it
	postModes
)

// FuzzHandler posts anything to both routes. The status is one of a few, the
// body is a response where one is promised, and nothing is recorded or acted on
// unless a callback was there that the rules take.
func FuzzHandler(f *testing.F) {
	for n := range 3 {
		cb := countersigntest.Deposit(n)
		cb.RequestUUID = countersign.UnboundUUID
		if d, err := cb.Marshal(); err == nil {
			f.Add(byte(postSeal), false, d)
			f.Add(byte(postBind), false, d)
			f.Add(byte(postBind), true, d)
		}
	}
	w := countersigntest.Withdrawal(1)
	w.RequestUUID = countersign.UnboundUUID
	plaintext := must(w.Marshal())(f)
	f.Add(byte(postBind), true, plaintext)
	f.Add(byte(postBind), false, plaintext)
	f.Add(byte(postBind), false, []byte(`{"type":9,"requestUUID":"000000000000000000000000000000000000"}`))
	f.Add(byte(postRaw), false, []byte("data=QUJD%2B"))
	f.Add(byte(postRaw), true, []byte(`{"data":"QUJD"}`))
	f.Add(byte(postRaw), false, []byte(`"QUJD"`))
	f.Add(byte(postRaw), false, bytes.Repeat([]byte("A"), 172))
	f.Add(byte(postRaw), false, bytes.Repeat([]byte("A"), envelope.MaxBody+1))
	f.Add(byte(postSpoil), false, []byte("AAAA"))
	f.Add(byte(postSpoil), false, []byte{7, ' '})

	service := newService(f, countersigntest.ServiceConfig{})
	genuine := sealedBody(f, service, countersigntest.Deposit(9))
	f.Fuzz(func(t *testing.T, mode byte, withdraw bool, data []byte) {
		acted := 0
		inbox := merchant.NewMemoryInbox()
		c := service.MerchantConfig()
		c.Inbox, c.Timeout, c.BodyTimeout = inbox, patience, patience
		c.OnDeposit = func(context.Context, merchant.Deposit) error { acted++; return nil }
		c.OnPossibleDuplicate, c.Log = c.OnDeposit, slog.New(slog.DiscardHandler)
		c.OnWithdrawal = func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
			acted++
			return merchant.Confirm(w.TenantUserID, countersigntest.Order(1)), nil
		}
		c.OnNotice = func(context.Context, countersign.Callback) error { acted++; return nil }
		h := must(merchant.New(c))(t)
		body := data
		switch mode % postModes {
		case postSeal, postBind:
			plaintext := data
			if mode%postModes == postBind {
				if bound, _, err := countersign.Bind(data, [6]byte{1, 2, 3}); err == nil {
					plaintext = bound
				}
			}
			sealed, err := service.Seal(plaintext)
			if err != nil {
				return // too long or empty
			}
			body = sealed
		case postSpoil:
			body = bytes.Clone(genuine)
			if len(data) > 0 {
				copy(body[int(data[0])*3%len(body):], data[1:])
			}
		}
		path := merchant.DefaultNotifyPath
		if withdraw {
			path = merchant.DefaultWithdrawPath
		}
		r := httptest.NewRequest("POST", path, bytes.NewReader(body))
		r.Header.Set("X-API-KEY", service.CallbackAPIKey().Reveal())
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)

		resp, err := countersign.ParseResponse(rec.Body.Bytes())
		if err != nil || !resp.APIKey.Equal(service.APIKey()) {
			t.Fatalf("status %d with no response: %v", rec.Code, err)
		}
		switch {
		case rec.Code == 200:
		case (rec.Code == 400 || rec.Code == 413) && resp.ErrCode.Class() == countersign.ClassNotUnderstood && resp.Data == "":
		default:
			t.Fatalf("status %d with errCode %d", rec.Code, resp.ErrCode)
		}
		if recorded := inbox.Len(); resp.ErrCode != 0 && acted+recorded > 0 && resp.ErrCode != countersign.CodeInternal {
			t.Errorf("errCode %d, and yet %d acts and %d records", resp.ErrCode, acted, recorded)
		}
		if resp.ErrCode != 0 {
			return
		}
		if acted != 1 || inbox.Len() != 1 {
			t.Errorf("accepted with %d acts and %d records", acted, inbox.Len())
		}
		inner, _, err := envelope.Unwrap(body)
		if err != nil {
			t.Fatalf("accepted a body that does not unwrap: %v", err)
		}
		plaintext, err := envelope.Open(service.MerchantKey(), envelope.PKCS1v15, inner)
		if err != nil {
			t.Fatalf("accepted a body that does not open: %v", err)
		}
		cb, err := countersign.ParseCallback(plaintext, countersign.ParseOptions{})
		if err != nil || countersign.CheckBinding(plaintext) != countersign.BindingHolds {
			t.Fatalf("accepted %q: %v", plaintext, err)
		}
		if withdraw != (cb.CallbackType() == countersign.TypeRequestWithdraw) {
			t.Errorf("accepted type %d on the wrong route", cb.CallbackType())
		}
	})
}
