// Package db is an open database, SQLite or PostgreSQL behind one interface: transactions, migrations, the clock and
// the wake-ups that its nodes share, and secrets sealed at rest.
//
// One SQL text serves both kinds; Dialect holds their differences. When Write returns nil, the change is durable. A
// call that fails because its context ended or the connection broke may or may not have changed the database, so every
// change must be safe to repeat.
package db
