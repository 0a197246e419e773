package countersign

import (
	"fmt"
	"math/big"
	"strings"
)

// Sum is an exact decimal number of any sign and any number of digits. A sum of Amounts can have more digits than an
// Amount may have, and a limit must not fail because of that. The zero Sum is 0. Compare Sums with Cmp, not with ==.
type Sum struct {
	digits big.Int // the number times ten to the power of scale; never changed
	scale  int
}

// ParseSum is the inverse of Sum.String. It takes any number of digits, so use it only for texts that
// this program wrote.
func ParseSum(text string) (s Sum, err error) {
	whole, fraction, _ := strings.Cut(text, ".")
	if _, ok := s.digits.SetString(whole+fraction, 10); !ok {
		return Sum{}, fmt.Errorf("%q is not a decimal number", text)
	}
	s.scale = len(fraction)
	return s, nil
}

// Sum returns a as a Sum, and 0 for the zero Amount.
func (a Amount) Sum() Sum {
	s, _ := ParseSum(a.text) // an Amount is a decimal number
	return s
}

// Negative returns -s.
func (s Sum) Negative() (n Sum) {
	n.scale = s.scale
	n.digits.Neg(&s.digits)
	return n
}

// Plus returns s+t.
func (s Sum) Plus(t Sum) (sum Sum) {
	sum.scale = max(s.scale, t.scale)
	sum.digits.Add(s.scaled(sum.scale), t.scaled(sum.scale))
	return sum
}

// Cmp compares by value: -1 if s < t, 0 if they are equal, 1 if s > t.
func (s Sum) Cmp(t Sum) int {
	scale := max(s.scale, t.scale)
	return s.scaled(scale).Cmp(t.scaled(scale))
}

func (s Sum) scaled(scale int) *big.Int {
	if scale == s.scale {
		return &s.digits
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale-s.scale)), nil)
	return power.Mul(power, &s.digits)
}

// String writes all digits, without zeros at the end of the fraction.
func (s Sum) String() string {
	text, sign := s.digits.String(), ""
	if strings.HasPrefix(text, "-") {
		text, sign = text[1:], "-"
	}
	if s.scale > 0 {
		text = strings.Repeat("0", max(0, s.scale+1-len(text))) + text
		point := len(text) - s.scale
		text = strings.TrimRight(text[:point]+"."+text[point:], "0")
	}
	return sign + strings.TrimSuffix(text, ".")
}

// MarshalText is String.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSum.
func (s *Sum) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSum(string(b))
	return err
}
