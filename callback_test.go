package countersign_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign"
)

// The canonical form of one deposit, as the service emits it.
const canonicalDeposit = `{"type":1,"trackingId":"17173049-0001","tenantUserId":"65515",` +
	`"txId":"0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14","chainName":"ETH","symbol":"WETH",` +
	`"amount":"7.4","fromAddress":"0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b",` +
	`"toAddress":"0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b","riskLevelFrom":44,"riskLevelTo":45,"txIndex":5,` +
	`"newAddress":"0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b","business":0,` +
	`"requestUUID":"47b8d46c-12c9-4d64-98a0-ad1fbb6d0c29"}`

func wantDeposit() *countersign.Deposit {
	return &countersign.Deposit{
		Head: countersign.Head{RequestUUID: "47b8d46c-12c9-4d64-98a0-ad1fbb6d0c29", TrackingID: "17173049-0001", TenantUserID: "65515"},
		TxID: "0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14", ChainName: "ETH", Symbol: "WETH",
		Amount: mustAmount("7.4"), FromAddress: "0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b",
		ToAddress: "0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b", RiskLevelFrom: 44, RiskLevelTo: 45, TxIndex: 5,
		NewAddress: "0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b",
	}
}

// failer is a test, a benchmark, a fuzz test or a property's run.
type failer interface {
	Helper()
	Fatal(...any)
}

