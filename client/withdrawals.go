package client

import (
	"context"
	"log/slog"

	"countersign"
)

// WithdrawalState is the state of a withdrawal.
type WithdrawalState string

// The states of a withdrawal: awaiting → confirmed | declined | expired |
// cancelled; confirmed → released → executed | failed; confirmed → blocked |
// lapsed.
const (
	WithdrawalAwaiting  WithdrawalState = "awaiting"
	WithdrawalConfirmed WithdrawalState = "confirmed"
	WithdrawalDeclined  WithdrawalState = "declined"
	WithdrawalExpired   WithdrawalState = "expired"
	WithdrawalCancelled WithdrawalState = "cancelled"
	WithdrawalReleased  WithdrawalState = "released"
	WithdrawalExecuted  WithdrawalState = "executed"
	WithdrawalFailed    WithdrawalState = "failed"
	WithdrawalBlocked   WithdrawalState = "blocked"
	WithdrawalLapsed    WithdrawalState = "lapsed"
)

var _ = newWords(words[WithdrawalState]{
	{is: WithdrawalAwaiting, means: "The merchant's answer is awaited."},
	{is: WithdrawalConfirmed, means: "The merchant confirmed it: it can be released."},
	{is: WithdrawalDeclined, means: "The merchant declined it."},
	{is: WithdrawalExpired, means: "There was no valid answer before its deadline."},
	{is: WithdrawalCancelled, means: "The service cancelled it before there was an answer."},
	{is: WithdrawalReleased, means: "The one permit to execute it was given."},
	{is: WithdrawalExecuted, means: "The wallet core reported a transaction."},
	{is: WithdrawalFailed, means: "The wallet core reported that nothing moved."},
	{is: WithdrawalBlocked, means: "An operator blocked it after the confirmation: it is never released."},
	{is: WithdrawalLapsed, means: "It was not released in time after the confirmation: it is never released."},
})

// Details are the amount of a withdrawal and its target.
type Details = countersign.Details

// NewWithdrawal is a withdrawal that the merchant is asked to confirm.
type NewWithdrawal struct {
	Merchant      string   `json:"merchant" minLength:"1" maxLength:"64" doc:"id of the merchant, 1 to 64 characters"`
	CallBackID    string   `json:"callBackId" minLength:"1" maxLength:"200" doc:"identifies the merchant's withdrawal permanently, 1 to 200 characters: a request with the same callBackId repeats the withdrawal"`
	TenantUserID  string   `json:"tenantUserId" minLength:"1" maxLength:"200" doc:"the user in the merchant's system, 1 to 200 characters"`
	TrackingID    string   `json:"trackingId,omitempty" minLength:"1" maxLength:"200" doc:"member trackingId of the callbacks, 1 to 200 characters; absent: callBackId"`
	Business      int64    `json:"business,omitempty" minimum:"-9007199254740991" maximum:"9007199254740991" default:"0" doc:"member business of the callbacks, a whole number of at most 53 bits"`
	Details       *Details `json:"details,omitempty" doc:"the merchant's answer must have the same; absent: the service takes them from the answer"`
	ConfirmWithin Duration `json:"confirmWithin,omitzero" within:"10s to 168h" doc:"how long it awaits its confirmation, 10s to 168h; absent: the merchant's setting"`
}

