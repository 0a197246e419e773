package countersign

import (
	"fmt"
	"math/big"
	"strings"
)

// Sum is an exact decimal number of any sign and any number of digits. A sum of Amounts can have more digits than an
// Amount may have, and a limit must not fail because of that. The zero Sum is 0. Compare Sums with Cmp, not with ==.
type Sum struct{ number big.Rat } // never changed

// ParseSum is the inverse of Sum.String. It takes any number of digits, so use it only for texts that
// this program wrote.
func ParseSum(text string) (s Sum, err error) {
	if _, ok := s.number.SetString(text); !ok || strings.Trim(text, "-.0123456789") != "" {
		return Sum{}, fmt.Errorf("%q is not a decimal number", text)
	}
	return s, nil
}

// Sum returns a as a Sum, and 0 for the zero Amount.
func (a Amount) Sum() Sum {
	s, _ := ParseSum(a.text) // an Amount is a decimal number
	return s
}

// Add returns a+b in canonical form. The zero Amount counts as 0. It fails if the
// sum has more than MaxAmountDigits digits.
func (a Amount) Add(b Amount) (Amount, error) {
	r, err := ParseAmount(a.Sum().Plus(b.Sum()).String())
	if err != nil {
		return Amount{}, fmt.Errorf("adding: %w", err)
	}
	return r, nil
}

// Negative returns -s.
func (s Sum) Negative() (n Sum) {
	n.number.Neg(&s.number)
	return n
}

// Plus returns s+t.
func (s Sum) Plus(t Sum) (sum Sum) {
	sum.number.Add(&s.number, &t.number)
	return sum
}

// Cmp compares by value: -1 if s < t, 0 if they are equal, 1 if s > t.
func (s Sum) Cmp(t Sum) int { return s.number.Cmp(&t.number) }

// String writes all digits, without zeros at the end of the fraction.
func (s Sum) String() string {
	digits, _ := s.number.FloatPrec()
	return s.number.FloatString(digits)
}

// MarshalText is String.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSum.
func (s *Sum) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSum(string(b))
	return err
}
