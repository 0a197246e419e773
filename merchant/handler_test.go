package merchant_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

func TestEveryType(t *testing.T) {
	for _, bits := range []int{1024, 2048} {
		key := pair()
		if bits != 1024 {
			key = mustKey(bits)
		}
		w := newWorld(t, countersigntest.ServiceConfig{Key: key}, nil)
		r := w.deliver(countersigntest.Deposit(1))
		w.accepted(t, r, merchant.ReasonAccepted)
		if a, _ := r.Answer.(countersign.DepositAnswer); a.TxID != countersigntest.Deposit(1).TxID || a.CallBackID != countersign.Null {
			t.Errorf("the answer is %+v", a)
		}
		w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonRepeated)
		if n := w.effects("deposit-1"); n != 1 {
			t.Errorf("%d effects", n)
		}
		r = w.deliver(countersigntest.Withdrawal(4))
		w.accepted(t, r, merchant.ReasonConfirmed)
		if r.Details() != countersigntest.Order(4) {
			t.Errorf("confirmed %+v", r.Details())
		}
		for _, typ := range []countersign.Type{3, 4, 5, 6, 7} {
			r := w.deliver(countersigntest.Notice(typ, 4))
			w.accepted(t, r, merchant.ReasonAccepted)
			if last := w.notices[len(w.notices)-1]; last.CallbackType() != typ || last.UUID() != r.Sent.UUID() {
				t.Errorf("type %d came as %v", typ, last)
			}
		}
		change, ok := w.notices[1].(*countersign.AddressChange)
		if !ok || change.CountingAddress() != change.NewAddress {
			t.Errorf("the address change came as %v", w.notices[1])
		}
	}
}

// TestFormsAndCuts: what peers do differently and mean the same.
func TestFormsAndCuts(t *testing.T) {
	n := 0
	for _, form := range []envelope.BodyForm{envelope.FormBare, envelope.FormField, envelope.FormString, envelope.FormObject} {
		for _, chunk := range []int{0, 100, 37} {
			for _, first := range []bool{false, true} {
				for _, unbound := range []bool{false, true} {
					n++
					w := newWorld(t, countersigntest.ServiceConfig{Form: form, Chunk: chunk, UUIDFirst: first, Unbound: unbound}, nil)
					w.accepted(t, w.deliver(countersigntest.Deposit(n)), merchant.ReasonAccepted)
					w.accepted(t, w.deliver(countersigntest.Deposit(n)), merchant.ReasonRepeated)
				}
			}
		}
	}
}

func TestSchemes(t *testing.T) {
	own := mustKey(1024)
	for _, c := range []struct {
		name            string
		padding, answer envelope.Padding
	}{
		{"merchant", envelope.PKCS1v15, envelope.PKCS1v15},
		{"merchant-oaep", envelope.OAEP, envelope.PKCS1v15},
		{"both OAEP", envelope.OAEP, envelope.OAEP},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, countersigntest.ServiceConfig{
				RequestKey: own.Public(), Padding: c.padding, ResponsePadding: c.answer,
			}, func(mc *merchant.Config) { mc.Key = own })
			w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
			w.accepted(t, w.deliver(countersigntest.Withdrawal(1)), merchant.ReasonConfirmed)

			// One answer to everything that is wrong inside the blocks.
			var first string
			for i, plaintext := range []string{`not json`, `{"type":1}`, `{"a":1,"a":2}`, "\xff"} {
				body := must(w.service.Seal([]byte(plaintext)))(t)
				r := w.service.Post(context.Background(), w.to, merchant.DefaultNotifyPath, body)
				got := fmt.Sprint(r.Status, r.Header, string(r.Raw))
				if i == 0 {
					first = got
				}
				if r.Status != http.StatusBadRequest || got != first {
					t.Errorf("%s is answered with\n%s, and another with\n%s", plaintext, got, first)
				}
			}
			foreign := must(envelope.Seal(pair().Public(), envelope.PKCS1v15, []byte(`{"type":1}`)))(t)
			r := w.service.Post(context.Background(), w.to, merchant.DefaultNotifyPath, foreign)
			if got := fmt.Sprint(r.Status, r.Header, string(r.Raw)); got != first {
				t.Errorf("what does not open is answered with\n%s, and nonsense with\n%s", got, first)
			}
		})
	}
}