// Withdrawal is a withdrawal with its decision and its state.
type Withdrawal struct {
	ID           string               `json:"id" doc:"the service's id of the withdrawal; begins with the merchant's id"`
	Merchant     string               `json:"merchant" doc:"id of the merchant"`
	CallBackID   string               `json:"callBackId" doc:"the merchant's id of the withdrawal"`
	Callback     string               `json:"callback" doc:"id of the callback that asks the merchant"`
	TenantUserID string               `json:"tenantUserId" doc:"the user in the merchant's system"`
	TrackingID   string               `json:"trackingId" doc:"member trackingId of the callbacks"`
	Business     int64                `json:"business" doc:"member business of the callbacks"`
	Ordered      *Details             `json:"ordered,omitempty" doc:"the details given to the service; absent: none were given"`
	Details      *Details             `json:"details,omitempty" doc:"the confirmed details; absent before the confirmation"`
	State        WithdrawalState      `json:"state" doc:"its state"`
	Decision     countersign.Decision `json:"decision,omitempty" enum:"confirmed,declined,expired,cancelled" doc:"the final decision; absent: there is none yet"`
	Reason       Reason               `json:"reason,omitempty" doc:"the reason for the decision"`
	Text         string               `json:"text,omitempty" doc:"what the reason means and what helps, for people"`
	Deadline     Time                 `json:"deadline" doc:"an answer at this time or later does not confirm it"`
	Created      Time                 `json:"created" doc:"when the service took it"`
	Decided      Time                 `json:"decided,omitzero" doc:"when it was decided"`
	Released     Time                 `json:"released,omitzero" doc:"when the permit was given"`
	Ended        Time                 `json:"ended,omitzero" doc:"when it was executed, failed, was blocked or lapsed"`
	Holder       string               `json:"claim,omitempty" doc:"the execution that holds the permit; absent for all tokens but those of role core or admin whose origin is that of the token which took it"`
	TxID         string               `json:"txId,omitempty" doc:"transaction that moved the funds, if executed"`
	FailReason   string               `json:"failReason,omitempty" doc:"why nothing moved, if failed"`

	ReleaseBy     Time   `json:"releaseBy,omitzero" doc:"a confirmed withdrawal that is not released before this time lapses; absent: it was never confirmed"`
	BlockedReason string `json:"blockedReason,omitempty" doc:"why it was blocked, if blocked"`
	BlockedBy     string `json:"blockedBy,omitempty" doc:"id of the token that blocked it, if blocked"`

	Restored bool `json:"restored,omitempty" doc:"it is from before a restore, and nobody has said what became of it: it is neither decided nor released and does not end"`
}

// AcceptedWithdrawal answers a new withdrawal or its outcome.
type AcceptedWithdrawal struct {
	Withdrawal
	Duplicate bool `json:"duplicate" doc:"it exists already, with the same content"`
}

// Claim asks for the permit. Its holder identifies one execution: a wallet that
// executes twice under one holder gets the permit both times.
type Claim struct {
	Holder string `json:"claim" minLength:"1" maxLength:"200" doc:"identifies the one execution that the permit is for, not a wallet that could execute twice, 1 to 200 characters: the same claim from a token of the same origin gets the same permit again, with duplicate true; any other is always refused and raises the alarm wallet_differs"`
}

// WithdrawalClaim is a Claim of one of several withdrawals.
type WithdrawalClaim struct {
	Merchant   string `json:"merchant" minLength:"1" maxLength:"64" doc:"id of the merchant, 1 to 64 characters"`
	CallBackID string `json:"callBackId" minLength:"1" maxLength:"200" doc:"the merchant's id of the withdrawal, 1 to 200 characters; a request names each withdrawal once"`
	Claim
}

// Permit is the one permit to execute a confirmed withdrawal.
type Permit struct {
	Permit     Secret     `json:"permit" doc:"the report of the outcome must carry it"`
	Details    Details    `json:"details" doc:"the confirmed details: execute exactly these"`
	Withdrawal Withdrawal `json:"withdrawal" doc:"the withdrawal as it is now"`
	Note       string     `json:"note,omitempty" doc:"the permit as a signed note, which a signer checks with the service's verifier key (audit key) and nothing else (countersign permit verify)"`
	// Answer is the merchant's part of the proof. A signer that has the merchant's key needs it.
	Answer    *SignedAnswer `json:"answer,omitempty" doc:"the merchant's signed answer that confirmed the withdrawal, which a signer checks with the merchant's key beside the note; absent: the merchant does not sign its answers, or the answer was lost by a restore"`
	Duplicate bool          `json:"duplicate" doc:"this holder got the permit before: before you execute, check whether that execution already moved the funds"`
}

// LogValue keeps the permit out of a log.
func (p Permit) LogValue() slog.Value { return slog.StringValue("permit for " + p.Withdrawal.ID) }

// Release is the result of one of several claims: exactly one of its members is set.
type Release struct {
	Issued *Permit  `json:"issued,omitempty" doc:"the permit; absent: it was not given"`
	Error  *Problem `json:"error,omitempty" doc:"why it was not given, with the status that the request for this one alone has"`
}

