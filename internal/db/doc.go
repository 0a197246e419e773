// Package db is an open database, SQLite or PostgreSQL behind one interface:
// transactions, migrations, the clock and the wake-ups that its nodes share, and
// secrets sealed at rest.
//
// One SQL text serves both kinds; Dialect holds their differences. Every change
// has been committed durably when Write returns nil. A call that fails because its
// context ended or the connection broke may have been done all the same, so
// every change here can be repeated.
package db
