package outbox

import (
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// toldWords are the words for the numbers in the column told of outbox.
var toldWords = []client.Told{"", client.ToldPossibly, client.ToldAgain}

// toldWord returns the word for a number; empty: it is none of them.
func toldWord(n int) client.Told {
	if n < 0 || n >= len(toldWords) {
		return ""
	}
	return toldWords[n]
}

// NewCallback is a callback to keep. Payload is canonical, with
// countersign.UnboundUUID as its requestUUID.
type NewCallback struct {
	Merchant   string
	Type       countersign.Type
	EventID    string // trackingId or callBackId; empty (type 4): a new one is made
	TrackingID string
	TxID       string // for look-ups; may be empty
	CallBackID string // for look-ups; may be empty
	// TenantUserID and Address are for look-ups and may be empty: the user that it is about,
	// and the address that what it tells of goes to.
	TenantUserID, Address string
	Payload               []byte
	Due                   db.Millis // earliest first attempt
	Deadline              db.Millis // no attempt starts at or after it; Never or 0: none
}

// Callback is one thing that the service must say to a merchant.
type Callback struct {
	ID         string // "<merchant>.<26 characters>", sorts by time of ingest within a merchant
	Merchant   string
	Type       countersign.Type
	EventID    string
	TrackingID string
	TxID       string
	CallBackID string
	Payload    []byte
	State      client.CallbackState
	Attempts   int       // attempts started; the number of the current one while sending
	Failed     int       // attempts that count against the schedule
	Due        db.Millis // next attempt, while pending
	LeaseUntil db.Millis // while sending
	Deadline   db.Millis
	LastReason client.Reason // reason of the last settled attempt
	Told       client.Told
	Created    db.Millis
	Settled    db.Millis // when it became final; 0 before
}

// Ingested is the result for one NewCallback.
type Ingested struct {
	ID         string
	EventID    string
	TrackingID string
	State      client.CallbackState
	Duplicate  bool // it was known, with the same content
}

// Claimed is a callback that only this node may attempt until its lease ends.
type Claimed struct {
	Callback
	MerchantVersion int64
	Held            int         // attempts that the merchant held since the schedule began
	Withdrawal      *Withdrawal // for type 2
	AddedBy         string      // the token whose call added it; may be empty
}

// Attempt is the record of one POST of a callback.
type Attempt struct {
	Number       int
	RequestUUID  string
	Started      db.Millis
	Duration     time.Duration
	HTTPStatus   int    // 0: no response
	ErrCode      *int64 // nil: no readable response
	Result       client.AttemptResult
	Reason       client.Reason
	Facts        client.Fact // what was wrong; none of an attempt that was accepted
	Node         string
	RequestHash  string // hex SHA-256 of the body sent; empty if none was
	ResponseHash string // hex SHA-256 of the body read; empty if none was
	Late         bool   // set by the outbox: it came after its lease was lost and changed nothing
	Repeated     bool   // set by the outbox: the merchant had accepted the callback before, and a person asked for it again
}

// Settlement ends one attempt. It is applied only while the callback is sending that
// attempt.
type Settlement struct {
	Merchant   string
	CallbackID string
	Attempt    Attempt
	// State is the callback's next state: pending, accepted, refused or
	// exhausted.
	State  client.CallbackState
	Due    db.Millis // for pending
	Counts bool      // the attempt counts against the schedule
	Held   bool      // the merchant held the callback
	// Type, EventID, AddedBy and Payload are the callback's, for the audit log.
	Type    countersign.Type
	AddedBy string
	EventID string
	Payload []byte
	Told    client.Told
	// Exchange is what that log keeps of a question about a withdrawal, nil if it is only
	// counted among the attempts.
	Exchange *Exchange
	// Unread is the beginning of the response to an attempt that failed, without the
	// merchant's keys; nil: nothing is kept of it.
	Unread []byte
	// Reached is false if the merchant's server could not be reached or did not
	// answer with status 200. Several such attempts in a row open the lane's
	// breaker.
	Reached bool
	// Decision, for type 2, is made in the same transaction.
	Decision countersign.Decision
	Details  countersign.Details // of a confirmed withdrawal
	// MerchantVersion is the version of the merchant under which the question was asked.
	// While it is not the merchant's, nothing is confirmed or declined.
	MerchantVersion int64
	// APIKey and ResponseKey say under which of the merchant's keys the answer was judged:
	// since when it has them. 0: under none. While the merchant does not have one of them,
	// the callback is neither accepted nor refused.
	APIKey, ResponseKey db.Millis
	Alarm               client.AlarmKind // to raise; may be empty
	// OpenFailure says that the answer did not open, opened to no answer, or was too
	// large to be opened.
	// OpenFailureLimit of them in an hour pause the merchant.
	OpenFailure bool
}

// Settled says what a settlement did.
type Settled struct {
	Applied bool // false: the attempt had lost its lease, or the callback was final
	Paused  bool // this settlement paused the merchant
	Late    bool // type 2: there was a decision already
	Differs bool // Late, and this answer contradicts the decision; an alarm was raised
	// Stopped is why the settlement's decision was not made and the question is asked
	// again: frozen, paused or older_version. Empty: nothing stopped it.
	Stopped client.Reason
	// OpenFailures is how many failures to open of the merchant's answers count now,
	// on all nodes; 0 if this settlement is not such a failure.
	OpenFailures int
	// Decision is the decision that this settlement made, none for a repeated one.
	// It is expired if a confirmation came at the deadline or later.
	Decision countersign.Decision
}

// NewWithdrawal is a withdrawal to be confirmed by its merchant.
type NewWithdrawal struct {
	Merchant     string
	CallBackID   string
	TenantUserID string
	TrackingID   string
	Business     int64
	Details      *countersign.Details // nil: taken from the merchant's answer
	Deadline     db.Millis
	Payload      []byte // of its type 2 callback, canonical, unbound
}

// Withdrawal is a withdrawal and its decision.
type Withdrawal struct {
	ID           string // "<merchant>.<26 characters>"
	Merchant     string
	CallBackID   string
	CallbackID   string // its type 2 callback, which has the same id
	TenantUserID string
	TrackingID   string
	Business     int64
	Ordered      *countersign.Details // the order as the service knows it, or nil
	Details      *countersign.Details // what was confirmed, or nil
	State        client.WithdrawalState
	Decision     countersign.Decision
	Reason       client.Reason // of the decision
	Deadline     db.Millis
	Created      db.Millis
	Decided      db.Millis
	Released     db.Millis
	Ended        db.Millis // executed, failed, blocked or lapsed
	Claim        string    // of the holder of the permit; a secret to all but tokens of its origin
	Origin       string    // of the token that took it; empty: no token took it here yet
	TxID         string    // if executed
	FailReason   string    // if failed

	ReleaseBy     db.Millis // of a confirmed one: it is not released at this time or later; 0: it never was confirmed
	BlockedReason string    // if blocked
	BlockedBy     string    // the token

	Restored bool // from before a restore, and nobody has said what became of it: nothing is decided on it
}

// Holder holds a permit, or asks for one.
type Holder struct {
	Claim  string // names one execution
	Origin string // where the token that asks comes from (api.Token.Root)
}

// heldBy reports whether h holds w's permit.
func (w *Withdrawal) heldBy(h Holder) bool {
	return w.Claim == h.Claim && (w.Origin == h.Origin || w.Origin == "")
}

// Permit is the one permit to execute a confirmed withdrawal.
type Permit struct {
	Permit     string
	Withdrawal Withdrawal
	// Duplicate: the same holder was given this permit before, so whoever holds it
	// may have executed already.
	Duplicate bool
	Epoch     int64 // of the database; 0: it was never restored
	// Answer is the merchant's signed answer that confirmed it. Nil: it does not sign, or the answer
	// was purged or came before a restore.
	Answer *client.SignedAnswer
}

// Outcome is what the wallet core reports of a released withdrawal: exactly
// one of TxID and FailReason is set.
type Outcome struct {
	Permit     string
	TxID       string
	FailReason string
	// Callback is the type 3 or type 5 callback to queue in the same
	// transaction.
	Callback NewCallback
}

// FeedDecision is one entry of the feed of decisions, which has no gaps in Seq.
type FeedDecision struct {
	Seq        int64
	Withdrawal Withdrawal
}

// CallbackFilter selects callbacks; empty members select all.
type CallbackFilter struct {
	Merchant   string
	Of         []string // in place of Merchant: of these alone; nil: of any
	Type       countersign.Type
	State      client.CallbackState
	TrackingID string
	TxID       string
	CallBackID string
	// TenantUserID and Address find what was taken since schema 26.
	TenantUserID, Address string
	Told                  client.Told // empty: any
	Span
}

// WithdrawalFilter selects withdrawals; empty members select all.
type WithdrawalFilter struct {
	Of                          []string // the merchants; one empty text: any
	State                       client.WithdrawalState
	TenantUserID, Address, TxID string // Address: that was confirmed, or else ordered
	Span
}

// Span is a time in which rows were made, Since included and Until not. Zero: no bound.
type Span struct{ Since, Until db.Millis }

// Stats has numbers of rows.
type Stats struct {
	Lanes       []LaneStats
	Withdrawals map[client.WithdrawalState]int64 // states of no withdrawal are left out
}

// LaneStats counts the callbacks of one lane.
type LaneStats struct {
	Lane      countersign.Lane
	State     client.CallbackState
	Count     int64
	OldestDue db.Millis // of pending callbacks; Never if there is none
}

// OpenFailureLimit is how many failures to open its answers within an hour pause a
// merchant.
const OpenFailureLimit = 10