// Outcome reports the end of a released withdrawal: exactly one of Executed and
// Failed is set.
type Outcome struct {
	Permit   Secret    `json:"permit" minLength:"1" maxLength:"200" doc:"the permit that the release gave, 1 to 200 characters"`
	Executed *Executed `json:"executed,omitempty" doc:"the funds moved: the merchant gets a callback of type 3; not with failed"`
	Failed   *Failed   `json:"failed,omitempty" doc:"no funds moved or will move: the merchant gets a callback of type 5; not with executed"`
}

// WithdrawalOutcome is the Outcome of one of several withdrawals.
type WithdrawalOutcome struct {
	Merchant   string `json:"merchant" minLength:"1" maxLength:"64" doc:"id of the merchant, 1 to 64 characters"`
	CallBackID string `json:"callBackId" minLength:"1" maxLength:"200" doc:"the merchant's id of the withdrawal, 1 to 200 characters; a request names each withdrawal once"`
	Outcome
}

// ReportedOutcome is the result of reporting one of several outcomes: exactly one of its members is set.
type ReportedOutcome struct {
	Ended *AcceptedWithdrawal `json:"ended,omitempty" doc:"the withdrawal as it is now; absent: the outcome was not recorded"`
	Error *Problem            `json:"error,omitempty" doc:"why it was not recorded, with the status that the request for this one alone has"`
}

// LogValue keeps the permit out of a log.
func (o Outcome) LogValue() slog.Value { return slog.StringValue("outcome") }

// Executed names the transaction that moved the funds.
type Executed struct {
	TxID        string `json:"txId" minLength:"1" maxLength:"200" doc:"transaction on the chain, 1 to 200 characters"`
	FromAddress string `json:"fromAddress,omitempty" minLength:"1" maxLength:"200" doc:"address that the funds came from, 1 to 200 characters; absent: the merchant is not told"`
}

// Failed says why nothing moved.
type Failed struct {
	Reason string `json:"reason" minLength:"1" maxLength:"200" doc:"for the service's people, 1 to 200 characters; the merchant is not told"`
}

// WaitingFor is what a released withdrawal waits for.
type WaitingFor string

// What a withdrawal can wait for.
const (
	WaitingForFunds WaitingFor = "funds" // the amount
	WaitingForFees  WaitingFor = "fees"  // the fees of its chain
)

var _ = plainWords(WaitingForFunds, WaitingForFees)

// Type returns the type of the callback that says so, or TypeUnknown if there is none.
func (w WaitingFor) Type() countersign.Type {
	for _, t := range countersign.TypeUnknown.Values() {
		if w != "" && t.Report() == string(w) {
			return t
		}
	}
	return countersign.TypeUnknown
}

// Waiting reports that a released withdrawal waits.
type Waiting struct {
	For WaitingFor `json:"for" doc:"funds: the amount is not available, and the merchant gets a callback of type 6; fees: the chain's fees are not available, and it gets one of type 7"`
}

// AcceptedWaiting answers a Waiting.
type AcceptedWaiting struct {
	Withdrawal
	Notice string `json:"notice" doc:"id of the callback that tells the merchant"`
}

// Decision is one entry of the feed of decisions.
type Decision struct {
	Seq        int64      `json:"seq" minimum:"1" doc:"number in the feed of decisions, without gaps"`
	Withdrawal Withdrawal `json:"withdrawal" doc:"the withdrawal as it is now, which may be later than the decision"`
}

// WithdrawalFilter selects withdrawals. Empty members select all.
type WithdrawalFilter struct {
	Merchant   string          `query:"merchant" minLength:"1" maxLength:"64" doc:"only of this merchant, 1 to 64 characters"`
	CallBackID string          `query:"callBackId" minLength:"1" maxLength:"200" doc:"only of this callBackId, 1 to 200 characters; each merchant has one at most"`
	State      WithdrawalState `query:"state" doc:"only in this state"`

	TenantUserID string `query:"tenantUserId" minLength:"1" maxLength:"200" doc:"only of this user, 1 to 200 characters"`
	Address      string `query:"address" minLength:"1" maxLength:"200" doc:"only to this address, as it was confirmed or else ordered, 1 to 200 characters"`
	TxID         string `query:"txId" minLength:"1" maxLength:"200" doc:"only the one that this transaction executed, 1 to 200 characters"`

	Since Time `query:"since" doc:"only made at this time or later, in RFC 3339"`
	Until Time `query:"until" doc:"only made before this time, in RFC 3339"`
}

