package countersign

import (
	"regexp"
	"strings"
)

// SameAddress reports whether a and b are spellings of one address: AddressKey is the same.
func SameAddress(a, b string) bool { return a == b || AddressKey(a) == AddressKey(b) }

// AddressKey returns one text for all spellings of the bytes of an address (PROTOCOL.md, A5). Use it where money is
// decided: to compare a callback with its repetition and an answer with its order, and in allow lists. Two spellings
// have the same key only if they encode the same bytes and their checksums, if the form has one, are right. A text in
// no known form is its own key, so a query such as ?memo=1 makes it another address. To find addresses that only may be
// the same, use FoldAddress.
func AddressKey(address string) string {
	key, _ := addressKey(address)
	return key
}

// KnownAddress reports whether address is in a form that AddressKey reads. Any other text is equal only to itself.
func KnownAddress(address string) bool {
	_, known := addressKey(address)
	return known
}

// scheme matches what precedes an address or a transaction in a URI or a CAIP-10 account.
var scheme = regexp.MustCompile(`^(?i:[a-z][a-z0-9+-]{0,15}:(//(transfer/)?|pay-|[0-9]{1,20}:)?)`)

// cutScheme returns s without one scheme, and whether it had one.
func cutScheme(s string) (rest string, found bool) {
	if strings.IndexByte(s, ':') < 0 {
		return s, false
	}
	rest = s[len(scheme.FindString(s)):]
	return rest, rest != s
}

// addressForms read the spellings of one family each. All are tried, in this order.
var addressForms = [...]func(string) (key string, ok bool){
	hexAddress, bech32Address, cashAddress, base58Address, tonAddress, stellarAddress,
}

func addressKey(address string) (key string, known bool) {
	for s, found := address, true; found; s, found = cutScheme(s) {
		for _, form := range addressForms {
			if key, ok := form(s); ok {
				return key, true
			}
		}
	}
	return address, false
}