// must returns v of a call that may not fail here.
func must[T any](v T, err error) func(failer) T {
	return func(t failer) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustAmount(s string) countersign.Amount {
	a, err := countersign.ParseAmount(s)
	if err != nil {
		panic(err)
	}
	return a
}

// asWritten compares amounts by their text where cmp would compare by value.
var asWritten = cmp.Comparer(func(a, b countersign.Amount) bool { return a.String() == b.String() })

func TestDepositCanonical(t *testing.T) {
	got := must(wantDeposit().Marshal())(t)
	if string(got) != canonicalDeposit {
		t.Errorf("Marshal:\n got %s\nwant %s", got, canonicalDeposit)
	}
	parsed := must(countersign.ParseCallback(got, countersign.ParseOptions{}))(t)
	if d := cmp.Diff(countersign.Callback(wantDeposit()), parsed, asWritten); d != "" {
		t.Error(d)
	}
}

// edit replaces one member of the canonical deposit by other text.
func edit(old, new string) string {
	if strings.Count(canonicalDeposit, old) != 1 {
		panic("not there once: " + old)
	}
	return strings.Replace(canonicalDeposit, old, new, 1)
}

func TestParseDepositRefuses(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"missing txId", edit(`"txId":"0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14",`, ``), `member "txId" is missing`},
		{"null trackingId", edit(`"trackingId":"17173049-0001"`, `"trackingId":null`), `member "trackingId" is null`},
		{"empty tenantUserId", edit(`"65515"`, `""`), `member "tenantUserId" is empty`},
		{"tenantUserId as number", edit(`"65515"`, `65515`), `member "tenantUserId" is not a string`},
		{"type as string", edit(`"type":1`, `"type":"1"`), `member "type" is not a whole number`},
		{"type as fraction", edit(`"type":1`, `"type":1.0`), `member "type" is not a whole number`},
		{"no type", edit(`"type":1,`, ``), `member "type" is missing`},
		{"risk above 100", edit(`"riskLevelFrom":44`, `"riskLevelFrom":101`), `member "riskLevelFrom" is not between 0 and 100`},
		{"risk below 0", edit(`"riskLevelTo":45`, `"riskLevelTo":-1`), `member "riskLevelTo" is not between 0 and 100`},
		{"risk as string", edit(`"riskLevelTo":45`, `"riskLevelTo":"45"`), `member "riskLevelTo" is not a whole number`},
		{"txIndex -2", edit(`"txIndex":5`, `"txIndex":-2`), `member "txIndex" is not between -1 and 9007199254740991`},
		{"txIndex exponent", edit(`"txIndex":5`, `"txIndex":5e0`), `member "txIndex" is not a whole number`},
		{"no business", edit(`"business":0,`, ``), `member "business" is missing`},
		{"no newAddress", edit(`"newAddress":"0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b",`, ``), `member "newAddress" is missing`},
		{"no requestUUID", edit(`,"requestUUID":"47b8d46c-12c9-4d64-98a0-ad1fbb6d0c29"`, ``), `member "requestUUID" is missing`},
		{"amount as number", edit(`"7.4"`, `7.4`), `member "amount" is not a string`},
		{"amount exponent", edit(`"7.4"`, `"7e4"`), `member "amount" has an exponent`},
		{"amount sign", edit(`"7.4"`, `"-7.4"`), `member "amount" has a sign`},
		{"amount plus", edit(`"7.4"`, `"+7.4"`), `member "amount" has a sign`},
		{"amount empty", edit(`"7.4"`, `""`), `member "amount" is empty`},
		{"amount comma", edit(`"7.4"`, `"7,4"`), `member "amount" is not a decimal number`},
		{"amount NaN", edit(`"7.4"`, `"NaN"`), `member "amount" is not a decimal number`},
		{"amount leading zero", edit(`"7.4"`, `"07.4"`), `member "amount" has a superfluous leading zero`},
		{"amount 79 digits", edit(`"7.4"`, `"`+strings.Repeat("7", 79)+`"`), `member "amount" has more than 78 digits`},
		{"duplicate member", edit(`"business":0`, `"amount":"9","business":0`), `member "amount" occurs twice`},
		{"duplicate by escape", edit(`"business":0`, `"\u0061mount":"9","business":0`), `member "amount" occurs twice`},
		{"duplicate deep", edit(`"business":0`, `"x":{"y":[{"z":1,"z":2}]},"business":0`), `member "z" occurs twice`},
		{"case variant beside", edit(`"business":0`, `"Amount":"9","business":0`), `member "Amount" differs from amount by case alone`},
		{"case variant instead", edit(`"amount"`, `"AMOUNT"`), `member "amount" is missing`},
		{"kelvin sign folds to k", edit(`"business":0`, `"trac\u212aingId":"9","business":0`), "differs from trackingId by case alone"},
		{"not an object", `[1]`, "malformed message: not a JSON object"},
		{"empty", ``, "malformed message: not a JSON object"},
		{"two objects", canonicalDeposit + `{}`, "malformed message: more follows the value"},
		{"trailing NUL", canonicalDeposit + "\x00", "malformed message: more follows the value"},
		{"BOM", "\ufeff" + canonicalDeposit, "malformed message: a byte order mark (EF BB BF), which must be left out"},
		{"invalid UTF-8", edit(`"65515"`, "\"6\xff\""), "malformed message: not valid UTF-8"},
		{"unpaired surrogate", edit(`"65515"`, `"\ud800"`), `member "tenantUserId" holds half of a surrogate pair`},
		{"surrogates swapped", edit(`"65515"`, `"\udc00\ud800"`), `member "tenantUserId" holds half of a surrogate pair`},
		{"U+0000", edit(`"65515"`, `"a\u0000"`), `member "tenantUserId" holds U+0000`},
		{"raw control character", edit(`"65515"`, "\"a\nb\""), "malformed message: a control character is in a string"},
		{"single quotes", strings.ReplaceAll(canonicalDeposit, `"`, `'`), "malformed message: a member name is missing"},
		{"trailing comma", edit(`"47b8d46c-12c9-4d64-98a0-ad1fbb6d0c29"}`, `"47b8d46c-12c9-4d64-98a0-ad1fbb6d0c29",}`), "malformed message: a member name is missing"},
		{"cut", canonicalDeposit[:100], "malformed message: "},
		{"too deep", edit(`"business":0`, `"x":`+strings.Repeat("[", 16)+strings.Repeat("]", 16)+`,"business":0`), `member "x" is nested too deeply`},
		{"too long", edit(`"business":0`, `"x":"`+strings.Repeat("x", countersign.MaxMessage)+`","business":0`), "malformed message: longer than 65536 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := countersign.ParseCallback([]byte(tt.in), countersign.ParseOptions{})
			if err == nil {
				t.Fatalf("parsed to %+v", got)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q", err, tt.want)
			}
			if !errors.Is(err, countersign.ErrMalformed) || countersign.CodeOf(err) != countersign.CodeMalformed {
				t.Errorf("error %v is not malformed", err)
			}
		})
	}
}

