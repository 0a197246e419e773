package countersign_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign"
)

func TestParseAmount(t *testing.T) {
	max78 := strings.Repeat("9", 78)
	for _, good := range []string{"0", "0.0", "1", "2.5", "2.500000000000", "0.000000000000000001", "10", max78,
		"0." + strings.Repeat("1", 77), "115792089237316195423570985008687907853269984665640564039457584007913129639935"} {
		a, err := countersign.ParseAmount(good)
		if err != nil || a.String() != good || !a.IsSet() {
			t.Errorf("ParseAmount(%q) = %q, %v", good, a, err)
		}
	}
	for _, bad := range []string{"", ".", "1.", ".5", "1.2.3", "01", "00", "00.1", "-1", "+1", "1e3", "1E3", "0x1", " 1", "1 ",
		"1_000", "1,5", "١", "Infinity", max78 + "9", max78[:77] + "." + "99", strings.Repeat("1", 1<<20)} {
		if a, err := countersign.ParseAmount(bad); err == nil || a.IsSet() {
			t.Errorf("ParseAmount(%.20q) took it as %q", bad, a)
		}
	}
}

func TestAmountByValue(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"2.5", "2.500000000000", 0}, {"0", "0.000", 0}, {"10", "9.9", 1}, {"0.1", "0.01", 1},
		{"2.49999999999999999999", "2.5", -1}, {"100", "100.0", 0}, {"100", "1", 1}, {"1.05", "1.5", -1},
	} {
		a, b := mustAmount(tt.a), mustAmount(tt.b)
		if a.Cmp(b) != tt.want || b.Cmp(a) != -tt.want || a.Equal(b) != (tt.want == 0) {
			t.Errorf("%s against %s: %d", tt.a, tt.b, a.Cmp(b))
		}
	}
	var none countersign.Amount
	if none.Equal(mustAmount("0")) || none.Cmp(mustAmount("0")) != -1 || none.IsPositive() || none.IsSet() {
		t.Error("the zero Amount is a number")
	}
	if mustAmount("0.00").IsPositive() || !mustAmount("0.01").IsPositive() {
		t.Error("IsPositive")
	}
}

func TestAmountEncoding(t *testing.T) {
	var v struct{ A, B countersign.Amount }
	ok(t, json.Unmarshal([]byte(`{"A":"2.50","B":12345678901234567890.123456789}`), &v))
	b, err := json.Marshal(v)
	if err != nil || string(b) != `{"A":"2.50","B":"12345678901234567890.123456789"}` {
		t.Errorf("%s, %v", b, err)
	}
	for _, bad := range []string{`{"A":1e3}`, `{"A":-1}`, `{"A":null}`, `{"A":""}`, `{"A":true}`} {
		if err := json.Unmarshal([]byte(bad), &v); err == nil && bad != `{"A":null}` {
			t.Errorf("took %s", bad)
		}
	}
	if _, err := json.Marshal(countersign.Amount{}); err == nil {
		t.Error("the zero Amount was written")
	}
}

// amountText draws texts of the amount grammar.
func amountText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`(0|[1-9][0-9]{0,37})(\.[0-9]{1,38})?`),
		rapid.StringMatching(`(0|[1-9][0-9]?)(\.[0-9]0{0,3})?`), // close to each other
		rapid.StringMatching(`[1-9][0-9]{59}\.[0-9]{18}`),
	)
}

func TestAmountAgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := mustAmount(amountText().Draw(t, "a")), mustAmount(amountText().Draw(t, "b"))
		ra, _ := new(big.Rat).SetString(a.String())
		rb, _ := new(big.Rat).SetString(b.String())
		if a.Cmp(b) != ra.Cmp(rb) {
			t.Fatalf("%s against %s: %d, big says %d", a, b, a.Cmp(b), ra.Cmp(rb))
		}
		if a.IsPositive() != (ra.Sign() > 0) {
			t.Fatalf("IsPositive of %s", a)
		}
		c := mustAmount(a.Canonical())
		if !c.Equal(a) || len(c.String()) > len(a.String()) {
			t.Fatalf("canonical form %s of %s", c, a)
		}
		if sum, err := a.Add(b); err == nil {
			rs, _ := new(big.Rat).SetString(sum.String())
			if rs.Cmp(ra.Add(ra, rb)) != 0 {
				t.Fatalf("%s + %s = %s", a, b, sum)
			}
		} else if digits := len(strings.TrimLeft(a.Canonical()+b.Canonical(), "0.")); digits <= countersign.MaxAmountDigits/2 {
			t.Fatalf("%s + %s: %v", a, b, err)
		}
	})
}

func TestAmountAddOverflow(t *testing.T) {
	big78 := mustAmount(strings.Repeat("9", 78))
	if s, err := big78.Add(mustAmount("1")); err == nil {
		t.Errorf("79 digits: %s", s)
	}
	if s, err := (countersign.Amount{}).Add(mustAmount("0.10")); err != nil || s.String() != "0.1" {
		t.Errorf("%s, %v", s, err)
	}
}

func FuzzParseAmount(f *testing.F) {
	for _, s := range []string{"0", "2.500", "0.000000000000000001", "1e3", "-1", ".", "01", "1.", strings.Repeat("9", 79)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := countersign.ParseAmount(s)
		if err != nil {
			return
		}
		r, ok := new(big.Rat).SetString(s)
		if a.String() != s || !ok || r.Sign() < 0 || strings.ContainsAny(s, "eE+-/_xX") {
			t.Fatalf("took %q as %q", s, a)
		}
		if rc, ok := new(big.Rat).SetString(a.Canonical()); !ok || rc.Cmp(r) != 0 {
			t.Fatalf("canonical %q of %q", a.Canonical(), s)
		}
	})
}
