// Package relay carries what a wallet core has booked from the core's own database to
// the service, and decisions back.
//
// The core inserts a row into a table of its own PostgreSQL, in the transaction that
// books the deposit. A relay sends the row to the service and deletes it once the
// service has acknowledged it. The service knows a repetition by the deposit's
// trackingId and the withdrawal's callBackId, so sending a row twice is the same as
// sending it once.
//
// # Order
//
// The rows of one merchant arrive at the service in the order of their ids, which is
// the order of transactions that followed each other. This does not depend on a lock.
// A relay sends a row only after every row of the merchant that it saw before has been
// acknowledged or refused, and a row that it did not see, of an earlier transaction,
// had been acknowledged. So whichever of several relays is the first to deliver a row,
// the rows before it were delivered. The lock on a merchant only saves the work of
// sending everything twice.
package relay
