package sqlinbox

import (
	"context"
	"database/sql"
	"errors"

	"countersign"
	"countersign/merchant"
)

// Config has the settings of an Inbox. Each function may be nil: then callbacks of its
// types are only recorded, or the function of merchant.Config is called, outside of
// any transaction. The package comment says what a function may do.
type Config struct {
	// DB is the merchant's database, with the tables of DDL. Required. New does not
	// close it.
	DB *sql.DB
	// Dialect is its kind. Required.
	Dialect Dialect

	// OnDeposit does the merchant's part of a deposit. A nil error accepts it. An
	// error that is a *merchant.CodeError chooses the errCode; any other means 5000.
	OnDeposit func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error
	// OnPossibleDuplicate does the merchant's part of a deposit that may have been
	// credited before, or that may be joined from several (PROTOCOL.md, I2 and B7).
	// It must not credit before a person has decided. Required where there is an
	// OnDeposit; KeepForReview leaves such deposits in the table.
	OnPossibleDuplicate func(ctx context.Context, tx *sql.Tx, d merchant.Deposit) error
	// OnWithdrawal answers a withdrawal, as that of merchant.Config. It is not called about one
	// that a type 3 or 5 has ended: that is refused with 2005.
	OnWithdrawal func(ctx context.Context, tx *sql.Tx, w countersign.WithdrawalRequest) (merchant.Answer, error)
	// WithdrawalLock names what OnWithdrawal reads for a limit. Calls with the same name wait for each other, in all
	// processes, so that none reads a sum that another is about to change. If all limits are for one user each, it may
	// be the user. Nil: all calls wait for each other.
	WithdrawalLock func(w countersign.WithdrawalRequest) string
	// OnNotice does the merchant's part of a notice, as that of merchant.Config.
	OnNotice func(ctx context.Context, tx *sql.Tx, cb countersign.Callback) error
}

// KeepForReview is an OnPossibleDuplicate that does nothing: nobody is credited, and
// Inbox.Held lists the deposit until a person decides (Inbox.Credit, Inbox.Reject).
func KeepForReview(context.Context, *sql.Tx, merchant.Deposit) error { return nil }

// ErrConfig is wrapped by all errors of New.
var ErrConfig = errors.New("sqlinbox: configuration")

// Inbox is a merchant.Transactor in a database. New makes it. Many goroutines and, but
// for SQLite, many processes may use the same tables.
type Inbox struct {
	c Config
	// turn holds a value while a transaction on SQLite runs: without it, those of one
	// process would wait for each other by polling.
	turn chan struct{}
}
