// Package client calls the two JSON APIs of countersign from Go: a Service is
// the wallet service's API, a Gateway the merchant's.
//
// Both are made from a Config and start nothing. A method has the name of its
// operation in /openapi.json; operations without one are called by Get and Post, with
// the path and this package's types. A list is read page by page or, by All, as an iterator
// over all pages. A feed is read in parts or, by Follow, as an iterator that waits for
// new entries. Contexts bound the calls; an http.Client with a Timeout would cut off
// calls that wait on purpose.
//
// # Errors
//
// A call whose answer has an error status returns a *Problem, which names the fault and the
// member. Callers branch on the sentinels with errors.Is: ErrNotFound, ErrConflict,
// ErrInvalid, ErrUnauthorized, ErrForbidden, ErrTooMany and ErrUnavailable.
//
// After ErrUnavailable, or an answer that broke off, the call may have been carried
// out. Nearly every call can be repeated: repeating a deposit, withdrawal, order,
// release, outcome or cursor changes nothing. CreateMerchant and ResendCallback,
// repeated, may return ErrConflict because the first call succeeded. CreateToken,
// repeated, makes another token. ReportWaiting, repeated, notifies the merchant once
// more, which does no harm.
//
// # Types
//
// The structs are the JSON of the APIs, and both servers read and write these same
// structs. Texts are UTF-8 and their lengths are in characters. A type that differs
// between the ends begins with the end's name: ServiceStats and GatewayStats.
package client
