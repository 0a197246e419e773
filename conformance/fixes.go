package conformance

import (
	"strings"

	"countersign/countersigntest"
)

// fixes say what to change at an endpoint that fails a case, by how the names of cases begin: the longest counts.
var fixes = map[string]string{
	"deposit/blocks": "Find the 00 that ends the padding in every block; do not assume full blocks. Join the bytes of " +
		"all blocks before decoding them as UTF-8.",
	"repeat/at-once":            "Let the database decide which attempt is first, and answer the others as repeats.",
	"repeat/two-transfers":      "txId and address do not identify a deposit: trackingId does.",
	"repeat/possible-duplicate": "Record a possible duplicate and answer it with errCode 0; a person decides.",
	"repeat/other-content":      contentFix,
	"notice/other-content":      contentFix,
	"notice/unknown-type":       "Check type first: a callback of an unknown type must not be acknowledged.",
	"withdrawal/": "Confirm a withdrawal only from your own order book, by callBackId and tenantUserId, byte for " +
		"byte. The request says which withdrawal, never where the money goes; one order pays one withdrawal.",
	"http/api-key":           countersigntest.FaultNoAPIKey.Fix(),
	"http/public-part-alone": countersigntest.FaultNoAPIKey.Fix(),
	"http/wrong-url":         countersigntest.FaultWrongURL.Fix(),
	"http/": "Read the raw body to its end, whatever Content-Type and Content-Length say, but at most 65,536 bytes, " +
		"within a time and beside other connections. Never process half a body.",
	"sealing/": "Check the padding of every block byte by byte: 00, the type, at least eight FF, 00, data; and that " +
		"the block is below the modulus. Open every block, take whole blocks only, and parse the whole strictly.",
	"form/": "Read the raw body: bare Base64, a form field, a JSON string, or a JSON object (PROTOCOL.md, Body " +
		"forms). Decode standard Base64 strictly; mend nothing.",
	"message/": "Parse strictly: no member twice at any depth, exact names and types, standard JSON in UTF-8.",
	"binding/": countersigntest.FaultSpliced.Fix(),
	"other/": "Take other forms that say the same (PROTOCOL.md, M12 and A4): convert them when you parse, the amount " +
		"as a text and never by a floating-point number; refuse what does not say which withdrawal.",
	"restart/": "Write to the disk, in one transaction, the trackingId, what it stands for (what moved to where, or " +
		"which order it confirmed) and the credit, and answer when that is committed: what is in memory alone is gone " +
		"after a kill.",
	"link/refused":    countersigntest.FaultUnsigned.Fix(),
	"link/withdrawal": countersigntest.FaultUnsigned.Fix(),
}

const (
	contentFix = "Keep what an accepted trackingId stood for. A repeat that says something else is refused with " +
		"errCode 2002, and a person looks at it. Amounts are compared as exact decimals: as floating-point numbers two " +
		"are equal that differ in the 18th digit or later."
)

func fixOf(name string) string {
	best := ""
	for beginning := range fixes {
		if strings.HasPrefix(name, beginning) && len(beginning) > len(best) {
			best = beginning
		}
	}
	return fixes[best]
}
