// Package client calls the two JSON APIs of countersign from Go: a Service is
// the wallet service's API, a Gateway the merchant's.
//
// Both are made from a Config and start nothing. A method has the name of its
// operation in /openapi.json. A list is read page by page or, by a method whose
// name begins with All, as an iterator over all pages. A feed is read in parts
// or, by a method whose name begins with Follow, as an iterator that waits for
// new entries. Contexts bound the calls; a Client of net/http with a time-out
// of its own would cut off calls that wait on purpose.
//
// # Errors
//
// An answer with an error status is a *Problem, which says what is wrong and
// with which member. Callers branch on the sentinels with errors.Is: ErrNotFound,
// ErrConflict, ErrInvalid, ErrUnauthorized, ErrForbidden, ErrTooMany and
// ErrUnavailable.
//
// After ErrUnavailable, or an answer that broke off, the call may have been
// carried out. Nearly every call can be repeated: the same deposit, withdrawal,
// order, release, outcome or cursor again is the same one. CreateMerchant and
// ResendCallback, repeated, may say ErrConflict because the first call did its
// work; RotateKeys and CreateToken make others; ReportWaiting tells the merchant
// once more, which does no harm.
//
// # Types
//
// The structs are the JSON of the APIs, and both servers read and write these
// same structs. Texts are UTF-8 and their lengths are in characters. A type
// that both ends have in different forms begins with the end: ServiceStats and
// GatewayStats.
package client
