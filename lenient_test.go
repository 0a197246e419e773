package countersign_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"countersign"
)

var lenientParse = countersign.ParseOptions{Lenient: true}

// otherDeposit is what a service may send that differs from the interface in
// all that a lenient parse forgives.
const otherDeposit = `{"requestUUID":"u-1","type":"1","trackingId":17173049,"tenantUserId":65515,"txId":"0xec","chainName":"ETH","symbol":"WETH",` +
	`"amount":1E-7,"toAddress":"0x70","riskLevelFrom":"LOW","riskLevelTo":"40","txIndex":"5","business":"vip","memo":{"a":[1, "x y"]}}`

// TestOtherForms: every form says the same as the interface's own, none is lost,
// and the answer has the forms that came.
func TestOtherForms(t *testing.T) {
	if _, err := countersign.ParseCallback([]byte(otherDeposit), countersign.ParseOptions{}); err == nil {
		t.Error("a strict parse takes it")
	}
	cb := must(countersign.ParseCallback([]byte(otherDeposit), lenientParse))(t)
	want := &countersign.Deposit{
		Head: countersign.Head{RequestUUID: "u-1", TrackingID: "17173049", TenantUserID: "65515",
			Extra: countersign.Members{{Name: "memo", Value: `{"a":[1,"x y"]}`}},
			AsSent: countersign.Members{{Name: "type", Value: `"1"`}, {Name: "trackingId", Value: "17173049"}, {Name: "tenantUserId", Value: "65515"},
				{Name: "amount", Value: "1E-7"}, {Name: "riskLevelFrom", Value: `"LOW"`}, {Name: "riskLevelTo", Value: `"40"`},
				{Name: "txIndex", Value: `"5"`}, {Name: "business", Value: `"vip"`}},
		},
		TxID: "0xec", ChainName: "ETH", Symbol: "WETH", Amount: mustAmount("0.0000001"), ToAddress: "0x70",
		RiskLevelFrom: countersign.RiskUnknown, RiskLevelTo: 40, TxIndex: 5,
	}
	if d := cmp.Diff(countersign.Callback(want), cb, asWritten); d != "" {
		t.Error(d)
	}
	checkAgain(t, cb, lenientParse)
	answer := must(cb.Accept(countersign.Details{}).Marshal())(t)
	if want := `{"type":"1","trackingId":17173049,"txId":"0xec","txIndex":"5","chainName":"ETH","symbol":"WETH","amount":1E-7,"toAddress":"0x70",` +
		`"tenantUserId":65515,"callBackId":null,"state":null,"tenantType":null,"requestUUID":"u-1"}`; string(answer) != want {
		t.Errorf("the answer is\n%s, want\n%s", answer, want)
	}
	if short, err := cb.Accept(countersign.Details{}).Shortest().Marshal(); err != nil || !strings.HasPrefix(string(short), `{"type":"1",`) {
		t.Errorf("the shortest answer is %s, %v", short, err)
	}
}

// TestEmptyIsAbsent: an empty text in the place of a number says no more than none.
func TestEmptyIsAbsent(t *testing.T) {
	in := strings.Replace(otherDeposit, `"txIndex":"5"`, `"txIndex":""`, 1)
	cb := must(countersign.ParseCallback([]byte(in), lenientParse))(t)
	if got := cb.(*countersign.Deposit).TxIndex; got != -1 {
		t.Errorf("txIndex is %d", got)
	}
	checkAgain(t, cb, lenientParse)
	if _, err := countersign.ParseCallback([]byte(strings.Replace(in, `"amount":1E-7`, `"amount":""`, 1)), lenientParse); err == nil {
		t.Error("an empty amount is taken")
	}
}

