package conformance_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/conformance"
	"countersign/countersigntest"
	"countersign/envelope"
)

// callMerchant returns a Caller and the merchant that it calls. c and m may be changed before.
func callMerchant(t *testing.T, change func(*conformance.Config, *countersigntest.MerchantConfig)) (*conformance.Checker, *countersigntest.Merchant) {
	t.Helper()
	service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	c := conformance.Config{Key: testKey(), APIKey: testAPIKey, CallbackAPIKey: testCallbackKey, Sign: service, AnswerKey: own.Public()}
	mc := countersigntest.MerchantConfig{Key: testKey().Public(), APIKey: testAPIKey, CallbackAPIKey: testCallbackKey, Orders: countersigntest.SampleOrders, Sign: own, ServiceSigner: service.Public()}
	if change != nil {
		change(&c, &mc)
	}
	m := must(countersigntest.StartMerchant(mc))(t)
	t.Cleanup(m.Close)
	c.NotifyURL, c.WithdrawURL = m.NotifyURL(), m.WithdrawURL()
	return must(conformance.New(c))(t), m
}

func send(t *testing.T, c *conformance.Checker, typ countersign.Type, f countersigntest.ServiceFault, set ...countersign.Member) conformance.Sent {
	t.Helper()
	m := must(c.Message(typ, nil, set))(t)
	sent, err := c.Send(context.Background(), typ, m, f)
	if err != nil {
		t.Fatalf("type %d, %q: %v", typ, f, err)
	}
	asJSON := must(json.Marshal(sent))(t)
	for _, secret := range []string{testAPIKey, testCallbackKey, testKey().PublicBase64()} {
		if strings.Contains(sent.String()+string(asJSON), secret) {
			t.Errorf("a secret is told:\n%s", sent)
		}
	}
	return sent
}

// TestCallerTypes: an honest merchant accepts every type, as both kinds of service send it.
func TestCallerTypes(t *testing.T) {
	for _, other := range []bool{false, true} {
		c, m := callMerchant(t, func(c *conformance.Config, m *countersigntest.MerchantConfig) { c.Other, m.Unbound = other, other })
		for _, typ := range countersign.TypeUnknown.Values() {
			sent := send(t, c, typ, countersigntest.NoServiceFault)
			if !sent.Accepted() || sent.Problem != "" || len(sent.Exchanges) != 1 {
				t.Errorf("other %v, type %d:\n%s", other, typ, sent)
			}
			if typ == countersign.TypeRequestWithdraw && (sent.Confirmed == nil || sent.Confirmed.Amount != countersigntest.Order(1).Amount) {
				t.Errorf("confirmed %+v", sent.Confirmed)
			}
		}
		if n := len(m.Received()); n != 7 {
			t.Errorf("%d callbacks were received", n)
		}
	}
}

// TestCallerFaults: what must be refused is, and is said to be right; everything else is accepted.
func TestCallerFaults(t *testing.T) {
	for _, f := range countersigntest.ServiceFaults {
		c, _ := callMerchant(t, nil)
		if f.About() == "" {
			t.Errorf("%s does not say what it does", f)
		}
		sent := send(t, c, countersign.TypeDeposited, f)
		if sent.Accepted() == f.Refused() || sent.Problem != "" || f.Refused() != (len(sent.Notes) == 1 && strings.Contains(sent.Notes[0], "right")) {
			t.Errorf("%s:\n%s", f, sent)
		}
	}
}

// TestCallerFindsTakers: a merchant that takes what it must refuse is told so.
func TestCallerFindsTakers(t *testing.T) {
	c, _ := callMerchant(t, func(_ *conformance.Config, m *countersigntest.MerchantConfig) {
		m.Unbound, m.CallbackAPIKey, m.ServiceSigner = true, "", nil
	})
	for _, f := range []countersigntest.ServiceFault{countersigntest.FaultUnsigned, countersigntest.FaultOtherSigner, countersigntest.FaultAltered, countersigntest.FaultOldUUID, countersigntest.FaultSpliced, countersigntest.FaultNoAPIKey, countersigntest.FaultWrongAPIKey} {
		sent := send(t, c, countersign.TypeDeposited, f)
		if !strings.Contains(sent.Problem, "must be refused") || sent.Fix == "" {
			t.Errorf("%s:\n%s", f, sent)
		}
	}
}

