package outbox

import (
	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// NewCallback is a callback to store. Payload is canonical, with countersign.UnboundUUID as its requestUUID.
type NewCallback struct {
	Merchant   string
	Type       countersign.Type
	EventID    string // trackingId or callBackId; empty (type 4): a new one is made
	TrackingID string
	TxID       string // for look-ups; may be empty
	CallBackID string // for look-ups; may be empty
	// TenantUserID is the user and Address the destination that the callback is about. Both are for look-ups and may be
	// empty.
	TenantUserID, Address string
	Payload               []byte
	Due                   db.Millis // earliest first attempt
	Deadline              db.Millis // no attempt starts at or after it; Never or 0: none
}

// Callback is one thing that the service must say to a merchant: what the API shows of it, and what it does not.
type Callback struct {
	client.Callback
	EventID string
	Payload []byte
}

// Claimed is a callback that only this node may attempt until its lease ends. Its Due and Deadline are the row's and
// may be Never.
type Claimed struct {
	Callback
	MerchantVersion int64
	Held            int         // how many attempts the merchant held since the schedule began
	Withdrawal      *Withdrawal // for type 2
	AddedBy         string      // the token whose call added it; may be empty
}

// Attempt is one POST of a callback: what the API shows of it, and what it does not.
type Attempt struct {
	client.Attempt      // the hashes are of the bodies sent and read; the outbox sets Repeated
	Late           bool // set by the outbox: its lease was lost before it ended, so it changed nothing
}

// Settlement ends one attempt. It is applied only while the callback is sending that attempt.
type Settlement struct {
	Merchant   string
	CallbackID string
	Type       countersign.Type
	Failed     int // as it was claimed: attempts before this one that counted
	Attempt    Attempt
	// State is the callback's next state: pending, accepted, refused or exhausted.
	State    client.CallbackState
	Due      db.Millis // for pending
	Counts   bool      // the attempt counts against the schedule
	Held     bool      // the merchant held the callback
	Repeated bool      // the merchant had accepted it before
	// Exchange is what the audit log stores of a question about a withdrawal. Nil: the attempt is only counted with
	// the others.
	Exchange *Exchange
	// Reached is false if the merchant's server could not be reached or did not answer with status 200. Several such
	// attempts in a row open the lane's breaker.
	Reached bool
	// Decision is made in the same transaction. It is for type 2.
	Decision countersign.Decision
	Details  countersign.Details // of a confirmed withdrawal
	// MerchantVersion is the merchant's version under which the callback was sent. If the merchant has another version
	// by now, nothing is accepted, refused, confirmed or declined.
	MerchantVersion int64
	Alarm           client.AlarmKind // to raise; may be empty
	// OpenFailure means that the answer did not open, held no answer when opened, or was too large to open.
	// OpenFailureLimit of them in an hour pause the merchant.
	OpenFailure bool
}

// Exchange is what the audit log stores of an attempt of type 2 whose response was an answer or made a decision. The
// sender sets what it says of the callback, its messages, keys and Link.
type Exchange struct {
	journal.Exchange

	// Signed is the answer of a response that confirms and that a key of the merchant has signed. SignedBy is the
	// public part of that key. The log does not store them.
	Signed   *client.SignedAnswer
	SignedBy string
}

// Link holds the signatures of an exchange as the audit log stores them.
type Link = journal.Link

// Settled is the result of a settlement.
type Settled struct {
	Applied bool // false: the attempt had lost its lease, or the callback was final
	Paused  bool // this settlement paused the merchant
	Late    bool // type 2: there was a decision already
	Differs bool // Late, and this answer contradicts the decision; an alarm was raised
	// Stopped is why the settlement's decision was not made and the question is asked again: frozen, paused or
	// older_version. Empty: nothing stopped it.
	Stopped client.Reason
	// OpenFailures is how many of the merchant's opening failures count now, on all nodes. It is 0 if this settlement
	// is not such a failure.
	OpenFailures int
	// Decision is the decision that this settlement made; a repeated settlement makes none. It is expired if a
	// confirmation came at the deadline or later.
	Decision countersign.Decision
}

// NewWithdrawal is a withdrawal to be confirmed by its merchant.
type NewWithdrawal struct {
	Merchant     string
	CallBackID   string
	TenantUserID string
	TrackingID   string
	Business     int64
	Details      *client.Details // nil: taken from the merchant's answer
	Deadline     db.Millis
	Payload      []byte // of its type 2 callback, canonical, unbound
}

// Recorded is what became of one withdrawal of a request, or of its Outcome.
type Recorded struct {
	Withdrawal Withdrawal
	Duplicate  bool  // it was so already
	Err        error // why its outcome was not recorded; nil: it was
}

// Withdrawal is a withdrawal as the API shows it. Only tokens of its Origin are shown its Holder.
type Withdrawal struct {
	client.Withdrawal
	Origin string // the origin of the token that took the permit; empty: none has taken it here
}

// Holder is who holds a permit, or asks for one.
type Holder struct {
	Claim  string // names one execution
	Origin string // the origin of the token that asks (api.Token.Root)
}

// heldBy reports whether h holds w's permit.
func (w *Withdrawal) heldBy(h Holder) bool {
	return w.Holder == h.Claim && (w.Origin == h.Origin || w.Origin == "")
}

// Permit is the one permit to execute a confirmed withdrawal, before it is signed. The API turns it into
// client.Permit, which has the signed note.
type Permit struct {
	Permit     string
	Withdrawal Withdrawal
	// Duplicate means that the same holder got this permit before, and so may already have executed.
	Duplicate bool
	Epoch     int64 // the epoch of the database; 0: it was never restored
	// Answer is the merchant's signed answer that confirmed the withdrawal. Nil: the merchant does not sign, or the
	// answer was purged or came before a restore.
	Answer *client.SignedAnswer
}

// Outcome is what the wallet core reports of a released withdrawal: exactly one of TxID and FailReason is set.
type Outcome struct {
	ID         string // of the withdrawal
	Permit     string
	TxID       string
	FailReason string
	// Callback is the type 3 or type 5 callback to queue in the same transaction.
	Callback NewCallback
}

// FeedDecision is one entry of the feed of decisions, which has no gaps in Seq.
type FeedDecision struct {
	Seq        int64
	Withdrawal Withdrawal
}

// OpenFailureLimit is how many answers that fail to open within an hour pause a merchant.
const OpenFailureLimit = 10