func TestParseDepositTakes(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		change   func(*countersign.Deposit)
	}{
		{"txIndex -1", edit(`"txIndex":5`, `"txIndex":-1`), func(d *countersign.Deposit) { d.TxIndex = -1 }},
		{"white space", " \r\n" + strings.ReplaceAll(canonicalDeposit, `":`, `" : `) + "\t", func(*countersign.Deposit) {}},
		{"escapes", edit(`"WETH"`, `"\u0057\/\ud83d\ude00\n"`), func(d *countersign.Deposit) { d.Symbol = "W/😀\n" }},
		{"empty fromAddress", edit(`"fromAddress":"0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b"`, `"fromAddress":""`), func(d *countersign.Deposit) { d.FromAddress = "" }},
		{"trailing zeros", edit(`"7.4"`, `"7.400000000000000000"`), func(d *countersign.Deposit) { d.Amount = mustAmount("7.400000000000000000") }},
		{"78 digits", edit(`"7.4"`, `"`+strings.Repeat("7", 60)+"."+strings.Repeat("1", 18)+`"`),
			func(d *countersign.Deposit) {
				d.Amount = mustAmount(strings.Repeat("7", 60) + "." + strings.Repeat("1", 18))
			}},
		{"unknown members", edit(`"business":0`, `"zeta":{"b": [1, 2.50, "x y"],"a":null},"alpha":true,"business":7`),
			func(d *countersign.Deposit) {
				d.Business = 7
				d.Extra = countersign.Members{{Name: "alpha", Value: "true"}, {Name: "zeta", Value: `{"b":[1,2.50,"x y"],"a":null}`}}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := must(countersign.ParseCallback([]byte(tt.in), countersign.ParseOptions{}))(t)
			want := wantDeposit()
			tt.change(want)
			if d := cmp.Diff(countersign.Callback(want), got, asWritten); d != "" {
				t.Error(d)
			}
			checkAgain(t, got, countersign.ParseOptions{})
		})
	}
}

// checkAgain holds a parsed callback to "what parses re-marshals to the same
// value, and canonical bytes re-marshal to themselves".
func checkAgain(t *testing.T, c countersign.Callback, o countersign.ParseOptions) {
	t.Helper()
	b, err := c.Marshal()
	if err != nil {
		t.Fatalf("marshaling what was parsed: %v", err)
	}
	again, err := countersign.ParseCallback(b, o)
	if err != nil {
		t.Fatalf("parsing %s: %v", b, err)
	}
	if d := cmp.Diff(c, again, asWritten); d != "" {
		t.Errorf("changed on the way through %s: %s", b, d)
	}
	b2, err := again.Marshal()
	if err != nil || string(b2) != string(b) {
		t.Errorf("second form %s, %v; first %s", b2, err, b)
	}
}

func TestParseLenient(t *testing.T) {
	in := `{"type":1,"requestUUID":"u","trackingId":"t","tenantUserId":"7","txId":"x","chainName":"TRON","symbol":"USDT",` +
		`"amount":2.500000000000000001,"toAddress":"T1","riskLevelTo":null}`
	if _, err := countersign.ParseCallback([]byte(in), countersign.ParseOptions{}); err == nil {
		t.Fatal("strict parse took it")
	}
	lenient := countersign.ParseOptions{Lenient: true}
	got := must(countersign.ParseCallback([]byte(in), lenient))(t)
	want := &countersign.Deposit{
		Head: countersign.Head{RequestUUID: "u", TrackingID: "t", TenantUserID: "7",
			AsSent: countersign.Members{{Name: "amount", Value: "2.500000000000000001"}}},
		TxID: "x", ChainName: "TRON", Symbol: "USDT",
		Amount: mustAmount("2.500000000000000001"), ToAddress: "T1",
		RiskLevelFrom: countersign.RiskUnknown, RiskLevelTo: countersign.RiskUnknown, TxIndex: -1,
	}
	if d := cmp.Diff(countersign.Callback(want), got, asWritten); d != "" {
		t.Error(d)
	}
	checkAgain(t, got, lenient)

	for _, effect := range []string{"requestUUID", "trackingId", "tenantUserId", "txId", "chainName", "symbol", "amount", "toAddress", "type"} {
		broken := strings.Replace(in, `"`+effect+`":`, `"x-`+effect+`":`, 1)
		_, err := countersign.ParseCallback([]byte(broken), lenient)
		var m *countersign.MemberError
		if !errors.As(err, &m) || m.Member != effect {
			t.Errorf("without %s: %v", effect, err)
		}
	}
	for _, bad := range []string{`-2.5`, `2.5e1000`, `2.5e78`, `"2.5e"`, `"2.5e+-1"`, `"1e1e1"`, `".5e1"`, `"05e1"`, `true`, `{}`} {
		broken := strings.Replace(in, `2.500000000000000001`, bad, 1)
		if _, err := countersign.ParseCallback([]byte(broken), lenient); err == nil {
			t.Errorf("took amount %s", bad)
		}
	}
}