// TestWithdrawalByCallBackIDAlone: the field list of the interface has no other
// member for type 2.
func TestWithdrawalByCallBackIDAlone(t *testing.T) {
	for _, in := range []string{
		`{"type":2,"callBackId":"W1","requestUUID":"u"}`, `{"type":2,"trackingId":null,"tenantUserId":"","callBackId":"W1","requestUUID":"u"}`,
	} {
		if _, err := countersign.ParseCallback([]byte(in), countersign.ParseOptions{}); err == nil {
			t.Errorf("a strict parse takes %s", in)
		}
		cb := must(countersign.ParseCallback([]byte(in), lenientParse))(t)
		want := &countersign.WithdrawalRequest{Head: countersign.Head{RequestUUID: "u"}, CallBackID: "W1"}
		if d := cmp.Diff(countersign.Callback(want), cb, asWritten); d != "" {
			t.Error(d)
		}
		checkAgain(t, cb, lenientParse)
	}
	cb := must(countersign.ParseCallback([]byte(`{"type":2,"tenantUserId":12345678901234567890123,"callBackId":99,"requestUUID":"u"}`), lenientParse))(t)
	details := countersign.Details{Address: "T", ChainName: "TRON", Symbol: "USDT", Amount: mustAmount("2.50")}
	answer, _, err := cb.Accept(details).(countersign.WithdrawalAnswer).MarshalBlocks(245)
	if want := `{"type":2,"tenantUserId":12345678901234567890123,"callBackId":99,"address":"T","chainName":"TRON","symbol":"USDT","amount":"2.50",` +
		`"requestUUID":"u"}`; err != nil || string(answer) != want {
		t.Errorf("the answer is\n%s, %v, want\n%s", answer, err, want)
	}
}

// TestNeverGuessed: what decides who gets what is never made up.
func TestNeverGuessed(t *testing.T) {
	for _, member := range []string{"requestUUID", "type", "trackingId", "tenantUserId", "txId", "chainName", "symbol", "amount", "toAddress"} {
		for _, without := range []string{`"x-` + member + `":`, `"` + member + `":null,"x":`, `"` + member + `":"","x":`, `"` + member + `":-1,"x":`,
			`"` + member + `":1.5e0,"x":`, `"` + member + `":true,"x":`, `"` + member + `":[],"x":`} {
			if member == "amount" && strings.Contains(without, "1.5e0") {
				continue
			}
			_, err := countersign.ParseCallback([]byte(strings.Replace(otherDeposit, `"`+member+`":`, without, 1)), lenientParse)
			var at *countersign.MemberError
			if !errors.As(err, &at) && !errors.Is(err, countersign.ErrUnknownType) || at != nil && at.Member != member {
				t.Errorf("%s: %v", without, err)
			}
		}
		if _, err := countersign.ParseCallback([]byte(strings.Replace(otherDeposit, `{`, `{"`+member+`":"x",`, 1)), lenientParse); err == nil {
			t.Errorf("%s twice was taken", member)
		}
	}
	for _, index := range []string{`"first"`, `"-2"`, `1.5`, `"1.0"`, `"+1"`} {
		if _, err := countersign.ParseCallback([]byte(strings.Replace(otherDeposit, `"txIndex":"5"`, `"txIndex":`+index, 1)), lenientParse); err == nil {
			t.Errorf("txIndex %s was taken", index)
		}
	}
}

// TestFaults: all that is wrong with a message, where a parse says the first.
func TestFaults(t *testing.T) {
	said := func(o countersign.ParseOptions, in string) (texts []string) {
		for _, f := range countersign.Faults([]byte(in), o) {
			texts = append(texts, f.Error())
		}
		return texts
	}
	strict := []string{`member "type" is not a whole number`}
	if d := cmp.Diff(strict, said(countersign.ParseOptions{}, otherDeposit)); d != "" {
		t.Error(d)
	}
	in := strings.Replace(otherDeposit, `"type":"1"`, `"type":1`, 1)
	strict = []string{`member "trackingId" is not a string`, `member "tenantUserId" is not a string`, `member "amount" is not a string`,
		`member "fromAddress" is missing`, `member "riskLevelFrom" is not a whole number`, `member "riskLevelTo" is not a whole number`,
		`member "txIndex" is not a whole number`, `member "newAddress" is missing`, `member "business" is not a whole number`}
	if d := cmp.Diff(strict, said(countersign.ParseOptions{}, in)); d != "" {
		t.Error(d)
	}
	if got := said(lenientParse, in); got != nil {
		t.Error(got)
	}
	if got := said(lenientParse, `[]`); len(got) != 1 {
		t.Error(got)
	}
}

