// Package proof runs a wallet core, the relay, the service and a merchant as processes, kills
// them, and compares the ledgers in the end. It is for tests.
package proof
