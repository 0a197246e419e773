package countersign

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxAmountDigits is the most digits an Amount has, before and after the point
// together. 2^256-1, the largest balance of an EVM token, has 78.
const MaxAmountDigits = 78

// Amount is an exact, non-negative decimal number (PROTOCOL.md, Amounts). It is
// kept as written: "2.500" stays "2.500" on the wire and equals "2.5" by value.
// It is never converted to a floating-point number. The zero Amount holds no
// number, not the number 0. Compare Amounts with Cmp or Equal, not with ==.
type Amount struct{ text string }

var errAmount = errors.New("amount")

// ParseAmount reads digits with at most one point between them: no sign, no
// exponent, no superfluous leading zero, 1 to MaxAmountDigits digits
// (PROTOCOL.md, A1). It inverts String. Its error says which of these rules s
// breaks and does not repeat s.
func ParseAmount(s string) (Amount, error) {
	if p := amountProblem(s); p != "" {
		return Amount{}, fmt.Errorf("%w %s", errAmount, p)
	}
	return Amount{s}, nil
}

// amountProblem checks length and shape only, so that a hostile text costs no
// arithmetic.
func amountProblem(s string) string {
	if s == "" {
		return "is empty"
	}
	if len(s) > MaxAmountDigits+1 {
		return fmt.Sprintf("has more than %d digits", MaxAmountDigits)
	}
	point := -1
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
		case c == '.' && point < 0:
			point = i
		case c == '.':
			return "has two points"
		case c == 'e' || c == 'E':
			return "has an exponent"
		case c == '-' || c == '+':
			return "has a sign"
		default:
			return "is not a decimal number"
		}
	}
	switch {
	case point == 0:
		return "has no digit before the point"
	case point == len(s)-1:
		return "has no digit after the point"
	case s[0] == '0' && len(s) > 1 && point != 1:
		return "has a superfluous leading zero"
	case point < 0 && len(s) > MaxAmountDigits:
		return fmt.Sprintf("has more than %d digits", MaxAmountDigits)
	}
	return ""
}

// exponentDigits bounds the exponents that plainAmount reads (PROTOCOL.md, A4).
const exponentDigits = 3

// plainAmount returns s without an exponent, such as JSON numbers and Java's BigDecimal.toString may have ("1E-7"). It
// only moves the point, so the value is exact. Zeros at the end of the fraction stay, unless there are too many for an
// Amount.
func plainAmount(s string) (text, problem string) {
	at := strings.IndexAny(s, "eE")
	if at < 0 {
		return s, amountProblem(s)
	}
	mantissa := s[:at]
	if p := amountProblem(mantissa); p != "" {
		return "", p
	}
	shift, ok := exponent(s[at+1:])
	if !ok {
		return "", fmt.Sprintf("has an exponent that is not of one to %d digits", exponentDigits)
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits, point := whole+frac, len(whole)+shift
	switch {
	case point <= 0:
		text = "." + strings.Repeat("0", -point) + digits
	case point >= len(digits):
		text = digits + strings.Repeat("0", point-len(digits))
	default:
		text = digits[:point] + "." + digits[point:]
	}
	text = strings.TrimLeft(text, "0")
	if text == "" || text[0] == '.' {
		text = "0" + text
	}
	if amountProblem(text) != "" {
		text = Amount{text}.Canonical()
	}
	return text, amountProblem(text)
}

// exponent reads digits with or without a sign.
func exponent(s string) (int, bool) {
	digits := s
	if s != "" && (s[0] == '-' || s[0] == '+') {
		digits = s[1:]
	}
	if digits == "" || len(digits) > exponentDigits || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// String returns the amount as it was written; empty for the zero Amount.
func (a Amount) String() string { return a.text }

// IsSet reports whether a holds a number, 0 included.
func (a Amount) IsSet() bool { return a.text != "" }

// IsPositive reports whether a is a number above 0.
func (a Amount) IsPositive() bool { return strings.ContainsAny(a.text, "123456789") }

// Canonical returns the shortest form of the same value: no zeros at the end of
// the fraction, no point without a fraction.
func (a Amount) Canonical() string {
	whole, frac := a.split()
	if frac == "" {
		return whole
	}
	return whole + "." + frac
}

// split returns the digits before the point and those after it without the zeros
// at their end.
func (a Amount) split() (whole, frac string) {
	whole, frac, _ = strings.Cut(a.text, ".")
	return whole, strings.TrimRight(frac, "0")
}

// Decimals returns how many digits stand after the point, not counting zeros at their end.
func (a Amount) Decimals() int {
	_, frac := a.split()
	return len(frac)
}

// Cmp compares by value (PROTOCOL.md, A2): -1 if a < b, 0 if they are equal, 1 if
// a > b. The zero Amount is less than every number and equal to itself.
func (a Amount) Cmp(b Amount) int {
	aw, af := a.split()
	bw, bf := b.split()
	// There are no superfluous leading zeros, so more digits are a larger
	// number, and texts of equal length compare like their numbers.
	if len(aw) != len(bw) {
		if len(aw) < len(bw) {
			return -1
		}
		return 1
	}
	if c := strings.Compare(aw, bw); c != 0 {
		return c
	}
	return strings.Compare(af, bf)
}

// Equal reports whether a and b are the same number, or both no number.
func (a Amount) Equal(b Amount) bool { return a.Cmp(b) == 0 }

// MarshalText returns the amount as written and fails for the zero Amount.
func (a Amount) MarshalText() ([]byte, error) {
	if !a.IsSet() {
		return nil, fmt.Errorf("%w is empty", errAmount)
	}
	return []byte(a.text), nil
}

// UnmarshalText is ParseAmount for encoding packages.
func (a *Amount) UnmarshalText(b []byte) (err error) {
	*a, err = ParseAmount(string(b))
	return err
}

// UnmarshalJSON takes a JSON string or a JSON number, whose digits it reads as
// text. The parsers of messages do not use it, because they allow a number only
// where the protocol does (PROTOCOL.md, A3).
func (a *Amount) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		return a.UnmarshalText([]byte(s))
	}
	return a.UnmarshalText(b)
}