// valueOf is a decimal text, with or without an exponent, as an exact number.
func valueOf(t interface{ Fatalf(string, ...any) }, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	return r
}

// TestAmountsAreConvertedExactly: an exponent moves the point. No digit is lost,
// whatever the number of digits, and what does not fit is refused.
func TestAmountsAreConvertedExactly(t *testing.T) {
	for in, want := range map[string]string{
		"1E-7": "0.0000001", "1e-7": "0.0000001", "1.50E+1": "15.0", "1.50E3": "1500", "1.5E0": "1.5", "0E-18": "0.000000000000000000",
		"0.5E3": "500", "0.005e1": "0.05", "12E-1": "1.2", "123456789012345678901E-20": "1.23456789012345678901", "0E0": "0", "0e-200": "0",
		"1E+077": "1" + strings.Repeat("0", 77), "1E77": "1" + strings.Repeat("0", 77),
		"10E-78": "0." + strings.Repeat("0", 76) + "1", // with the zero at its end it would have 79 digits
	} {
		cb, err := countersign.ParseCallback([]byte(edit(`"7.4"`, `"`+in+`"`)), lenientParse)
		switch {
		case err != nil:
			t.Errorf("%s: %v", in, err)
		case cb.(*countersign.Deposit).Amount.String() != want:
			t.Errorf("%s is %s, want %s", in, cb.(*countersign.Deposit).Amount, want)
		}
	}
	for _, in := range []string{"1E0007", "1E-0007", "1e+0000", "0E0001", "1E1000", "1E", "1E+", "1E--1"} { // PROTOCOL.md, A4
		for _, value := range []string{in, `"` + in + `"`} {
			if _, err := countersign.ParseCallback([]byte(edit(`"7.4"`, value)), lenientParse); err == nil {
				t.Errorf("%s is taken", value)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := amountText().Draw(t, "mantissa") + rapid.StringMatching(`[eE][+-]?[0-9]{1,2}`).Draw(t, "exponent")
		quoted := in
		if rapid.Bool().Draw(t, "string") {
			quoted = `"` + in + `"`
		}
		if _, err := countersign.ParseCallback([]byte(edit(`"7.4"`, quoted)), countersign.ParseOptions{}); err == nil {
			t.Fatalf("a strict parse takes %s", quoted)
		}
		cb, err := countersign.ParseCallback([]byte(edit(`"7.4"`, quoted)), lenientParse)
		if err != nil {
			// Only what has no place in 78 digits is refused.
			whole, fraction, _ := strings.Cut(valueOf(t, in).FloatString(200), ".")
			if len(whole)+len(strings.TrimRight(fraction, "0")) <= countersign.MaxAmountDigits {
				t.Fatalf("%s: %v", in, err)
			}
			return
		}
		d := cb.(*countersign.Deposit)
		if valueOf(t, d.Amount.String()).Cmp(valueOf(t, in)) != 0 {
			t.Fatalf("%s became %s", in, d.Amount)
		}
		if d.AsSent.Get("amount") != countersign.Raw(quoted) {
			t.Fatalf("%s is kept as %s", quoted, d.AsSent.Get("amount"))
		}
		answer, err := d.Accept(countersign.Details{}).Marshal()
		if err != nil || !strings.Contains(string(answer), `"amount":`+quoted+`,`) || !json.Valid(answer) {
			t.Fatalf("%s, %v does not repeat %s", answer, err, quoted)
		}
	})
}

// TestChangedAfterParse: a value that the caller changed is written, not the one
// that was sent.
func TestChangedAfterParse(t *testing.T) {
	cb := must(countersign.ParseCallback([]byte(otherDeposit), lenientParse))(t)
	d := cb.(*countersign.Deposit)
	d.Amount, d.TenantUserID, d.TxIndex, d.RiskLevelTo, d.RiskLevelFrom, d.Business = mustAmount("3"), "1", 6, 41, 7, 9
	b := must(d.Marshal())(t)
	for _, want := range []string{`"amount":"3"`, `"tenantUserId":"1"`, `"txIndex":6`, `"riskLevelTo":41`, `"riskLevelFrom":7`, `"business":9`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
}
