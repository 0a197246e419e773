package store

import (
	"context"
	"errors"
)

var errNotYet = errors.New("not yet")

// Ingest keeps callbacks, all or none, and returns after a durable commit. The
// same (merchant, type, event) with the same payload gives the row that is
// there, as Duplicate; with another payload it is a *ConflictError that names
// the item. An unknown merchant is an *ItemError that wraps ErrNotFound. Type 2
// is refused: see CreateWithdrawal.
func (s *Store) Ingest(ctx context.Context, items []NewCallback, now Millis) ([]Ingested, error) {
	return nil, errNotYet
}

// ItemError says which item of a batch an error belongs to.
type ItemError struct {
	Item   int
	Member string // may be empty
	Err    error
}

func (e *ItemError) Error() string { return e.Err.Error() }

// Unwrap gives the error itself.
func (e *ItemError) Unwrap() error { return e.Err }

// ClaimRequest asks for work.
type ClaimRequest struct {
	Lane       Lane
	Node       string // who claims; kept with lost leases
	Now        Millis
	LeaseUntil Millis
	Max        int // at most this many; above 0
}

// Claim takes up to Max due callbacks of a lane, each with a lease until
// LeaseUntil, and shares them among the merchants that wait: those served
// longest ago come first. It passes over merchants that are paused, at their
// concurrency, out of rate or behind an open breaker. Repeating it gives other
// callbacks; what a failed call has claimed comes back when its lease ends.
func (s *Store) Claim(ctx context.Context, r ClaimRequest) ([]Claimed, error) {
	return nil, errNotYet
}

// NextDue is when a Claim of the lane can next find something, Never when
// nothing waits. A time that has passed means now; where a Claim found nothing
// all the same, another node holds the merchant's row at this moment: ask again
// after a few milliseconds.
func (s *Store) NextDue(ctx context.Context, lane Lane, now Millis) (Millis, error) {
	return Never, errNotYet
}

// GiveBack returns callbacks that were claimed and not attempted: due at once,
// and nothing counts against their schedule. Those whose lease was lost are
// left as they are.
func (s *Store) GiveBack(ctx context.Context, claimed []Claimed, now Millis) error {
	return errNotYet
}

// Settle ends attempts, in one transaction, and says of each, in the same
// order, what it did. A settlement that has lost its lease changes nothing and
// does not disturb the others; its attempt is kept as late. Repeating a call
// gives the same answers and changes nothing.
func (s *Store) Settle(ctx context.Context, settlements []Settlement, now Millis) ([]Settled, error) {
	return nil, errNotYet
}

// Swept says what a Sweep did.
type Swept struct {
	Lost      []string // callbacks whose lease was lost; pending again
	Expired   []string // withdrawals that expired
	Exhausted int      // callbacks other than type 2 that passed their deadline
	Repaired  int      // merchants whose waiting work had been overlooked
	More      bool     // a bound was reached: sweep again soon
}

// Sweep returns lost leases, expires withdrawals past their deadline together
// with their callbacks, and repairs what a crash between two statements left.
// One call does a bounded amount.
func (s *Store) Sweep(ctx context.Context, now Millis) (Swept, error) {
	return Swept{}, errNotYet
}

// ReclaimAll returns every lease at once and says how many. With SQLite the
// file lock proves that no other process lives; elsewhere it does nothing.
func (s *Store) ReclaimAll(ctx context.Context, now Millis) (int, error) { return 0, errNotYet }

// Callback gives one callback.
func (s *Store) Callback(ctx context.Context, id string) (Callback, error) {
	return Callback{}, errNotYet
}

// Attempts gives the attempts of a callback in order of their number.
func (s *Store) Attempts(ctx context.Context, id string) ([]Attempt, error) {
	return nil, errNotYet
}

// Callbacks lists callbacks, newest first, from cursor on. next is empty at the
// end.
func (s *Store) Callbacks(ctx context.Context, f CallbackFilter, limit int, cursor string) (list []Callback, next string, err error) {
	return nil, "", errNotYet
}

// Resend makes a refused or exhausted callback due at once, its schedule
// started anew. Any other state, and type 2, is a *ConflictError.
func (s *Store) Resend(ctx context.Context, id string, now Millis) (Callback, error) {
	return Callback{}, errNotYet
}

