// Package countersign is the vocabulary of the custody callback protocol:
// its messages, amounts, answers and error codes, their canonical bytes,
// their strict parsing, and the binding of a request to its requestUUID.
//
// The service tells a merchant of a deposit and asks it to countersign a
// withdrawal. Both travel as one JSON object, which package envelope seals
// with RSA. This package is what lies inside the seal:
//
//	service   Deposit.Marshal → Bind → (seal, POST)
//	merchant  (open) → CheckBinding → ParseCallback → Deposit
//	merchant  Deposit.Accept → Answer.Marshal → (seal) → Response.Marshal
//	service   ParseResponse → (open) → ParseAnswer → Deposit.Differs
//
// Everything here is pure: bytes in, a value or an error out. Nothing reads a
// clock, the environment or a random source, and nothing logs. Nothing is
// imported but the standard library and the strict reader of JSON. PROTOCOL.md
// numbers the rules that the comments refer to.
package countersign
