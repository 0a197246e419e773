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
	digits, ok := strings.CutPrefix(s, "0x")
	return ok && len(digits) == 40 && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}
