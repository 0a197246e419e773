package countersign_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"countersign"
)

// FuzzParseCallback holds the parser to its promises for any bytes: no panic,
// what parses re-marshals to the same value, encoding/json agrees that it is
// JSON, and a strict parse is never wider than a lenient one.
func FuzzParseCallback(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s))
	}
	f.Add([]byte(edit(`"business":0`, `"x":{"y":[1,2e5,"\ud83d\ude00"]},"business":0`)))
	f.Add([]byte(edit(`"7.4"`, `7.4`)))
	f.Add([]byte(edit(`"7.4"`, `"7e4"`)))
	f.Add([]byte(otherDeposit))
	f.Add([]byte(`{"type":2,"callBackId":7,"requestUUID":"u"}`))
	f.Add([]byte(`{"type":1,"type":1}`))
	f.Add([]byte(`{"type":4,"trackingId":null}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		countersign.CheckBinding(in)
		for _, o := range []countersign.ParseOptions{{}, {Lenient: true}} {
			c, err := countersign.ParseCallback(in, o)
			if err != nil {
				if c != nil {
					t.Fatal("a value beside an error")
				}
				continue
			}
			if !json.Valid(in) {
				t.Fatalf("took what encoding/json refuses: %q", in)
			}
			b, err := c.Marshal()
			if err != nil {
				if len(in) > countersign.MaxMessage/8 { // escapes can grow past the limit
					continue
				}
				t.Fatalf("marshal of %q: %v", in, err)
			}
			again, err := countersign.ParseCallback(b, o)
			if err != nil || cmp.Diff(c, again, asWritten) != "" {
				t.Fatalf("%q → %q: %v %s", in, b, err, cmp.Diff(c, again, asWritten))
			}
			if !o.Lenient {
				lenient, err := countersign.ParseCallback(in, countersign.ParseOptions{Lenient: true})
				if err != nil || cmp.Diff(c, lenient, asWritten) != "" {
					t.Fatalf("lenient makes of what strict takes: %v %s", err, cmp.Diff(c, lenient, asWritten))
				}
				if sent := c.Common().AsSent; sent != nil {
					t.Fatalf("strict converts %v", sent)
				}
			}
		}
		if !bytes.Equal(in, before) {
			t.Fatal("the input changed")
		}
	})
}

// FuzzParseAnswers does the same for what comes back to the service.
func FuzzParseAnswers(f *testing.F) {
	f.Add([]byte(`{"apiKey":"k","data":"QUJD","errCode":0,"message":""}`))
	f.Add([]byte(`{"apiKey":"k","data":null,"errCode":2001,"message":"no"}`))
	f.Add([]byte(`{"type":"2","tenantUserId":"1","callBackId":"W","address":"T","chainName":"TRON","symbol":"USDT","amount":2.50,"requestUUID":"u"}`))
	f.Add([]byte(`{"type":1,"requestUUID":"u","state":null,"txIndex":-1}`))
	f.Add([]byte(`{"type":5,"requestUUID":"u","callBackId":"D"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		answerRoundTrip(t, in, countersign.ParseResponse, countersign.Response.Marshal)
		answerRoundTrip(t, in, parseDepositAnswer, countersign.DepositAnswer.Marshal)
		answerRoundTrip(t, in, parseWithdrawalAnswer, countersign.WithdrawalAnswer.Marshal)
		answerRoundTrip(t, in, parseNoticeAnswer, countersign.NoticeAnswer.Marshal)
	})
}

func answerRoundTrip[A any](t *testing.T, in []byte, parse func([]byte) (A, error), marshal func(A) ([]byte, error)) {
	a, err := parse(in)
	if err != nil || len(in) > countersign.MaxMessage/8 {
		return
	}
	b, err := marshal(a)
	if err != nil {
		t.Fatalf("marshal of %q: %v", in, err)
	}
	again, err := parse(b)
	if err != nil || cmp.Diff(a, again, asWritten) != "" {
		t.Fatalf("%q → %q: %v %s", in, b, err, cmp.Diff(a, again, asWritten))
	}
}

// TestDepositProperties: Parse inverts Marshal for every valid deposit.
func TestDepositProperties(t *testing.T) {
	text := rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r != 0 }), 1, 40, -1)
	rapid.Check(t, func(t *rapid.T) {
		d := &countersign.Deposit{
			Head: countersign.Head{RequestUUID: text.Draw(t, "requestUUID"), TrackingID: text.Draw(t, "trackingId"), TenantUserID: text.Draw(t, "tenantUserId"), Business: rapid.Int64Range(-1<<53+1, 1<<53-1).Draw(t, "business")},
			TxID: text.Draw(t, "txId"), ChainName: text.Draw(t, "chainName"), Symbol: text.Draw(t, "symbol"),
			Amount:      mustAmount(amountText().Draw(t, "amount")),
			FromAddress: rapid.OneOf(rapid.Just(""), text).Draw(t, "fromAddress"), ToAddress: text.Draw(t, "toAddress"),
			RiskLevelFrom: rapid.Int64Range(0, 100).Draw(t, "riskLevelFrom"), RiskLevelTo: rapid.Int64Range(0, 100).Draw(t, "riskLevelTo"),
			TxIndex: rapid.Int64Range(-1, 1<<53-1).Draw(t, "txIndex"), NewAddress: rapid.OneOf(rapid.Just(""), text).Draw(t, "newAddress"),
		}
		if rapid.Bool().Draw(t, "extra") {
			d.Extra = countersign.Members{{Name: "a" + text.Draw(t, "name"), Value: `{"k":[1,null,"é"]}`}, {Name: "zz", Value: "-0.5e3"}}
		}
		b := must(d.Marshal())(t)
		got, err := countersign.ParseCallback(b, countersign.ParseOptions{})
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if diff := cmp.Diff(countersign.Callback(d), got, asWritten); diff != "" {
			t.Fatal(diff)
		}
		if !json.Valid(b) {
			t.Fatalf("not JSON: %s", b)
		}
	})
}

func BenchmarkParseDeposit(b *testing.B) {
	in := []byte(canonicalDeposit)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if _, err := countersign.ParseCallback(in, countersign.ParseOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBind(b *testing.B) {
	in := template(b, nil)
	for b.Loop() {
		if _, _, err := countersign.Bind(in, [6]byte{1}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckBinding(b *testing.B) {
	in := bind(b, template(b, nil), [6]byte{1})
	for b.Loop() {
		if countersign.CheckBinding(in) != countersign.BindingHolds {
			b.Fatal("does not hold")
		}
	}
}