func TestServiceFaults(t *testing.T) {
	type end struct {
		status int
		code   countersign.ErrCode
		reason merchant.Reason
	}
	want := map[countersigntest.ServiceFault]end{
		countersigntest.FaultReplayed:    {200, 0, merchant.ReasonRepeated},
		countersigntest.FaultSpliced:     {200, 1002, merchant.ReasonBindingBroken},
		countersigntest.FaultSwapped:     {400, 1002, merchant.ReasonMalformed},
		countersigntest.FaultOldUUID:     {200, 1002, merchant.ReasonBindingBroken},
		countersigntest.FaultCut:         {400, 1002, merchant.ReasonMalformed},
		countersigntest.FaultOtherKey:    {400, 1001, merchant.ReasonNotOpened},
		countersigntest.FaultPlain:       {400, 1001, merchant.ReasonNotOpened},
		countersigntest.FaultSpaces:      {400, 1001, merchant.ReasonNotOpened},
		countersigntest.FaultNoAPIKey:    {401, -1, merchant.ReasonAPIKey},
		countersigntest.FaultWrongAPIKey: {401, -1, merchant.ReasonAPIKey},
		countersigntest.FaultWrongURL:    {200, 1004, merchant.ReasonWrongURL},

		countersigntest.FaultUnsigned:       {200, 1002, merchant.ReasonUnsigned},
		countersigntest.FaultStripped:       {200, 1002, merchant.ReasonUnsigned},
		countersigntest.FaultOtherSigner:    {200, 1002, merchant.ReasonSignatureInvalid},
		countersigntest.FaultAltered:        {200, 1002, merchant.ReasonSignatureInvalid},
		countersigntest.FaultOldSignature:   {200, 1002, merchant.ReasonSignatureOld},
		countersigntest.FaultOtherSignature: {200, 1002, merchant.ReasonSignatureInvalid},
	}
	for _, f := range countersigntest.ServiceFaults {
		t.Run(string(f), func(t *testing.T) {
			var fault countersigntest.ServiceFault
			var sign *envelope.SigningKey // the other faults are those of a service that does not sign, too
			if f.NeedsSigning() {
				sign = envelope.GenerateSigningKey()
			}
			w := newWorld(t, countersigntest.ServiceConfig{
				Sign:  sign,
				Fault: func(int, countersign.Callback) countersigntest.ServiceFault { return fault },
			}, nil)
			before := countersigntest.Deposit(1)
			w.accepted(t, w.deliver(before), merchant.ReasonAccepted)
			fault = f
			d := countersigntest.Deposit(2)
			if f == countersigntest.FaultSpliced {
				// The same lengths, so that the rest fits: the amount is in it.
				d.TrackingID, d.TenantUserID = "deposit-2", before.TenantUserID
			}
			r := w.deliver(d)
			if e, ok := want[f]; ok {
				if f == countersigntest.FaultReplayed {
					if r.Status != 200 || w.last().Reason != e.reason {
						t.Errorf("a replay is answered with %d, %q", r.Status, w.last().Reason)
					}
				} else {
					w.refused(t, r, e.status, e.code, e.reason)
				}
				if w.effects("deposit-2") != 0 || w.total() != 1 {
					t.Error("it had an effect")
				}
				if n := w.inbox.(*merchant.MemoryInbox).Len(); n != 1 {
					t.Errorf("%d callbacks are recorded", n)
				}
			}
			// Whatever happened, the honest attempt after it comes to the end.
			fault = countersigntest.NoServiceFault
			if r := w.deliver(d); r.Err != nil {
				t.Errorf("the next attempt: %v", r.Err)
			}
			if n := w.effects("deposit-2"); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

func TestStrangers(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	body := sealedBody(t, w.service, countersigntest.Deposit(1))
	for _, c := range []struct {
		name, method, path string
		keys               []string
		status             int
	}{
		{"GET", "GET", merchant.DefaultNotifyPath, nil, 405},
		{"PUT", "PUT", merchant.DefaultNotifyPath, []string{w.service.CallbackAPIKey().Reveal()}, 405},
		{"HEAD", "HEAD", merchant.DefaultWithdrawPath, nil, 405},
		{"OPTIONS", "OPTIONS", merchant.DefaultWithdrawPath, nil, 405},
		{"no key", "POST", merchant.DefaultNotifyPath, nil, 401},
		{"empty key", "POST", merchant.DefaultNotifyPath, []string{""}, 401},
		{"the key of responses", "POST", merchant.DefaultNotifyPath, []string{w.service.APIKey().Reveal()}, 401},
		{"half a key", "POST", merchant.DefaultNotifyPath, []string{w.service.CallbackAPIKey().Reveal()[:10]}, 401},
		{"two headers", "POST", merchant.DefaultNotifyPath, []string{w.service.CallbackAPIKey().Reveal(), "x"}, 401},
		{"another path", "POST", "/callbacks", []string{w.service.CallbackAPIKey().Reveal()}, 404},
		{"below the path", "POST", merchant.DefaultNotifyPath + "/", []string{w.service.CallbackAPIKey().Reveal()}, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.path, strings.NewReader(string(body)))
			for _, k := range c.keys {
				r.Header.Add("X-API-KEY", k)
			}
			rec := httptest.NewRecorder()
			w.handler.ServeHTTP(rec, r)
			if rec.Code != c.status {
				t.Errorf("status %d, want %d", rec.Code, c.status)
			}
			if strings.Contains(rec.Body.String(), w.service.APIKey().Reveal()) {
				t.Error("a stranger is told the apiKey")
			}
			if c.status == 405 && rec.Header().Get("Allow") != "POST" {
				t.Error("no Allow header")
			}
		})
	}
	if w.total() != 0 || w.inbox.(*merchant.MemoryInbox).Len() != 0 {
		t.Error("a stranger had an effect")
	}
}

func TestTwoCallbackAPIKeys(t *testing.T) {
	old := newService(t, countersigntest.ServiceConfig{})
	w := newWorld(t, countersigntest.ServiceConfig{APIKey: old.APIKey()}, func(c *merchant.Config) {
		c.CallbackAPIKeys = append(c.CallbackAPIKeys, old.CallbackAPIKey())
	})
	w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
	r := old.Deliver(context.Background(), w.to, countersigntest.Deposit(2))
	w.accepted(t, r, merchant.ReasonAccepted)
	third := newService(t, countersigntest.ServiceConfig{APIKey: old.APIKey()})
	w.refused(t, third.Deliver(context.Background(), w.to, countersigntest.Deposit(3)), 401, -1, merchant.ReasonAPIKey)
	open := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) { c.CallbackAPIKeys = nil })
	r = open.service.Deliver(context.Background(), open.to, countersigntest.Deposit(3))
	open.accepted(t, r, merchant.ReasonAccepted)
}

