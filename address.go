package countersign

import "strings"

// SameAddress reports whether a and b name one address. Two EVM addresses (0x
// and 40 hexadecimal digits) compare without regard to case, because the case
// of their letters is a checksum; all others, TRON's among them, compare byte
// for byte.
func SameAddress(a, b string) bool {
	if isEVMAddress(a) && isEVMAddress(b) {
		return strings.EqualFold(a, b)
	}
	return a == b
}

func isEVMAddress(s string) bool {
	if len(s) != 42 || s[0] != '0' || s[1] != 'x' {
		return false
	}
	for i := 2; i < len(s); i++ {
		if !isHex(s[i]) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