// TestCallerJudges: what a service makes of each fault of a response, and that the words of the
// cases say what to mend.
func TestCallerJudges(t *testing.T) {
	want := map[countersigntest.MerchantFault]client.AttemptResult{
		countersigntest.FaultHold: client.AttemptHold, countersigntest.FaultRefuse: client.AttemptRefused,
	}
	for _, f := range countersigntest.MerchantFaults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			c, _ := callMerchant(t, func(c *conformance.Config, m *countersigntest.MerchantConfig) {
				m.Fault = func(int, countersign.Callback) countersigntest.MerchantFault { return f }
				c.Ordered = true // more members in small blocks no longer show that the details belong together
				switch f {
				case countersigntest.FaultHang, countersigntest.FaultTrickle, countersigntest.FaultAnswersLate:
					c.Timeout = 200 * time.Millisecond // they fail however long it is
				}
			})
			for _, typ := range []countersign.Type{countersign.TypeDeposited, countersign.TypeRequestWithdraw} {
				sent := send(t, c, typ, countersigntest.NoServiceFault)
				result := want[f]
				if result == "" {
					result = client.AttemptRetry
				}
				if f.Tolerated() || f == countersigntest.FaultNoAmount && typ == 1 || f == countersigntest.FaultDetailsDiffer && typ == 2 {
					result = client.AttemptAccepted // the last two: a deposit's answer may lack it, and this service does not know the order
				}
				if f == countersigntest.FaultHang && (sent.Fix != client.ReasonTimeout.Do() || !strings.Contains(sent.Problem, "within 200ms")) ||
					sent.Result != result || sent.Accepted() != (sent.Problem == "") || !sent.Accepted() && sent.Fix == "" {
					t.Errorf("type %d: %s, want %s\n%s", typ, sent.Result, result, sent)
				}
			}
		})
	}
}

// TestOnlyTheRequestUUIDIsBound: a zero address, which a mint comes from, stays as it is, and so do
// zeros in any other member.
func TestOnlyTheRequestUUIDIsBound(t *testing.T) {
	const zero = "0x0000000000000000000000000000000000000000"
	c, m := callMerchant(t, nil)
	sent := send(t, c, 1, countersigntest.NoServiceFault, countersign.Member{Name: "fromAddress", Value: `"` + zero + `"`},
		countersign.Member{Name: "txId", Value: `"` + countersign.UnboundUUID + `"`}, countersign.Member{Name: "memo", Value: `{"requestUUID":"` + countersign.UnboundUUID + `"}`})
	if !sent.Accepted() {
		t.Fatalf("%s", sent)
	}
	d := m.Received()[0].(*countersign.Deposit)
	if d.FromAddress != zero || d.TxID != countersign.UnboundUUID || d.RequestUUID == countersign.UnboundUUID {
		t.Errorf("%+v", d)
	}
}

// TestCallerMessage: members are set, left out, and sent as they are written.
func TestCallerMessage(t *testing.T) {
	c, m := callMerchant(t, func(c *conformance.Config, m *countersigntest.MerchantConfig) { c.Other, m.Unbound = true, true })
	given := []byte(`{"type":1,"trackingId":"d-1","tenantUserId":65515,"amount":1E-7,"symbol":"A","chainName":"B","toAddress":"C","txId":"D"}`)
	message := must(c.Message(1, given, []countersign.Member{{Name: "txId", Value: `"E"`}, {Name: "riskLevelTo", Value: ""}, {Name: "memo", Value: `{"a":1}`}}))(t)
	want := `{"type":1,"trackingId":"d-1","tenantUserId":65515,"amount":1E-7,"symbol":"A","chainName":"B","toAddress":"C","txId":"E","memo":{"a":1},"requestUUID":"` + countersign.UnboundUUID + `"}`
	if string(message) != want {
		t.Errorf("%s", message)
	}
	sent, err := c.Send(context.Background(), 1, message, countersigntest.NoServiceFault)
	if err != nil || !sent.Accepted() || !strings.Contains(sent.Exchanges[0].Answer, `"amount":1E-7`) {
		t.Errorf("%v\n%s", err, sent)
	}
	if d := m.Received()[0].(*countersign.Deposit); d.Amount.String() != "0.0000001" || d.TenantUserID != "65515" {
		t.Errorf("%+v", d)
	}
	for _, bad := range []string{"", "[]", "{", `{"a":1}x`, `{"a"}`, `"a"`} {
		if _, err := c.Message(1, []byte(bad), nil); err == nil {
			t.Errorf("%q is a message", bad)
		}
	}
	wrong := send(t, c, 1, countersigntest.NoServiceFault, countersign.Member{Name: "amount", Value: `"-1"`})
	if wrong.Accepted() || len(wrong.Notes) == 0 || !strings.Contains(wrong.Notes[0], "amount") {
		t.Errorf("%s", wrong)
	}
	fixed := send(t, c, 1, countersigntest.NoServiceFault, countersign.Member{Name: "requestUUID", Value: `"0b9f5d0e-41a7-4c3c-9a57-5b1c2a7d9e10"`})
	if !fixed.Accepted() || !strings.Contains(fixed.Exchanges[0].Plaintext, "5b1c2a7d9e10") {
		t.Errorf("%s", fixed)
	}
}

