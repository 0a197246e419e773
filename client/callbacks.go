package client

import (
	"context"
	"encoding/json"

	"countersign"
)

// CallbackState is the state of a callback.
type CallbackState string

// The states of a callback: pending → sending → accepted | refused | exhausted
// | cancelled; sending → pending for a retry.
const (
	CallbackPending   CallbackState = "pending"
	CallbackSending   CallbackState = "sending"
	CallbackAccepted  CallbackState = "accepted"
	CallbackRefused   CallbackState = "refused"
	CallbackExhausted CallbackState = "exhausted"
	CallbackCancelled CallbackState = "cancelled"
)

var _ = newWords(words[CallbackState]{
	{is: CallbackPending, means: "It waits for its next attempt."},
	{is: CallbackSending, means: "It is in an attempt."},
	{is: CallbackAccepted, means: "The merchant has taken it."},
	{is: CallbackRefused, means: "The merchant will never take it."},
	{is: CallbackExhausted, means: "Its schedule or its deadline is over. It is not sent any more, unless a person resends it."},
	{is: CallbackCancelled, means: "The service cancelled its withdrawal."},
})

// Callback is one thing that the service says to a merchant.
type Callback struct {
	ID         string           `json:"id" doc:"the service's id of the callback; begins with the merchant's id"`
	Merchant   string           `json:"merchant" doc:"id of the merchant"`
	Type       countersign.Type `json:"type" doc:"type of the callback (PROTOCOL.md, Messages)"`
	Name       string           `json:"name" doc:"name of the type" example:"NOTIFY_DEPOSITED"`
	TrackingID string           `json:"trackingId,omitempty" doc:"member trackingId of the callback"`
	TxID       string           `json:"txId,omitempty" doc:"the transaction that it is about"`
	CallBackID string           `json:"callBackId,omitempty" doc:"the merchant's id of the withdrawal that it is about"`
	State      CallbackState    `json:"state" doc:"its state"`
	Attempt    int              `json:"attempt" doc:"attempts begun; while sending, the number of the one under way"`
	Failed     int              `json:"failed" doc:"attempts that counted against the schedule"`
	Due        Time             `json:"due,omitzero" doc:"when the next attempt is due, while pending"`
	LeaseUntil Time             `json:"leaseUntil,omitzero" doc:"when the lease of the attempt under way ends, while sending"`
	Deadline   Time             `json:"deadline,omitzero" doc:"no attempt begins at this time or later; absent: there is no deadline"`
	LastReason Reason           `json:"lastReason,omitempty" doc:"reason of the last attempt that ended"`
	Created    Time             `json:"created" doc:"when the service took it"`
	Settled    Time             `json:"settled,omitzero" doc:"when it reached a final state"`
	Repeated   bool             `json:"repeated,omitempty" doc:"the merchant had accepted it, and it is sent once more because a person asked for it by its id"`
}

// Attempt is one POST of a callback.
type Attempt struct {
	Number       int           `json:"number" doc:"number of the attempt, from 1"`
	RequestUUID  string        `json:"requestUUID" doc:"member requestUUID of this attempt; no other attempt has the same"`
	Started      Time          `json:"started" doc:"when it began"`
	DurationMs   int64         `json:"durationMs" doc:"how long it took, in milliseconds"`
	HTTPStatus   int           `json:"httpStatus,omitempty" doc:"status of the merchant's response; absent: there was no response"`
	ErrCode      *int64        `json:"errCode,omitempty" doc:"errCode of the merchant's response; absent: there was no readable one"`
	Result       AttemptResult `json:"result,omitempty" doc:"the effect of the attempt on the callback"`
	Reason       Reason        `json:"reason,omitempty" doc:"the reason for that effect"`
	Text         string        `json:"text,omitempty" doc:"what the reason means and what helps, for people"`
	Facts        *Fact         `json:"facts,omitempty" doc:"what was wrong; absent: nothing more is known, or nothing was"`
	Node         string        `json:"node,omitempty" doc:"node of the service that made it"`
	RequestHash  string        `json:"requestHash,omitempty" doc:"SHA-256 of the body that was sent, in hexadecimal digits"`
	ResponseHash string        `json:"responseHash,omitempty" doc:"SHA-256 of the body that was read, in hexadecimal digits"`
	Repeated     bool          `json:"repeated,omitempty" doc:"the merchant had accepted the callback before, and a person asked for it again"`
}

