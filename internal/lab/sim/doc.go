// Package sim runs both daemons whole, with a wallet core and a merchant's application around them, in one process whose time is virtual: a week of a bad world takes seconds.
//
// Run must be called in a bubble of testing/synctest. A seed draws a plan: deposits and
// withdrawals, and the faults of the network, of the disks and of the processes between them.
// At the end all faults stop, and the ledgers of all parties are compared.
package sim