// samples are one callback of each type, in canonical form.
var samples = map[countersign.Type]string{
	1: canonicalDeposit,
	2: `{"type":2,"trackingId":"102003","tenantUserId":"1945","callBackId":"W1","business":0,"requestUUID":"u2"}`,
	3: `{"type":3,"trackingId":"102003","tenantUserId":"1945","callBackId":"W1","txId":"5984","chainName":"TRON","symbol":"USDT",` +
		`"amount":"2.500000000000","fromAddress":"TA","toAddress":"TB","newAddress":"TB","business":0,"requestUUID":"u3"}`,
	4: `{"type":4,"trackingId":null,"tenantUserId":"2020","chainName":"TRON","symbol":"USDT","toAddress":"TOld","newAddress":"TNew","business":0,"requestUUID":"u4"}`,
	5: `{"type":5,"trackingId":"102007","tenantUserId":"r","callBackId":"D8","toAddress":"TB","business":0,"requestUUID":"u5"}`,
	6: `{"type":6,"trackingId":"102006","tenantUserId":"r","callBackId":"D6","business":0,"requestUUID":"u6"}`,
	7: `{"type":7,"trackingId":"102006","tenantUserId":"r","callBackId":"D6","business":0,"requestUUID":"u7"}`,
}

func TestEveryType(t *testing.T) {
	events := map[countersign.Type]string{1: "17173049-0001", 2: "W1", 3: "102003", 4: "", 5: "102007", 6: "102006", 7: "102006"}
	for typ, in := range samples {
		got, err := countersign.ParseCallback([]byte(in), countersign.ParseOptions{})
		if err != nil {
			t.Fatalf("type %d: %v", typ, err)
		}
		if got.CallbackType() != typ || got.EventID() != events[typ] || got.UUID() == "" || got.User() == "" {
			t.Errorf("type %d: parsed to %T %+v", typ, got, got)
		}
		if (got.OrderID() == "") != (typ == 1 || typ == 4) || len(got.Content()) < 2 || got.Content()[0] != got.User() {
			t.Errorf("type %d: order %q, content %q", typ, got.OrderID(), got.Content())
		}
		if got.Common().RequestUUID != got.UUID() || got.Common().TenantUserID != got.User() {
			t.Errorf("type %d: head %+v", typ, got.Common())
		}
		if (typ.Lane() == countersign.LaneWithdraw) != (typ == countersign.TypeRequestWithdraw) {
			t.Errorf("type %d: lane %v", typ, typ.Lane())
		}
		b, err := got.Marshal()
		if err != nil || string(b) != in {
			t.Errorf("type %d: marshals to\n%s, %v, want\n%s", typ, b, err, in)
		}
	}
}