// CallbackDetail is a callback with its payload and its attempts.
type CallbackDetail struct {
	Callback
	Payload  json.RawMessage `json:"payload" doc:"the plaintext, without requestUUID, which differs in each attempt"`
	Attempts []Attempt       `json:"attempts" nullable:"false" doc:"in the order of their numbers"`
}

// CallbackFilter selects callbacks. Empty members select all.
type CallbackFilter struct {
	Merchant     string           `json:"merchant,omitempty" query:"merchant" minLength:"1" maxLength:"64" doc:"only of this merchant, 1 to 64 characters"`
	Type         countersign.Type `json:"type,omitempty" query:"type" doc:"only of this type"`
	State        CallbackState    `json:"state,omitempty" query:"state" doc:"only in this state"`
	TrackingID   string           `json:"trackingId,omitempty" query:"trackingId" minLength:"1" maxLength:"200" doc:"only with this trackingId, 1 to 200 characters"`
	TxID         string           `json:"txId,omitempty" query:"txId" minLength:"1" maxLength:"200" doc:"only about this transaction, 1 to 200 characters"`
	CallBackID   string           `json:"callBackId,omitempty" query:"callBackId" minLength:"1" maxLength:"200" doc:"only about this withdrawal, 1 to 200 characters"`
	TenantUserID string           `json:"tenantUserId,omitempty" query:"tenantUserId" minLength:"1" maxLength:"200" doc:"only about this user, 1 to 200 characters"`
	Address      string           `json:"address,omitempty" query:"address" minLength:"1" maxLength:"200" doc:"only about what goes to this address: toAddress of a deposit, the target of a withdrawal, the new address of a change; 1 to 200 characters"`

	Since Time `json:"since,omitzero" query:"since" doc:"only taken at this time or later, in RFC 3339"`
	Until Time `json:"until,omitzero" query:"until" doc:"only taken before this time, in RFC 3339"`
}

// ResendOne says whether an accepted callback is sent again too.
type ResendOne struct {
	Accepted bool `json:"accepted,omitempty" doc:"send it also if the merchant has accepted it; absent: that is a conflict"`
}

// Resend selects callbacks to be sent: refused and exhausted ones again, and pending
// ones before they are due.
type Resend struct {
	Filter CallbackFilter `json:"filter" doc:"which callbacks; at least one member"`
	DryRun bool           `json:"dryRun,omitempty" doc:"only count them"`
}

// Resent says how many callbacks are, or would be, due at once.
type Resent struct {
	Count  int64 `json:"count" doc:"how many callbacks"`
	DryRun bool  `json:"dryRun" doc:"they were only counted"`
}

// Callbacks returns a page of callbacks, the newest first. The list ends where Next is nil.
func (s *Service) Callbacks(ctx context.Context, f CallbackFilter, o PageOptions) (List[Callback], error) {
	return Get[List[Callback]](ctx, s, "/v1/callbacks", f, o)
}

// Callback returns one callback with its attempts.
func (s *Service) Callback(ctx context.Context, id string) (CallbackDetail, error) {
	return Get[CallbackDetail](ctx, s, Path("callbacks", id))
}

// ResendCallback sends a refused or exhausted callback again, and a pending one before it is due. The
// error is ErrConflict for one of type 2 that is not pending, since a new withdrawal takes its place, and for an accepted
// one unless o says so: for a merchant that has lost it. One that has it answers as to any repetition, and credits
// nothing again.
func (s *Service) ResendCallback(ctx context.Context, id string, o ResendOne) (Callback, error) {
	return Post[Callback](ctx, s, Path("callbacks", id, "resend"), o)
}

// ResendCallbacks does what ResendCallback does for all callbacks that match. It leaves
// out what the merchant has or had accepted.
func (s *Service) ResendCallbacks(ctx context.Context, r Resend) (Resent, error) {
	return Post[Resent](ctx, s, "/v1/callbacks/resend", r)
}
