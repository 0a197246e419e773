package merchant_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"testing"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// TestProfileCodes: the provider is told its own codes, and what stands is kept
// under this project's, so that another profile tells it otherwise.
func TestProfileCodes(t *testing.T) {
	held := true
	inbox := merchant.NewMemoryInbox()
	world := func(p merchant.Profile) *world {
		return newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
			c.Profile, c.Inbox = p, inbox
			c.OnWithdrawal = func(_ context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
				switch {
				case w.CallBackID == countersigntest.Withdrawal(2).CallBackID:
					return merchant.Refuse(77, "a code of its own"), nil
				case w.CallBackID == countersigntest.Withdrawal(3).CallBackID:
					return merchant.Answer{}, errors.New("broken")
				case held:
					return merchant.Hold(countersign.CodeNotKnownYet, ""), nil
				}
				return merchant.Refuse(countersign.CodeUnknownOrder, ""), nil
			}
		})
	}
	own := world(merchant.Profile{HoldCode: 42, RefuseCode: -7, RetryCode: 500})
	own.refused(t, own.deliver(countersigntest.Withdrawal(1)), http.StatusOK, 42, merchant.ReasonHold)
	own.refused(t, own.deliver(countersigntest.Withdrawal(2)), http.StatusOK, 77, merchant.ReasonRefused)
	own.refused(t, own.deliver(countersigntest.Withdrawal(3)), http.StatusOK, 500, merchant.ReasonFailed)
	held = false
	own.refused(t, own.deliver(countersigntest.Withdrawal(1)), http.StatusOK, -7, merchant.ReasonRefused)
	own.refused(t, own.deliver(countersigntest.Withdrawal(1)), http.StatusOK, -7, merchant.ReasonRepeated)
	r := own.service.Post(context.Background(), own.to, merchant.DefaultNotifyPath, []byte("bm90IHNlYWxlZA=="))
	r.Response, _ = countersign.ParseResponse(r.Raw)
	own.refused(t, r, http.StatusBadRequest, 500, merchant.ReasonNotOpened)

	ours := world(merchant.Profile{})
	ours.refused(t, ours.deliver(countersigntest.Withdrawal(1)), http.StatusOK, countersign.CodeUnknownOrder, merchant.ReasonRepeated)
}

// TestProfileWire: the header and the field that the provider uses.
func TestProfileWire(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.Profile = merchant.Profile{Header: "Provider-Key", BodyField: "payload"}
	})
	plaintext, _, err := w.service.Plaintext(countersigntest.Deposit(1))
	ok(t, err)
	body := must(w.service.Seal(plaintext))(t)
	post := func(header, body string) *merchant.Observation {
		r := must(http.NewRequest(http.MethodPost, merchant.DefaultNotifyPath, bytes.NewReader([]byte(body))))(t)
		r.Header.Set(header, w.service.CallbackAPIKey().Reveal())
		w.handler.ServeHTTP(&discard{}, r)
		o := w.last()
		return &o
	}
	if got := post("X-API-KEY", string(body)).Reason; got != merchant.ReasonAPIKey {
		t.Errorf("with the usual header: %q", got)
	}
	if got := post("Provider-Key", `{"data":"`+string(body)+`"}`).Reason; got != merchant.ReasonNotOpened {
		t.Errorf("with the usual member: %q", got)
	}
	if got := post("Provider-Key", `{"payload":"`+string(body)+`","data":1}`).Reason; got != merchant.ReasonAccepted {
		t.Errorf("as the profile says: %q", got)
	}
	if got := post("Provider-Key", string(body)).Reason; got != merchant.ReasonRepeated {
		t.Errorf("bare: %q", got)
	}
	if _, form, err := envelope.UnwrapField([]byte("payload=QUJD"), "payload"); err != nil || form != envelope.FormField {
		t.Errorf("a form field: %v, %v", form, err)
	}
}

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
