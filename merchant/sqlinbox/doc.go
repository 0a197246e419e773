// Package sqlinbox is a merchant.Inbox in the merchant's own database, over
// database/sql: PostgreSQL, MySQL (or MariaDB) and SQLite. The merchant's
// functions get the transaction that records the callback, so a deposit is
// credited once, or it is not recorded:
//
//	db, err := sql.Open("pgx", url) // any driver of one of the three databases
//	err = sqlinbox.Create(ctx, db, sqlinbox.PostgreSQL)
//	inbox, err := sqlinbox.New(sqlinbox.Config{
//		DB: db, Dialect: sqlinbox.PostgreSQL,
//		OnDeposit: func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error {
//			_, err := tx.ExecContext(ctx, `UPDATE balances SET amount = amount + $1 WHERE user_id = $2 AND symbol = $3`,
//				d.Amount.String(), d.TenantUserID, d.Symbol)
//			return err
//		},
//		OnPossibleDuplicate: sqlinbox.KeepForReview,
//	})
//	handler, err := merchant.New(merchant.Config{Key: key, APIKey: apiKey, Inbox: inbox})
//
// # What a function may do
//
// A function writes only through its tx, and must not commit it or roll it back.
// It returns every error of tx: after one the database may have rolled the
// transaction back. If it returns nil, what it wrote is committed together with
// the record of the callback, and the service gets errCode 0. If it returns an
// error or panics, nothing is committed, and the service asks again.
//
// It may be called more than once for a callback, each time after what it wrote before
// was rolled back: after an error, after a deadlock or a failed serialization, which
// are repeated at once, and after the end of the process. So everything that must
// happen once belongs into tx, and a function neither waits for the network nor tells
// others. While it runs, the transaction holds its locks.
//
// What OnWithdrawal wrote is committed if its answer is recorded, which is so for
// Confirm and Refuse. With Hold and an error it is rolled back. A repetition of a question that
// was confirmed calls it again: if it confirms again, what it wrote then is rolled back, and the
// answer is the recorded one; if it refuses, that is recorded in place of the confirmation.
//
// # The databases
//
// Any number of processes may share one PostgreSQL or MySQL. Transactions there have the isolation
// READ COMMITTED: change a balance by one UPDATE, or read it with FOR UPDATE.
// MySQL needs tables of InnoDB for everything that a function writes, and a binlog_format
// of ROW or MIXED.
//
// SQLite has one writer. The transaction is the writer from its start, so what a function
// reads does not change until it commits. Use WAL, a busy_timeout, and synchronous FULL,
// which is what makes a commit durable. A function that uses the *sql.DB in place
// of tx waits for itself.
//
// A commit must be on disk when it returns: no synchronous_commit=off in PostgreSQL,
// innodb_flush_log_at_trx_commit=1 in MySQL.
package sqlinbox
