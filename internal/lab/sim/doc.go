// Package sim runs both daemons whole, with a wallet core and a merchant's application around them, in one process
// whose time is virtual: a week of a bad world takes seconds.
//
// Run must be called in a bubble of testing/synctest. A seed draws a plan: deposits and
// withdrawals, and the faults of the network, of the disks and of the processes between them.
// At the end all faults stop, and the ledgers of all parties are compared.
//
// Several nodes are not here. Two processes do not share a SQLite file, and a store in memory
// that acts as PostgreSQL does would have to do what the nodes depend on: row locks that wait,
// statements that see what others committed meanwhile, advisory locks, notifications. That is not a simple
// store, and a fault of it would look like one of the daemons. The tests of nodes run on
// PostgreSQL.
package sim
