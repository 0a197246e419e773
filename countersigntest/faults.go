package countersigntest

import "countersign"

// fault describes a fault of a service or of a merchant.
type fault[F ~string] struct {
	is        F
	about     string
	signing   bool   // it is one of the signature
	refusal   string // of a service: see ServiceFault.Refusal
	fix       string // of a service: what to change at a merchant that takes it
	tolerated bool   // of a merchant: a known difference between peers

	// Of a merchant: an errCode, or what it makes of the plaintext of an answer, or of a response.
	code   countersign.ErrCode
	answer func(plaintext []byte, cb countersign.Callback, previous string) []byte
	body   func(m *Merchant, r countersign.Response, plaintext []byte) []byte
}

func listOf[F ~string](faults []fault[F]) (list []F) {
	for _, f := range faults {
		list = append(list, f.is)
	}
	return list
}

func rowOf[F ~string](faults []fault[F], f F) fault[F] {
	for _, row := range faults {
		if row.is == f {
			return row
		}
	}
	return fault[F]{}
}
