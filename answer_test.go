package countersign_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign"
)

// parseAs is ParseAnswer with the kind of answer that it must return.
func parseAs[A countersign.Answer](typ countersign.Type, data []byte) (a A, err error) {
	answer, err := countersign.ParseAnswer(typ, data)
	a, ok := answer.(A)
	if err == nil && !ok {
		err = errors.New("another kind of answer")
	}
	return a, err
}

func parseDepositAnswer(data []byte) (countersign.DepositAnswer, error) {
	return parseAs[countersign.DepositAnswer](countersign.TypeDeposited, data)
}

func parseWithdrawalAnswer(data []byte) (countersign.WithdrawalAnswer, error) {
	return parseAs[countersign.WithdrawalAnswer](countersign.TypeRequestWithdraw, data)
}

func parseNoticeAnswer(data []byte) (countersign.NoticeAnswer, error) {
	return parseAs[countersign.NoticeAnswer](countersign.Identify(data).Type, data)
}

func TestDepositAnswer(t *testing.T) {
	b := must(wantDeposit().Accept(countersign.Details{}).Marshal())(t)
	want := `{"type":1,"trackingId":"17173049-0001","txId":"0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14",` +
		`"txIndex":5,"chainName":"ETH","symbol":"WETH","amount":"7.4","fromAddress":"0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b",` +
		`"toAddress":"0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b","tenantUserId":"65515","callBackId":null,"state":null,` +
		`"tenantType":null,"requestUUID":"47b8d46c-12c9-4d64-98a0-ad1fbb6d0c29"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	got := must(parseDepositAnswer(b))(t)
	if d := cmp.Diff(wantDeposit().Accept(countersign.Details{}), got, asWritten); d != "" {
		t.Error(d)
	}

	// What other merchants send: type as text, amount as number, nulls, no more.
	got = must(parseDepositAnswer([]byte(`{"type":"1","amount":7.40,"txIndex":null,"trackingId":null,"requestUUID":"u","state":"ok"}`)))(t)
	if want := (countersign.DepositAnswer{Amount: mustAmount("7.40"), TxIndex: -1, RequestUUID: "u", State: `"ok"`}); cmp.Diff(want, got, asWritten) != "" {
		t.Error(cmp.Diff(want, got, asWritten))
	}
	for _, bad := range []string{
		`{"type":1}`, `{"requestUUID":"u"}`, `{"type":2,"requestUUID":"u"}`, `{"type":"one","requestUUID":"u"}`,
		`{"type":1,"requestUUID":""}`, `{"type":1,"requestUUID":null}`, `{"type":1,"requestUUID":7}`,
		`{"type":1,"requestUUID":"u","amount":1e3}`, `{"type":1,"requestUUID":"u","amount":"x"}`, `{"type":1,"requestUUID":"u","RequestUUID":"v"}`,
	} {
		if a, err := parseDepositAnswer([]byte(bad)); !errors.Is(err, countersign.ErrMalformed) {
			t.Errorf("%s: %+v, %v", bad, a, err)
		}
	}
}

func TestWithdrawalAnswer(t *testing.T) {
	req := &countersign.WithdrawalRequest{Head: countersign.Head{RequestUUID: "u2", TrackingID: "102003", TenantUserID: "1945"}, CallBackID: "W1"}
	details := countersign.Details{Address: "TB", ChainName: "TRON", Symbol: "USDT", Amount: mustAmount("2.500000000000")}
	b, err := req.Accept(details).Marshal()
	want := `{"type":2,"tenantUserId":"1945","callBackId":"W1","address":"TB","chainName":"TRON","symbol":"USDT",` +
		`"amount":"2.500000000000","requestUUID":"u2"}`
	if err != nil || string(b) != want {
		t.Fatalf("%s, %v", b, err)
	}
	for _, form := range []string{want, strings.Replace(want, `2,`, `"2",`, 1), strings.Replace(want, `"2.500000000000"`, `2.500000000000`, 1)} {
		got, err := parseWithdrawalAnswer([]byte(form))
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if d := cmp.Diff(req.Accept(details), got, asWritten); d != "" {
			t.Error(d)
		}
	}
	for _, member := range []string{"type", "tenantUserId", "callBackId", "address", "chainName", "symbol", "amount", "requestUUID"} {
		for _, value := range []string{"absent", "null", `""`, "[]"} {
			m := map[string]json.RawMessage{}
			ok(t, json.Unmarshal([]byte(want), &m))
			m[member] = json.RawMessage(value)
			if value == "absent" {
				delete(m, member)
			}
			bad := must(json.Marshal(m))(t)
			a, err := parseWithdrawalAnswer(bad)
			var me *countersign.MemberError
			if !errors.As(err, &me) || me.Member != member {
				t.Errorf("%s: %+v, %v", bad, a, err)
			}
		}
	}
	for _, bad := range []string{`"0"`, `"0.00"`, `0`, `"-1"`, `"1e1"`, `"2.5 "`} {
		in := strings.Replace(want, `"2.500000000000"`, bad, 1)
		if _, err := parseWithdrawalAnswer([]byte(in)); err == nil {
			t.Errorf("took the amount %s", bad)
		}
	}
	if _, err := req.Accept(countersign.Details{}).Marshal(); err == nil {
		t.Error("an answer without details was written")
	}
}

func TestDetailsDiffer(t *testing.T) {
	order := countersign.Details{Address: "0xAbCdef0000000000000000000000000000000001", ChainName: "ETH", Symbol: "USDT", Amount: mustAmount("2.5")}
	ok(t, order.Validate())
	for _, tt := range []struct {
		want   string
		change func(*countersign.Details)
	}{
		{"", func(*countersign.Details) {}},
		{"", func(d *countersign.Details) { d.Address = strings.ToLower(d.Address) }},
		{"", func(d *countersign.Details) { d.Amount = mustAmount("2.500000000000") }},
		{"address", func(d *countersign.Details) { d.Address = d.Address[:41] + "2" }},
		{"address", func(d *countersign.Details) { d.Address = " " + d.Address }},
		{"address", func(d *countersign.Details) { d.Address = "" }},
		{"chainName", func(d *countersign.Details) { d.ChainName = "eth" }},
		{"chainName", func(d *countersign.Details) { d.ChainName = "" }},
		{"symbol", func(d *countersign.Details) { d.Symbol = "USDC" }},
		{"amount", func(d *countersign.Details) { d.Amount = mustAmount("2.50000000000000000000000001") }},
		{"amount", func(d *countersign.Details) { d.Amount = countersign.Amount{} }},
	} {
		d := order
		tt.change(&d)
		if got := d.Differs(order); got != tt.want {
			t.Errorf("%+v: differs in %q, want %q", d, got, tt.want)
		}
	}
	if (countersign.Details{}).Differs(countersign.Details{}) == "" {
		t.Error("no details agree with no details")
	}
	if (countersign.Details{}).Validate() == nil {
		t.Error("no details are valid")
	}
	if countersign.SameAddress("TGDHyoMpgDQj4DmoZdwJP2FSkSG4DEchn2", "tgdhyompgdqj4dmozdwjp2fsksg4dechn2") {
		t.Error("TRON addresses compared without regard to case")
	}
}

// TestAnswerOfEveryType: what Accept gives is read back by ParseAnswer, agrees
// with its callback, and its shortest form still does.
func TestAnswerOfEveryType(t *testing.T) {
	order := countersign.Details{Address: "TB", ChainName: "TRON", Symbol: "USDT", Amount: mustAmount("2.5")}
	for typ, in := range samples {
		c := mustParse(in)
		full := c.Accept(order)
		for _, a := range []countersign.Answer{full, full.Shortest()} {
			b := must(a.Marshal())(t)
			got, err := countersign.ParseAnswer(typ, b)
			if err != nil || cmp.Diff(a, got, asWritten) != "" {
				t.Errorf("type %d: %v %s", typ, err, cmp.Diff(a, got, asWritten))
				continue
			}
			if got.UUID() != c.UUID() || c.Differs(got) != "" {
				t.Errorf("type %d is answered by %s, which differs in %q", typ, b, c.Differs(got))
			}
		}
		b, _ := full.Marshal()
		for other := countersign.TypeDeposited; other.Known(); other++ {
			a, err := countersign.ParseAnswer(other, b)
			var m *countersign.MemberError
			switch {
			case other == typ:
			case !errors.As(err, &m) || m.Member != "type" || a != nil:
				t.Errorf("the answer to type %d passed for one to type %d: %v, %v", typ, other, a, err)
			case mustParse(samples[other]).Differs(full) != "type":
				t.Errorf("type %d agrees with the answer to type %d", other, typ)
			}
		}
	}
	next := countersign.Type(len(countersign.TypeUnknown.Values()) + 1)
	for _, unknown := range []countersign.Type{-1, 0, next} {
		if a, err := countersign.ParseAnswer(unknown, fmt.Appendf(nil, `{"type":%d,"requestUUID":"u"}`, int(next))); !errors.Is(err, countersign.ErrUnknownType) || a != nil {
			t.Errorf("the answer to type %d: %v, %v", unknown, a, err)
		}
	}
	if _, err := parseNoticeAnswer([]byte(`{"type":1,"requestUUID":"u"}`)); err == nil {
		t.Error("a deposit's answer passed for a notice's")
	}
}

func mustParse(in string) countersign.Callback {
	c, err := countersign.ParseCallback([]byte(in), countersign.ParseOptions{})
	if err != nil {
		panic(err)
	}
	return c
}

// TestDiffers changes each member of the fullest answer in turn.
func TestDiffers(t *testing.T) {
	evm := "0xAbCdef0000000000000000000000000000000001"
	for _, tt := range []struct {
		typ    countersign.Type
		member string
		value  string // JSON
		want   string
	}{
		{1, "trackingId", `"x"`, "trackingId"}, {1, "txId", `"x"`, "txId"}, {1, "chainName", `"x"`, "chainName"},
		{1, "symbol", `"x"`, "symbol"}, {1, "tenantUserId", `"x"`, "tenantUserId"}, {1, "amount", `"7.5"`, "amount"},
		{1, "amount", `7.40`, ""}, {1, "fromAddress", `"x"`, "fromAddress"}, {1, "toAddress", `"` + evm + `"`, "toAddress"},
		{1, "toAddress", `"0xEF1C6E67703C7BD7107EED8303FBE6EC2554BF6B"`, ""}, {1, "txIndex", `77`, ""}, {1, "trackingId", `null`, ""},
		{2, "callBackId", `"w1"`, "callBackId"}, {2, "tenantUserId", `"x"`, "tenantUserId"}, {2, "amount", `"9"`, ""},
		{3, "trackingId", `"x"`, "trackingId"}, {3, "tenantUserId", `"x"`, "tenantUserId"}, {3, "callBackId", `"x"`, "callBackId"},
		{3, "txId", `"x"`, "txId"}, {3, "chainName", `"x"`, "chainName"}, {3, "symbol", `"x"`, "symbol"},
		{3, "amount", `"2.6"`, "amount"}, {3, "fromAddress", `"x"`, "fromAddress"}, {3, "toAddress", `"tb"`, "toAddress"},
		{4, "tenantUserId", `"x"`, "tenantUserId"}, {4, "toAddress", `"TOld"`, ""}, {4, "toAddress", `"TNew"`, ""},
		{4, "toAddress", `"x"`, "toAddress"}, {4, "toAddress", `null`, ""}, {4, "symbol", `"x"`, ""},
		{5, "callBackId", `"x"`, "callBackId"}, {5, "toAddress", `"x"`, "toAddress"}, {5, "trackingId", `"x"`, "trackingId"},
		{6, "callBackId", `"x"`, "callBackId"}, {6, "trackingId", `"x"`, "trackingId"},
		{7, "callBackId", `"x"`, "callBackId"}, {7, "tenantUserId", `"x"`, "tenantUserId"},
	} {
		c := mustParse(samples[tt.typ])
		b := must(c.Accept(countersign.Details{Address: "TB", ChainName: "TRON", Symbol: "USDT", Amount: mustAmount("2.5")}).Marshal())(t)
		m := map[string]json.RawMessage{}
		ok(t, json.Unmarshal(b, &m))
		m[tt.member] = json.RawMessage(tt.value)
		b = must(json.Marshal(m))(t)
		a, err := countersign.ParseAnswer(tt.typ, b)
		if err != nil {
			t.Errorf("type %d, %s %s: %v", tt.typ, tt.member, tt.value, err)
		} else if got := c.Differs(a); got != tt.want {
			t.Errorf("type %d, %s %s: differs in %q, want %q", tt.typ, tt.member, tt.value, got, tt.want)
		}
	}
}

func TestResponse(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"apiKey":"k","data":"QUJD","errCode":0,"message":""}`, ""},
		{`{"message":"fine","errCode":0,"data":"QUJD","apiKey":"k","traceId":"7"}`, ""},
		{`{"apiKey":"k","data":"","errCode":2001,"message":"unknown"}`, ""},
		{`{"apiKey":"k","data":null,"errCode":2001,"message":"unknown"}`, ""},
		{`{"apiKey":"k","errCode":-7,"message":"unknown"}`, ""},
		{`{"apiKey":"k","data":"QUJD","errCode":0}`, "message"},
		{`{"apiKey":"k","data":"QUJD","errCode":0,"message":null}`, "message"},
		{`{"apiKey":"k","data":"","errCode":0,"message":""}`, "data"},
		{`{"apiKey":"k","errCode":0,"message":""}`, "data"},
		{`{"apiKey":"k","data":{"type":1},"errCode":0,"message":""}`, "data"},
		{`{"apiKey":"k","data":"","errCode":2001,"message":""}`, "message"},
		{`{"apiKey":"k","data":"","errCode":2001}`, "message"},
		{`{"apiKey":"k","data":"QUJD","errCode":"0","message":""}`, "errCode"},
		{`{"apiKey":"k","data":"QUJD","errCode":0.0,"message":""}`, "errCode"},
		{`{"apiKey":"k","data":"QUJD","errCode":false,"message":""}`, "errCode"},
		{`{"apiKey":"k","data":"QUJD","errCode":null,"message":""}`, "errCode"},
		{`{"apiKey":"k","data":"QUJD","errCode":-0,"message":""}`, "errCode"},
		{`{"apiKey":"k","data":"QUJD","message":""}`, "errCode"},
		{`{"apiKey":7,"data":"QUJD","errCode":0,"message":""}`, "apiKey"},
		{`{"data":"QUJD","errCode":0,"message":""}`, "apiKey"},
		{`{"apiKey":"k","data":"QUJD","errCode":0,"ErrCode":1,"message":""}`, "ErrCode"},
		{`{"apiKey":"k","data":"QUJD","errCode":1,"errCode":0,"message":""}`, "errCode"},
	} {
		r, err := countersign.ParseResponse([]byte(tt.in))
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.in, err)
				continue
			}
			b, err := r.Marshal()
			if err != nil {
				t.Errorf("%s: %v", tt.in, err)
				continue
			}
			again, err := countersign.ParseResponse(b)
			if err != nil || cmp.Diff(r, again) != "" || !r.APIKey.Equal("k") {
				t.Errorf("%s → %s: %v %s", tt.in, b, err, cmp.Diff(r, again))
			}
			continue
		}
		var m *countersign.MemberError
		if !errors.As(err, &m) || m.Member != tt.want {
			t.Errorf("%s: %v, want an error of %s", tt.in, err, tt.want)
		}
	}
	b, err := countersign.Response{APIKey: "k", Data: "QUJD"}.Marshal()
	if err != nil || string(b) != `{"apiKey":"k","data":"QUJD","errCode":0,"message":""}` {
		t.Errorf("%s, %v", b, err)
	}
	if b, err := (countersign.Response{APIKey: "k", ErrCode: 2001}).Marshal(); err == nil {
		t.Errorf("failure without message: %s", b)
	}
}

