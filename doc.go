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
// Every function is pure: bytes in, a value or an error out. None reads a clock,
// the environment or a random source, and none logs. The package imports only the
// standard library and the strict reader of JSON. Comments name the rules of
// PROTOCOL.md that they implement, such as M1.
package countersign