// TestCallerField: a body in a field, and an API key in a header, of other names.
func TestCallerField(t *testing.T) {
	m := must(countersigntest.StartMerchant(countersigntest.MerchantConfig{Key: testKey().Public(), APIKey: testAPIKey, CallbackAPIKey: testCallbackKey, APIKeyHeader: "X-Other", BodyField: "payload"}))(t)
	t.Cleanup(m.Close)
	c := must(conformance.New(conformance.Config{NotifyURL: m.NotifyURL(), WithdrawURL: m.NotifyURL(), Key: testKey(), CallbackAPIKey: testCallbackKey, APIKeyHeader: "X-Other", Field: "payload"}))(t)
	if sent := send(t, c, 1, countersigntest.NoServiceFault); !sent.Accepted() {
		t.Errorf("%s", sent)
	}
}

// TestEndpointOf: an address alone stands for both URLs, and a URL of the interface shows the other.
func TestEndpointOf(t *testing.T) {
	for to, want := range map[string][2]string{
		"http://h:1":                       {"http://h:1/callbacks/notify", "http://h:1/callbacks/withdraw"},
		"http://h:1/":                      {"http://h:1/callbacks/notify", "http://h:1/callbacks/withdraw"},
		"http://h:1/callbacks/withdraw":    {"http://h:1/callbacks/notify", "http://h:1/callbacks/withdraw"},
		"http://h:1/callbacks/notify":      {"http://h:1/callbacks/notify", "http://h:1/callbacks/withdraw"},
		"http://h:1/shop/callbacks/notify": {"http://h:1/shop/callbacks/notify", "http://h:1/shop/callbacks/withdraw"},
		"http://h:1/in":                    {"http://h:1/in", "http://h:1/in"},
		"http://h:1/in/?a=b":               {"http://h:1/in/?a=b", "http://h:1/in/?a=b"},
	} {
		if notify, withdraw := conformance.EndpointOf(to); [2]string{notify, withdraw} != want {
			t.Errorf("%s: %s, %s", to, notify, withdraw)
		}
	}
}

// TestParseMember: a member has the form of the interface, unless it is given as JSON.
func TestParseMember(t *testing.T) {
	for text, want := range map[string]string{
		"amount=7.4": `"7.4"`, "amount:=7.4": "7.4", "symbol=WETH": `"WETH"`, "symbol=": "", "a=b=c": `"b=c"`, "txIndex=4": "4", "txIndex=x": `"x"`, `txIndex:="4"`: `"4"`, `a:={"b":1}`: `{"b":1}`,
	} {
		if m, err := conformance.ParseMember(text); err != nil || string(m.Value) != want {
			t.Errorf("%s: %s, %v", text, m.Value, err)
		}
	}
	for _, text := range []string{"", "=1", "amount", "amount:=x"} {
		if m, err := conformance.ParseMember(text); err == nil {
			t.Errorf("%q is %v", text, m)
		}
	}
}

// TestCallerHostile: nothing that an endpoint says controls the terminal, or shows a secret that it sends back.
func TestCallerHostile(t *testing.T) {
	c, _ := callMerchant(t, nil)
	sent := send(t, c, countersign.TypeDeposited, countersigntest.NoServiceFault,
		countersign.Member{Name: "fromAddress", Value: `"\u001b[31m` + testAPIKey + `"`}) // which the endpoint says back
	if !sent.Accepted() || strings.Contains(sent.String(), "\x1b") {
		t.Errorf("%q", sent.String())
	}
}