func TestUnknownType(t *testing.T) {
	next := countersign.Type(len(countersign.TypeUnknown.Values()) + 1)
	for _, typ := range []string{"0", fmt.Sprint(int(next)), "-1", "9007199254740991"} {
		in := strings.Replace(samples[6], `"type":6`, `"type":`+typ, 1)
		_, err := countersign.ParseCallback([]byte(in), countersign.ParseOptions{})
		if !errors.Is(err, countersign.ErrUnknownType) || countersign.CodeOf(err) != countersign.CodeUnknownType {
			t.Errorf("type %s: %v", typ, err)
		}
	}
	if got := next.String(); got != fmt.Sprintf("callback type %d", int(next)) {
		t.Error(got)
	}
	if countersign.TypeNotEnoughHotMoney.String() != "NOTIFY_NOT_ENOUGH_HOT_MONEY" {
		t.Error(countersign.TypeNotEnoughHotMoney)
	}
}

func TestCountingAddress(t *testing.T) {
	a := &countersign.AddressChange{ToAddress: "to", NewAddress: "new"}
	if a.CountingAddress() != "new" {
		t.Errorf("address change %q", a.CountingAddress())
	}
	if a.Accept(countersign.Details{}).(countersign.NoticeAnswer).ToAddress != "new" {
		t.Error("the answer to an address change does not return the new address")
	}
}

func TestMarshalRefuses(t *testing.T) {
	for _, tt := range []struct {
		member string
		change func(*countersign.Deposit)
	}{
		{"trackingId", func(d *countersign.Deposit) { d.TrackingID = "" }},
		{"amount", func(d *countersign.Deposit) { d.Amount = countersign.Amount{} }},
		{"riskLevelFrom", func(d *countersign.Deposit) { d.RiskLevelFrom = 101 }},
		{"txIndex", func(d *countersign.Deposit) { d.TxIndex = -2 }},
		{"symbol", func(d *countersign.Deposit) { d.Symbol = "\xff" }},
		{"symbol", func(d *countersign.Deposit) { d.Symbol = "a\x00" }},
		{"requestUUID", func(d *countersign.Deposit) { d.RequestUUID = "" }},
		{"Amount", func(d *countersign.Deposit) { d.Extra = countersign.Members{{Name: "Amount", Value: "1"}} }},
		{"requestuuid", func(d *countersign.Deposit) { d.Extra = countersign.Members{{Name: "requestuuid", Value: "1"}} }},
		{"x", func(d *countersign.Deposit) {
			d.Extra = countersign.Members{{Name: "x", Value: "1"}, {Name: "x", Value: "2"}}
		}},
		{"x", func(d *countersign.Deposit) { d.Extra = countersign.Members{{Name: "x", Value: `1,"y":2`}} }},
		{"x", func(d *countersign.Deposit) { d.Extra = countersign.Members{{Name: "x", Value: ``}} }},
	} {
		d := wantDeposit()
		tt.change(d)
		b, err := d.Marshal()
		var m *countersign.MemberError
		if !errors.As(err, &m) || m.Member != tt.member {
			t.Errorf("want an error of %s, got %v and %s", tt.member, err, b)
		}
	}
	d := wantDeposit()
	d.Extra = countersign.Members{{Name: "x", Value: countersign.Raw(`"` + strings.Repeat("y", countersign.MaxMessage) + `"`)}}
	if _, err := d.Marshal(); !errors.Is(err, countersign.ErrMalformed) {
		t.Errorf("too long: %v", err)
	}
}

func TestManyUnknownMembers(t *testing.T) {
	// A hostile object of thousands of members is read once, not squared, and
	// a duplicate far behind is still found.
	var b strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&b, `"m%d":%d,`, i, i)
	}
	in := edit(`"business":0`, b.String()+`"business":0`)
	c, err := countersign.ParseCallback([]byte(in), countersign.ParseOptions{})
	if err != nil || len(c.Unknown()) != 4000 {
		t.Fatalf("%d unknown members, %v", len(c.Unknown()), err)
	}
	if !slices.IsSortedFunc(c.Unknown(), func(a, b countersign.Member) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	if c.Unknown().Get("m3999") != "3999" || c.Unknown().Get("none") != "" {
		t.Error("Get")
	}
	in = edit(`"business":0`, b.String()+`"m17":1,"business":0`)
	if _, err := countersign.ParseCallback([]byte(in), countersign.ParseOptions{}); err == nil || !strings.Contains(err.Error(), `"m17" occurs twice`) {
		t.Errorf("late duplicate: %v", err)
	}
}