func TestErrCodes(t *testing.T) {
	for code, want := range map[countersign.ErrCode]countersign.Class{
		0: countersign.ClassAccepted, 1: countersign.ClassFailure, -1: countersign.ClassFailure, 999: countersign.ClassFailure,
		1000: countersign.ClassNotUnderstood, 1999: countersign.ClassNotUnderstood, 2000: countersign.ClassRefused,
		2999: countersign.ClassRefused, 3000: countersign.ClassHold, 3999: countersign.ClassHold, 4000: countersign.ClassFailure,
		countersign.CodeInternal: countersign.ClassFailure,
	} {
		if code.Class() != want {
			t.Errorf("%d: class %d, want %d", code, code.Class(), want)
		}
	}
	if countersign.CodeAccepted.Message() != "" {
		t.Error("0 has a message")
	}
	for code := countersign.ErrCode(1); code < 6000; code++ {
		if code.Message() == "" {
			t.Fatalf("%d has no message", code)
		}
	}
	if countersign.CodeOf(nil) != 0 || countersign.CodeOf(errors.New("disk")) != countersign.CodeInternal {
		t.Error("CodeOf")
	}
}

func TestAPIKeyHides(t *testing.T) {
	const secret = "88c47568-secret"
	r := countersign.Response{APIKey: secret, Data: "QUJD"}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb+"\n", r, r.APIKey, &r)
	}
	fmt.Fprintln(&out, r, []countersign.APIKey{secret}, map[countersign.APIKey]int{secret: 1})
	j := must(json.Marshal(map[string]any{"r": r, "k": r.APIKey}))(t)
	out.Write(j)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", r.APIKey, "r", r)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", r.APIKey, "r", r)
	out.Write(log.Bytes())
	for _, leak := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret)} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("%q printed in %s", leak, out.String())
		}
	}
	if r.APIKey.Reveal() != secret {
		t.Error("Reveal")
	}
	if countersign.APIKey("").Equal("") || !r.APIKey.Equal(secret) || r.APIKey.Equal(secret+"x") {
		t.Error("Equal")
	}
}