func TestMessages(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	uuid := "7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"
	for _, c := range []struct {
		name, plaintext string
		status          int
		code            countersign.ErrCode
		reason          merchant.Reason
		says            string // the message of the answer
	}{
		{"no object", `[]`, 400, 1002, merchant.ReasonMalformed, "object"},
		{"member twice", `{"type":1,"type":2}`, 400, 1002, merchant.ReasonMalformed, `"type"`},
		{"type missing", `{"requestUUID":"` + uuid + `"}`, 400, 1002, merchant.ReasonMalformed, `member "type" is missing`},
		{"type 0", `{"type":0,"requestUUID":"` + uuid + `"}`, 200, 1003, merchant.ReasonUnknownType, "type"},
		{"type unknown", fmt.Sprintf(`{"type":%d,"requestUUID":"`+uuid+`"}`, len(countersign.TypeUnknown.Values())+1), 200, 1003, merchant.ReasonUnknownType, "type"},
		{"deposit without members", `{"type":1,"requestUUID":"` + uuid + `"}`, 400, 1002, merchant.ReasonMalformed, "is missing"},
		{"amount with a sign", `{"type":1,"trackingId":"t","tenantUserId":"u","txId":"x","chainName":"ETH","symbol":"USDT","amount":"-2.5","fromAddress":"","toAddress":"a","newAddress":"","txIndex":0,"riskLevelFrom":0,"riskLevelTo":0,"business":0,"requestUUID":"` + uuid + `"}`,
			400, 1002, merchant.ReasonMalformed, `member "amount"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := must(w.service.Seal([]byte(c.plaintext)))(t)
			r := w.service.Post(context.Background(), w.to, merchant.DefaultNotifyPath, body)
			r.Response, _ = countersign.ParseResponse(r.Raw)
			w.refused(t, r, c.status, c.code, c.reason)
			if !strings.Contains(r.Response.Message, c.says) || strings.Contains(r.Response.Message, "2.5") {
				t.Errorf("it is told %q, want %q in it", r.Response.Message, c.says)
			}
		})
	}
	if w.total() != 0 || w.inbox.(*merchant.MemoryInbox).Len() != 0 {
		t.Error("it had an effect")
	}
}

func TestLenient(t *testing.T) {
	plaintext := `{"type":1,"trackingId":"t","tenantUserId":"u","txId":"x","chainName":"ETH","symbol":"USDT",` +
		`"amount":2.5,"toAddress":"a","requestUUID":"7c0f1b52-9f0e-4a53-9d4b-4a1c2b7d9e10"}`
	for _, lenient := range []bool{false, true} {
		w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
			c.Profile.Lenient, c.Profile.Binding = lenient, merchant.BindingOff
		})
		body := must(w.service.Seal([]byte(plaintext)))(t)
		r := w.service.Post(context.Background(), w.to, merchant.DefaultNotifyPath, body)
		status, effects := http.StatusBadRequest, 0
		if lenient {
			status, effects = http.StatusOK, 1
		}
		if r.Status != status || w.effects("t") != effects {
			t.Errorf("lenient %v: status %d, %d effects", lenient, r.Status, w.effects("t"))
		}
	}
}

// TestBinding is the matrix of what a service does and what a merchant demands.
func TestBinding(t *testing.T) {
	for _, c := range []struct {
		binding         merchant.Binding
		unbound, broken bool
		reason          merchant.Reason
	}{
		{merchant.BindingRequired, false, false, merchant.ReasonAccepted},
		{merchant.BindingRequired, true, false, merchant.ReasonNotBound},
		{merchant.BindingRequired, false, true, merchant.ReasonBindingBroken},
		{merchant.BindingWhenPresent, false, false, merchant.ReasonAccepted},
		{merchant.BindingWhenPresent, true, false, merchant.ReasonAccepted},
		{merchant.BindingWhenPresent, false, true, merchant.ReasonBindingBroken},
		{merchant.BindingOff, false, false, merchant.ReasonAccepted},
		{merchant.BindingOff, true, false, merchant.ReasonAccepted},
		{merchant.BindingOff, false, true, merchant.ReasonAccepted},
	} {
		t.Run(fmt.Sprintf("%v unbound=%v broken=%v", c.binding, c.unbound, c.broken), func(t *testing.T) {
			w := newWorld(t, countersigntest.ServiceConfig{Unbound: c.unbound}, func(mc *merchant.Config) { mc.Profile.Binding = c.binding })
			plaintext, _, err := w.service.Plaintext(countersigntest.Deposit(1))
			ok(t, err)
			if c.broken {
				plaintext = []byte(strings.Replace(string(plaintext), `"tenantUserId":"6`, `"tenantUserId":"7`, 1))
			}
			body := must(w.service.Seal(plaintext))(t)
			w.service.Post(context.Background(), w.to, merchant.DefaultNotifyPath, body)
			if got := w.last().Reason; got != c.reason {
				t.Errorf("reason %q, want %q", got, c.reason)
			}
			if got, want := w.effects("deposit-1") == 1, c.reason == merchant.ReasonAccepted; got != want {
				t.Errorf("effect %v, want %v", got, want)
			}
		})
	}
	for _, b := range []merchant.Binding{merchant.BindingOff, merchant.BindingWhenPresent, merchant.BindingRequired} {
		if got, err := merchant.ParseBinding(b.String()); err != nil || got != b {
			t.Errorf("%v parses as %v, %v", b, got, err)
		}
	}
	if _, err := merchant.ParseBinding("sometimes"); err == nil {
		t.Error("any word is a Binding")
	}
}

// TestFirstBlock splices two genuine callbacks of a service that does not bind
// and puts its requestUUID first: with the first-block rule alone.
func TestFirstBlock(t *testing.T) {
	for _, chunk := range []int{0, 90} {
		w := newWorld(t, countersigntest.ServiceConfig{Unbound: true, UUIDFirst: true, Chunk: chunk}, nil)
		small, big := countersigntest.Deposit(1), countersigntest.Deposit(2)
		big.Amount, _ = countersign.ParseAmount("9.99")
		first := w.deliver(small)
		w.accepted(t, first, merchant.ReasonAccepted)
		second := w.deliver(big)
		w.accepted(t, second, merchant.ReasonAccepted)

		spliced := must(countersigntest.Splice(first.Body, second.Body, 2, pair().Size()))(t)
		r := w.service.Post(context.Background(), w.to, merchant.DefaultNotifyPath, spliced)
		r.Response, _ = countersign.ParseResponse(r.Raw)
		w.refused(t, r, 200, 1002, merchant.ReasonSpliced)
		if n := w.inbox.(*merchant.MemoryInbox).Len(); n != 2 || w.total() != 2 {
			t.Errorf("%d callbacks recorded, %d effects", n, w.total())
		}
		// The very same request once more is a repetition, in whichever spelling.
		again := append([]byte("\r\n"), first.Body...)
		w.service.Post(context.Background(), w.to, merchant.DefaultNotifyPath, again)
		if got := w.last().Reason; got != merchant.ReasonRepeated {
			t.Errorf("the same request again: %q", got)
		}
	}
}

// TestFirstBlockElsewhere: where the requestUUID is not whole in the first block,
// attempts share first blocks and none may be refused for that.
func TestFirstBlockElsewhere(t *testing.T) {
	for _, c := range []countersigntest.ServiceConfig{
		{Unbound: true},
		{Unbound: true, UUIDFirst: true, Chunk: 16},
		{Unbound: true, UUIDFirst: true, Chunk: 50},
	} {
		w := newWorld(t, c, nil)
		w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
		for range 3 {
			w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonRepeated)
		}
	}
}

func TestOtherContent(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
	for name, change := range map[string]func(*countersign.Deposit){
		"amount":       func(d *countersign.Deposit) { d.Amount, _ = countersign.ParseAmount("999") },
		"tenantUserId": func(d *countersign.Deposit) { d.TenantUserID = "other" },
		"txId":         func(d *countersign.Deposit) { d.TxID = "other" },
		"symbol":       func(d *countersign.Deposit) { d.Symbol = "other" },
		"chainName":    func(d *countersign.Deposit) { d.ChainName = "other" },
		"toAddress":    func(d *countersign.Deposit) { d.ToAddress = "other" },
	} {
		d := countersigntest.Deposit(1)
		change(d)
		t.Run(name, func(t *testing.T) {
			w.refused(t, w.deliver(d), 200, countersign.CodeDetailsDiffer, merchant.ReasonOtherContent)
		})
	}
	for name, change := range map[string]func(*countersign.Deposit){
		"amount":    func(d *countersign.Deposit) { d.Amount, _ = countersign.ParseAmount(d.Amount.String() + "000") },
		"case":      func(d *countersign.Deposit) { d.ToAddress = "0x" + strings.ToUpper(d.ToAddress[2:]) },
		"riskLevel": func(d *countersign.Deposit) { d.RiskLevelFrom = 99 },
		"business":  func(d *countersign.Deposit) { d.Business = 7 },
		"extra":     func(d *countersign.Deposit) { d.Extra = countersign.Members{{Name: "sentAt", Value: "1"}} },
	} {
		d := countersigntest.Deposit(1)
		change(d)
		t.Run("same "+name, func(t *testing.T) { w.accepted(t, w.deliver(d), merchant.ReasonRepeated) })
	}
	if w.effects("deposit-1") != 1 {
		t.Errorf("%d effects", w.effects("deposit-1"))
	}
	// A second withdrawal under a callBackId that was used.
	w.accepted(t, w.deliver(countersigntest.Withdrawal(1)), merchant.ReasonConfirmed)
	second := countersigntest.Withdrawal(1)
	second.TrackingID = "another withdrawal"
	other := w.deliver(second)
	w.refused(t, other, 200, countersign.CodeDetailsDiffer, merchant.ReasonOtherContent)
	if !strings.Contains(other.Response.Message, "other content") {
		t.Errorf("it is told %q", other.Response.Message)
	}
}

func TestPossibleDuplicate(t *testing.T) {
	again := func() *countersign.Deposit {
		d := countersigntest.Deposit(1)
		d.TrackingID, d.TxIndex = "told again", -1
		return d
	}
	t.Run("function", func(t *testing.T) {
		w := newWorld(t, countersigntest.ServiceConfig{}, nil)
		w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
		w.accepted(t, w.deliver(again()), merchant.ReasonPossibleDuplicate)
		w.accepted(t, w.deliver(again()), merchant.ReasonRepeated)
		if w.effects("told again") != 0 || w.suspects["told again"] != 1 {
			t.Errorf("credited %d times, suspected %d times", w.effects("told again"), w.suspects["told again"])
		}
	})
	t.Run("recording only", func(t *testing.T) {
		w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) { c.OnDeposit, c.OnPossibleDuplicate = nil, nil })
		w.accepted(t, w.deliver(countersigntest.Deposit(1)), merchant.ReasonAccepted)
		w.accepted(t, w.deliver(again()), merchant.ReasonPossibleDuplicate)
		w.accepted(t, w.deliver(again()), merchant.ReasonRepeated)
	})
}

// TestSpellingIsSuspected: a deposit that was taken, told under another name and
// in another spelling, is not credited again.
func TestSpellingIsSuspected(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	first := countersigntest.Deposit(1)
	w.accepted(t, w.deliver(first), merchant.ReasonAccepted)
	for name, spell := range map[string]func(*countersign.Deposit){
		"tx in upper case": func(d *countersign.Deposit) { d.TxID = strings.ToUpper(d.TxID) },
		"tx without 0x":    func(d *countersign.Deposit) { d.TxID = strings.TrimPrefix(d.TxID, "0x") },
		"chain":            func(d *countersign.Deposit) { d.ChainName = strings.ToLower(d.ChainName) },
		"chain and space":  func(d *countersign.Deposit) { d.ChainName += " " },
		"symbol":           func(d *countersign.Deposit) { d.Symbol = strings.ToLower(d.Symbol) },
		"address":          func(d *countersign.Deposit) { d.ToAddress = strings.Replace(d.ToAddress, "0x", "0X", 1) },
		"address and case": func(d *countersign.Deposit) { d.ToAddress = strings.ToLower(d.ToAddress) },
	} {
		d := countersigntest.Deposit(1)
		d.TrackingID = name
		spell(d)
		w.accepted(t, w.deliver(d), merchant.ReasonPossibleDuplicate)
		if w.effects(name) != 0 {
			t.Errorf("%s: credited", name)
		}
		// The identifier keeps its spelling: this is no repetition.
		d.TrackingID = first.TrackingID
		if d.TxID != first.TxID {
			w.refused(t, w.deliver(d), 200, countersign.CodeDetailsDiffer, merchant.ReasonOtherContent)
		}
	}
}

// TestAddressChangeEachTime: without a trackingId nothing says that two
// attempts are one change, and A to B may come again after B to A.
func TestAddressChangeEachTime(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	r := w.deliver(countersigntest.Notice(countersign.TypeAddress, 1))
	w.accepted(t, r, merchant.ReasonAccepted)
	w.accepted(t, w.deliver(countersigntest.Notice(countersign.TypeAddress, 1)), merchant.ReasonAccepted)
	w.service.Post(context.Background(), w.to, merchant.DefaultNotifyPath, r.Body)
	if got := w.last().Reason; got != merchant.ReasonRepeated {
		t.Errorf("the same request again: %q", got)
	}
	if len(w.notices) != 2 {
		t.Errorf("%d changes", len(w.notices))
	}
}

// TestLongMembers: a deposit whose members would not all fit back into a
// response is taken and answered in short; a confirmation that cannot be sent is none.
func TestLongMembers(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	d := countersigntest.Deposit(1)
	d.Extra = countersign.Members{{Name: "memo", Value: countersign.Raw(`"` + strings.Repeat("m", 30_000) + `"`)}}
	w.accepted(t, w.deliver(d), merchant.ReasonAccepted)
	d = countersigntest.Deposit(2)
	d.FromAddress = strings.Repeat("f", 44_400)
	r := w.deliver(d)
	w.accepted(t, r, merchant.ReasonAccepted)
	if a, is := r.Answer.(countersign.DepositAnswer); !is || a.FromAddress != "" {
		t.Error("the long member was said back, so this test tests nothing")
	}
	long := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) {
		c.OnWithdrawal = func(_ context.Context, r countersign.WithdrawalRequest) (merchant.Answer, error) {
			order := countersigntest.Order(3)
			order.Address = strings.Repeat("a", 44_500)
			return merchant.Confirm(r.TenantUserID, order), nil
		}
	})
	long.refused(t, long.deliver(countersigntest.Withdrawal(3)), 200, countersign.CodeInternal, merchant.ReasonUnanswerable)
}

func TestMounting(t *testing.T) {
	w := newWorld(t, countersigntest.ServiceConfig{}, nil)
	mux := http.NewServeMux()
	mux.Handle("POST /in/notify", w.handler.NotifyHandler())
	mux.Handle("POST /in/withdraw", w.handler.WithdrawHandler())
	server := httptest.NewServer(mux)
	defer server.Close()
	to := countersigntest.ToURLs(server.URL+"/in/notify", server.URL+"/in/withdraw", server.Client())
	for _, cb := range []countersign.Callback{countersigntest.Deposit(1), countersigntest.Withdrawal(1),
		countersigntest.Notice(countersign.TypeWithdraw, 1)} {
		if r := w.service.Deliver(context.Background(), to, cb); r.Err != nil {
			t.Errorf("%v: %v", cb.CallbackType(), r.Err)
		}
	}
	server.Client().CloseIdleConnections()
}

func TestNew(t *testing.T) {
	service := newService(t, countersigntest.ServiceConfig{})
	for name, change := range map[string]func(*merchant.Config){
		"no key":                   func(c *merchant.Config) { c.Key = nil },
		"zero key":                 func(c *merchant.Config) { c.Key = &envelope.Key{} },
		"no apiKey":                func(c *merchant.Config) { c.APIKey = "" },
		"empty callback key":       func(c *merchant.Config) { c.CallbackAPIKeys = []countersign.APIKey{""} },
		"same paths":               func(c *merchant.Config) { c.WithdrawPath = merchant.DefaultNotifyPath },
		"path without slash":       func(c *merchant.Config) { c.NotifyPath = "notify" },
		"private key, no response": func(c *merchant.Config) { c.Key, c.ResponseKey = pair(), nil },
		"private response key":     func(c *merchant.Config) { c.ResponseKey = pair() },
		"OAEP with a public key":   func(c *merchant.Config) { c.Padding = envelope.OAEP },
		"unknown padding":          func(c *merchant.Config) { c.Padding = 9 },
		"unknown response padding": func(c *merchant.Config) { c.ResponsePadding = 9 },
		"unknown binding":          func(c *merchant.Config) { c.Profile.Binding = 9 },
		"unknown hold":             func(c *merchant.Config) { c.Profile.Hold = 9 },
		"wait too long":            func(c *merchant.Config) { c.Profile.Wait = 2 * time.Minute },
		"no name of a header":      func(c *merchant.Config) { c.Profile.Header = "X API" },
		"no name of a field":       func(c *merchant.Config) { c.Profile.BodyField = "a=b" },
		"negative waiting":         func(c *merchant.Config) { c.Profile.MaxWaiting = -1 },
		"negative bound":           func(c *merchant.Config) { c.MaxOpening = -1 },
		"negative queue":           func(c *merchant.Config) { c.MaxWaitingBlocks = -1 },
		"negative time-out":        func(c *merchant.Config) { c.Timeout = -1 },
		"no inbox":                 func(c *merchant.Config) { c.Inbox = nil },
		"nobody decides on possible duplicates": func(c *merchant.Config) {
			c.OnDeposit = func(context.Context, merchant.Deposit) error { return nil }
		},
		"private key, no callback key": func(c *merchant.Config) { c.Key, c.CallbackAPIKeys = pair(), nil },
		"body beyond the protocol":     func(c *merchant.Config) { c.MaxBody = envelope.MaxBody + 1 },
	} {
		c := service.MerchantConfig()
		c.Inbox = merchant.NewMemoryInbox()
		must(merchant.New(c))(t)
		change(&c)
		if _, err := merchant.New(c); !errors.Is(err, merchant.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), service.APIKey().Reveal()) {
			t.Errorf("%s: the error has the apiKey", name)
		}
	}
}