// CreateWithdrawal asks a merchant to confirm a withdrawal. The same callBackId
// with the same content returns the existing withdrawal; with other content the error
// is ErrConflict.
func (s *Service) CreateWithdrawal(ctx context.Context, w NewWithdrawal) (AcceptedWithdrawal, error) {
	return first(Post[List[AcceptedWithdrawal]](ctx, s, "/v1/withdrawals", []NewWithdrawal{w}))
}

// Withdrawals returns a page of withdrawals, the newest first.
func (s *Service) Withdrawals(ctx context.Context, f WithdrawalFilter, o PageOptions) (List[Withdrawal], error) {
	return Get[List[Withdrawal]](ctx, s, "/v1/withdrawals", f, o)
}

// Withdrawal returns one withdrawal.
func (s *Service) Withdrawal(ctx context.Context, id string) (Withdrawal, error) {
	return Get[Withdrawal](ctx, s, Path("withdrawals", id))
}

// CancelWithdrawal cancels a withdrawal that awaits the merchant's answer.
func (s *Service) CancelWithdrawal(ctx context.Context, id string) (Withdrawal, error) {
	return Post[Withdrawal](ctx, s, Path("withdrawals", id, "cancel"), nil)
}

// ReleaseWithdrawal takes the one permit to execute a confirmed withdrawal. The
// holder identifies one execution. The same holder gets the same permit again, with
// Duplicate; any other holder always gets ErrConflict. While the merchant is paused or
// the service is frozen everybody gets ErrConflict; the withdrawal's state then is still
// confirmed or released, and the call can be repeated later.
func (s *Service) ReleaseWithdrawal(ctx context.Context, id, holder string) (Permit, error) {
	return Post[Permit](ctx, s, Path("withdrawals", id, "release"), Claim{holder})
}

// ReportOutcome reports the end of a released withdrawal. The service notifies the
// merchant.
func (s *Service) ReportOutcome(ctx context.Context, id string, o Outcome) (AcceptedWithdrawal, error) {
	return Post[AcceptedWithdrawal](ctx, s, Path("withdrawals", id, "outcome"), o)
}

// ReportWaiting reports that a released withdrawal waits. Each call notifies the
// merchant once more, which does no harm: a call whose answer was lost can be
// repeated.
func (s *Service) ReportWaiting(ctx context.Context, id string, what WaitingFor) (AcceptedWaiting, error) {
	return Post[AcceptedWaiting](ctx, s, Path("withdrawals", id, "waiting"), Waiting{what})
}

// Decisions returns a part of the feed of decisions.
func (s *Service) Decisions(ctx context.Context, o FeedOptions) (Feed[Decision], error) {
	return Get[Feed[Decision]](ctx, s, "/v1/decisions", o)
}

// CreateWithdrawals asks merchants to confirm 1 to 1,000 withdrawals, all or nothing; each is as with CreateWithdrawal.
func (s *Service) CreateWithdrawals(ctx context.Context, list ...NewWithdrawal) ([]AcceptedWithdrawal, error) {
	out, err := Post[List[AcceptedWithdrawal]](ctx, s, "/v1/withdrawals", list)
	return out.Items, err
}

// ReleaseWithdrawals is ReleaseWithdrawal of 1 to 1,000 withdrawals in one transaction of the service. Each has its own
// result, in the order of list, whatever becomes of the others. An error is about the call as a whole: a wrong item, or
// a service that cannot be reached. Repeating the call returns the same permits.
func (s *Service) ReleaseWithdrawals(ctx context.Context, list ...WithdrawalClaim) ([]Release, error) {
	out, err := Post[List[Release]](ctx, s, "/v1/withdrawals/release", list)
	return out.Items, err
}

// ReportOutcomes is ReportOutcome of 1 to 1,000 withdrawals, as ReleaseWithdrawals is of releases.
func (s *Service) ReportOutcomes(ctx context.Context, list ...WithdrawalOutcome) ([]ReportedOutcome, error) {
	out, err := Post[List[ReportedOutcome]](ctx, s, "/v1/withdrawals/outcome", list)
	return out.Items, err
}
