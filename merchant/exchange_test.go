package merchant_test

import (
	"context"
	"errors"
	"testing"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// TestOnAnswer: what confirms or refuses is told before it is sent, each time, and an
// answer that could not be kept is not given. A hold is not told.
func TestOnAnswer(t *testing.T) {
	var told []merchant.Exchange
	var fails error
	answer := merchant.Hold(countersign.CodeAwaitingApproval, "")
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.OnWithdrawal = func(context.Context, countersign.WithdrawalRequest) (merchant.Answer, error) { return answer, nil }
		c.OnAnswer = func(_ context.Context, e merchant.Exchange) error {
			e.Request, e.RequestOpened = append([]byte(nil), e.Request...), append([]byte(nil), e.RequestOpened...)
			told = append(told, e)
			return fails
		}
	})
	ask := func(n int) countersigntest.Result {
		return w.service.Deliver(t.Context(), w.to, countersigntest.Withdrawal(n))
	}
	if r := ask(1); r.Code() != countersign.CodeAwaitingApproval || len(told) != 0 {
		t.Fatalf("held with %d, told %d times", r.Code(), len(told))
	}
	q, order := countersigntest.Withdrawal(1), countersigntest.Order(1)
	answer, fails = merchant.Confirm(q.TenantUserID, order), errors.New("the disk says no")
	if r := ask(1); r.Code() != countersign.CodeInternal || len(told) != 1 {
		t.Fatalf("not kept: %d, told %d times", r.Code(), len(told))
	}
	fails = nil
	if r := ask(1); r.Err != nil || len(told) != 2 {
		t.Fatalf("kept: %v, told %d times", r.Err, len(told))
	}
	e := told[1]
	opened, err := envelope.Open(w.service.MerchantKey(), envelope.PKCS1v15, e.Request)
	if err != nil || string(opened) != string(e.RequestOpened) || e.Question.CallBackID != q.CallBackID || e.Code != 0 {
		t.Errorf("told of %+v, %v", e, err)
	}
	opened, err = envelope.Open(pair(), envelope.PKCS1v15, []byte(e.Data))
	if err != nil || string(opened) != string(e.DataOpened) {
		t.Errorf("the answer opens to %s, told as %s, %v", opened, e.DataOpened, err)
	}
	answer = merchant.Refuse(countersign.CodeRefusedPerson, "")
	if r := ask(2); r.Code() != countersign.CodeRefusedPerson || len(told) != 3 || told[2].Code != countersign.CodeRefusedPerson || told[2].Data != "" {
		t.Errorf("refused with %d, told %+v", r.Code(), told)
	}
}
