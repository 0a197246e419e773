package admin

import (
	"encoding/json"
	"log/slog"
)

// Callback is one thing the service says to a merchant.
type Callback struct {
	ID         string `json:"id"`
	Merchant   string `json:"merchant"`
	Type       int    `json:"type" minimum:"1" maximum:"7"`
	Name       string `json:"name" example:"NOTIFY_DEPOSITED"`
	TrackingID string `json:"trackingId,omitempty"`
	TxID       string `json:"txId,omitempty"`
	CallBackID string `json:"callBackId,omitempty"`
	State      string `json:"state" enum:"pending,sending,accepted,refused,exhausted,cancelled"`
	Attempt    int    `json:"attempt" doc:"attempts started; the number of the current one while sending"`
	Failed     int    `json:"failed" doc:"attempts that counted against the schedule"`
	Due        Time   `json:"due,omitzero" doc:"of the next attempt, while pending"`
	LeaseUntil Time   `json:"leaseUntil,omitzero" doc:"while sending"`
	Deadline   Time   `json:"deadline,omitzero"`
	LastReason string `json:"lastReason,omitempty" doc:"of the last attempt that ended"`
	Created    Time   `json:"created"`
	Settled    Time   `json:"settled,omitzero" doc:"when it became final"`
}

// Attempt is one POST of a callback.
type Attempt struct {
	Number       int    `json:"number"`
	RequestUUID  string `json:"requestUUID"`
	Started      Time   `json:"started"`
	DurationMs   int64  `json:"durationMs"`
	HTTPStatus   int    `json:"httpStatus,omitempty" doc:"absent: no response"`
	ErrCode      *int64 `json:"errCode,omitempty" doc:"absent: no readable response"`
	Outcome      string `json:"outcome,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Node         string `json:"node,omitempty"`
	RequestHash  string `json:"requestHash,omitempty" doc:"SHA-256 of the body sent, in hex"`
	ResponseHash string `json:"responseHash,omitempty" doc:"SHA-256 of the body read, in hex"`
}

// CallbackDetail is a callback with what it says and its attempts.
type CallbackDetail struct {
	Callback
	Payload  json.RawMessage `json:"payload" doc:"the plaintext, without its requestUUID"`
	Attempts []Attempt       `json:"attempts" nullable:"false"`
}

// CallbackPage is a page of callbacks, the newest first.
type CallbackPage struct {
	Callbacks []Callback `json:"callbacks" nullable:"false"`
	Next      *string    `json:"next" doc:"cursor of the page after; null: none"`
}

// CallbackFilter selects callbacks. Empty members select all.
type CallbackFilter struct {
	Merchant   string `json:"merchant,omitempty" query:"merchant" minLength:"1" maxLength:"64"`
	Type       int    `json:"type,omitempty" query:"type" minimum:"1" maximum:"7"`
	State      string `json:"state,omitempty" query:"state" enum:"pending,sending,accepted,refused,exhausted,cancelled"`
	TrackingID string `json:"trackingId,omitempty" query:"trackingId" minLength:"1" maxLength:"200"`
	TxID       string `json:"txId,omitempty" query:"txId" minLength:"1" maxLength:"200"`
	CallBackID string `json:"callBackId,omitempty" query:"callBackId" minLength:"1" maxLength:"200"`
}

// Resend selects refused and exhausted callbacks to be sent again.
type Resend struct {
	Filter CallbackFilter `json:"filter" doc:"at least one member"`
	DryRun bool           `json:"dryRun,omitempty" doc:"count only"`
}

// Resent says how many callbacks were, or would be, sent again.
type Resent struct {
	Count  int64 `json:"count"`
	DryRun bool  `json:"dryRun"`
}

// Alarm is something a person should look at.
type Alarm struct {
	Seq      int64  `json:"seq" minimum:"1"`
	Merchant string `json:"merchant,omitempty"`
	Kind     string `json:"kind" example:"answer_differs"`
	Subject  string `json:"subject,omitempty" doc:"id of the callback or withdrawal"`
	At       Time   `json:"at"`
}

// Alarms is a part of the alarm feed.
type Alarms struct {
	Alarms []Alarm `json:"alarms" nullable:"false"`
	Next   int64   `json:"next" doc:"the after of the next request"`
}

// NewToken is a token to be made.
type NewToken struct {
	Name string `json:"name" minLength:"1" maxLength:"100"`
	Role string `json:"role" enum:"viewer,ingest,operator" doc:"a viewer reads; ingest is the wallet core: deposits, withdrawals, decisions; an operator does all"`
}

// Token is an API token as it is shown.
type Token struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Role    string `json:"role" enum:"viewer,ingest,operator"`
	Created Time   `json:"created"`
	Revoked Time   `json:"revoked,omitzero"`
}

// CreatedToken is a new token with its secret, which is shown once.
type CreatedToken struct {
	Token
	Secret Secret `json:"token"`
}

// LogValue keeps the secret out of a log.
func (t CreatedToken) LogValue() slog.Value { return slog.StringValue("token " + t.ID) }

// Tokens are all tokens.
type Tokens struct {
	Tokens []Token `json:"tokens" nullable:"false"`
}

// LaneStats is the queue of one lane in one state.
type LaneStats struct {
	Lane      string `json:"lane" enum:"notify,withdraw"`
	State     string `json:"state" enum:"pending,sending,accepted,refused,exhausted,cancelled"`
	Count     int64  `json:"count"`
	OldestDue Time   `json:"oldestDue,omitzero" doc:"of the pending ones"`
}

// Breaker is a merchant's lane that is held back because the merchant could
// not be reached.
type Breaker struct {
	Merchant  string `json:"merchant"`
	Lane      string `json:"lane" enum:"notify,withdraw"`
	Failures  int    `json:"failures" doc:"in a row"`
	OpenUntil Time   `json:"openUntil,omitzero"`
}

// Stats are the numbers of the service.
type Stats struct {
	Lanes       []LaneStats      `json:"lanes" nullable:"false"`
	Withdrawals map[string]int64 `json:"withdrawals" doc:"how many in each state"`
	Breakers    []Breaker        `json:"breakers" nullable:"false"`
}

// Health says that the process runs or is ready.
type Health struct {
	Status string `json:"status" enum:"ok"`
}