// ResendMatching resends what f selects among refused and exhausted callbacks
// other than type 2, and says how many; with dryRun it only counts. It works in
// bounded steps: where it fails, some may have been resent.
func (s *Store) ResendMatching(ctx context.Context, f CallbackFilter, dryRun bool, now Millis) (int64, error) {
	return 0, errNotYet
}

// CreateWithdrawal keeps a withdrawal and queues its type 2 callback. The same
// callBackId with the same content gives the one that is there, with duplicate
// true; with other content it is a *ConflictError.
func (s *Store) CreateWithdrawal(ctx context.Context, n NewWithdrawal, now Millis) (w Withdrawal, duplicate bool, err error) {
	return Withdrawal{}, false, errNotYet
}

// Withdrawal gives one withdrawal.
func (s *Store) Withdrawal(ctx context.Context, id string) (Withdrawal, error) {
	return Withdrawal{}, errNotYet
}

// WithdrawalByCallBackID gives the withdrawal that the service called
// callBackID.
func (s *Store) WithdrawalByCallBackID(ctx context.Context, merchant, callBackID string) (Withdrawal, error) {
	return Withdrawal{}, errNotYet
}

// Withdrawals lists withdrawals, newest first, from cursor on; merchant and
// state may be empty. next is empty at the end.
func (s *Store) Withdrawals(ctx context.Context, merchant string, state WithdrawalState, limit int, cursor string) (list []Withdrawal, next string, err error) {
	return nil, "", errNotYet
}

// CancelWithdrawal withdraws the question: an awaiting withdrawal and its
// callback become cancelled. Cancelled again gives the same; any other state is
// a *ConflictError.
func (s *Store) CancelWithdrawal(ctx context.Context, id string, now Millis) (Withdrawal, error) {
	return Withdrawal{}, errNotYet
}

// Release gives the one permit to execute a confirmed withdrawal to claim. The
// same claim asked again gets the same permit whatever permit says, also after
// the outcome; any other claim is a *ConflictError for ever.
func (s *Store) Release(ctx context.Context, id, claim, permit string, now Millis) (Permit, error) {
	return Permit{}, errNotYet
}

// RecordOutcome ends a released withdrawal and queues o.Callback in the same
// transaction. The same outcome again is a duplicate; another outcome, or
// another permit, is a *ConflictError.
func (s *Store) RecordOutcome(ctx context.Context, id string, o Outcome, now Millis) (w Withdrawal, duplicate bool, err error) {
	return Withdrawal{}, false, errNotYet
}

// Decisions gives decisions after seq after, in order and without gaps. The
// withdrawals are as they stand now.
func (s *Store) Decisions(ctx context.Context, after int64, limit int) ([]FeedDecision, error) {
	return nil, errNotYet
}

// Alarms gives alarms after seq after, in order.
func (s *Store) Alarms(ctx context.Context, after int64, limit int) ([]Alarm, error) {
	return nil, errNotYet
}

// RaiseAlarm keeps an alarm. The same merchant, kind and subject within an hour
// is kept once.
func (s *Store) RaiseAlarm(ctx context.Context, a Alarm) error { return errNotYet }

// CreateToken keeps a token by the hash of its secret. An id that is taken is a
// *ConflictError.
func (s *Store) CreateToken(ctx context.Context, t Token, hash [32]byte) error { return errNotYet }

// TokenByHash gives the token whose secret has this hash; ErrNotFound where
// none has or it is revoked.
func (s *Store) TokenByHash(ctx context.Context, hash [32]byte) (Token, error) {
	return Token{}, errNotYet
}

// Tokens lists all tokens, revoked ones included, oldest first.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) { return nil, errNotYet }

// RevokeToken ends a token at once. Revoking it again changes nothing.
func (s *Store) RevokeToken(ctx context.Context, id string, now Millis) error { return errNotYet }

// HasTokens reports whether any token was ever made.
func (s *Store) HasTokens(ctx context.Context) (bool, error) { return false, errNotYet }

// Stats counts callbacks by lane and state. Its cost grows with what is pending
// and with the merchants, not with what is settled.
func (s *Store) Stats(ctx context.Context) ([]LaneStats, error) { return nil, errNotYet }

// WithdrawalCounts counts withdrawals by state.
func (s *Store) WithdrawalCounts(ctx context.Context) (map[WithdrawalState]int64, error) {
	return nil, errNotYet
}

// Breakers lists the merchants' lanes whose breaker is open or half open.
func (s *Store) Breakers(ctx context.Context, now Millis) ([]BreakerState, error) {
	return nil, errNotYet
}
