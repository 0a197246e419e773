package countersign

import "strings"

// SameAddress reports whether a and b name one address: AddressKey is the same.
func SameAddress(a, b string) bool { return AddressKey(a) == AddressKey(b) }

// AddressKey gives every spelling of one address the same text, for maps,
// digests and comparisons. EVM addresses (0x and 40 hexadecimal digits) become
// lower case, because the case of their letters is a checksum; all others,
// TRON's among them, count byte for byte and stay as they are.
func AddressKey(address string) string {
	if isEVMAddress(address) {
		return strings.ToLower(address)
	}
	return address
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
