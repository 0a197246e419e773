// Package relay carries what a wallet core has booked from the core's own database to the service, and decisions and
// permits back.
//
// The core inserts a row into a table of its own PostgreSQL, in the transaction that books the deposit, or what became
// of a withdrawal. A relay sends the row to the service and deletes it once the service has acknowledged it. The
// service knows a repetition of everything that counts once, so sending a row twice is the same as sending it
// once.
//
// # Order
//
// The deposits, withdrawals and addresses of one merchant arrive at the service in the order of their ids, which is the
// order of transactions that followed each other. So do the rows about one withdrawal. This does not depend on a lock.
// A relay sends a row only after every row before it that it saw was acknowledged or refused. A row of an earlier
// transaction that it did not see had been acknowledged. So whichever of several relays is the first to deliver a row,
// the rows before it were delivered. The lock on the table only saves the work of sending everything twice, and keeps a
// late relay from writing permits.
package relay
