package journal

import (
	"countersign/client"
)

// The kinds of records of the service's log.
const (
	MerchantCreated = "merchant.created"
	MerchantChanged = "merchant.changed"
	MerchantPaused  = "merchant.paused"
	MerchantResumed = "merchant.resumed"

	WithdrawalCreated      = "withdrawal.created"
	WithdrawalAnswered     = "withdrawal.answered" // an exchange whose response was an answer or decided; at the merchant's end, its answer
	WithdrawalDecided      = "withdrawal.decided"
	WithdrawalReleased     = "withdrawal.released"
	WithdrawalRepeated     = "withdrawal.released_again" // the same holder got its permit again
	WithdrawalClaimRefused = "withdrawal.claim_refused"
	WithdrawalWaits        = "withdrawal.waits"
	WithdrawalEnded        = "withdrawal.ended"
	WithdrawalContradicted = "withdrawal.outcome_contradicted" // another outcome than the one that stands
	WithdrawalBlocked      = "withdrawal.blocked"
	WithdrawalApproved     = "withdrawal.approved" // its release, by a person
	WithdrawalLapsed       = "withdrawal.lapsed"
	WithdrawalAdopted      = "withdrawal.adopted" // its permit was issued before the restore
	WithdrawalNoted        = "withdrawal.noted"
	WithdrawalResumed      = "withdrawal.resumed" // nothing became of it before the restore

	ServiceFrozen     = "service.frozen"
	ServiceThawed     = "service.thawed"
	ServiceRestored   = "service.restored"
	ServiceReconciled = "service.reconciled"

	AttemptsSettled = "attempts.settled" // of all other callbacks together
	CallbacksResent = "callbacks.resent"
	// CallbacksSentAgain is for callbacks that the merchant had accepted.
	CallbacksSentAgain = "callbacks.sent_again"
	CallbacksPurged    = "callbacks.purged"
)

// AboutFreezes is the subject of the records of freezes.
const AboutFreezes = "freezes"

// Withdrawal says what happened to a withdrawal. A record has the members that its kind needs. The permit is a secret:
// its fingerprint is the beginning of its SHA-256.
type Withdrawal struct {
	Merchant     string          `json:"merchant,omitempty"`
	CallBackID   string          `json:"callBackId,omitempty"`
	TenantUserID string          `json:"tenantUserId,omitempty"`
	TrackingID   string          `json:"trackingId,omitempty"`
	Business     int64           `json:"business,omitempty"`
	Details      *client.Details `json:"details,omitempty"`  // as ordered, approved, decided or released; absent: the service knows none
	Deadline     int64           `json:"deadline,omitempty"` // milliseconds since 1970, as all times below
	Decision     string          `json:"decision,omitempty"`
	Attempt      int             `json:"attempt,omitempty"` // whose answer decided
	Holder       *Holder         `json:"holder,omitempty"`  // who asked for the permit
	Held         *Holder         `json:"heldBy,omitempty"`  // who has the permit, if the caller did not get it
	Permit       string          `json:"permit,omitempty"`
	Claim        string          `json:"claim,omitempty"` // fingerprint of the holder's, of a permit from before a restore
	Was          string          `json:"was,omitempty"`   // its state before; absent: it was not known
	State        string          `json:"state,omitempty"`
	TxID         string          `json:"txId,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	Type         int             `json:"type,omitempty"`     // 6 or 7: it waits
	Callback     string          `json:"callback,omitempty"` // the id of the callback that tells the merchant
	Stands       *Outcome        `json:"stands,omitempty"`   // the outcome that stands, if another was
	Reported     *Outcome        `json:"reported,omitempty"`
}

// Holder is who holds a permit. Readers of the log must not be able to repeat its claim.
type Holder struct {
	Claim  string `json:"claim"`            // its fingerprint
	Origin string `json:"origin,omitempty"` // of the token; absent: the permit was issued before a restore
}

// HolderOf returns a holder as records have it.
func HolderOf(claim, origin string) *Holder { return &Holder{Fingerprint(claim), origin} }

// Outcome is an end of a released withdrawal.
type Outcome struct {
	State  string `json:"state"`
	TxID   string `json:"txId,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Stopped says why a person stopped something.
type Stopped struct {
	Reason string `json:"reason,omitempty"`
}

// Exchange is an attempt of type 2 with everything that was sent and that came back.
type Exchange struct {
	Merchant       string          `json:"merchant"`
	Callback       string          `json:"callback"`
	Type           int             `json:"type"`
	EventID        string          `json:"eventId"`
	AddedBy        string          `json:"addedBy,omitempty"` // token
	Payload        string          `json:"payload"`           // SHA-256 of the canonical payload
	Attempt        int             `json:"attempt"`
	RequestUUID    string          `json:"requestUUID"`
	Started        int64           `json:"started"`
	Settled        int64           `json:"settled"`
	Node           string          `json:"node,omitempty"`
	Status         int             `json:"status"`
	ErrCode        *int64          `json:"errCode,omitempty"`
	Result         string          `json:"result"`
	Reason         string          `json:"reason"`
	RequestHash    string          `json:"requestHash,omitempty"` // SHA-256 of the body
	ResponseHash   string          `json:"responseHash,omitempty"`
	Late           bool            `json:"late,omitempty"`     // it came after its lease was lost and changed nothing
	Repeated       bool            `json:"repeated,omitempty"` // the merchant had accepted the callback before
	Version        int64           `json:"merchantVersion"`
	URL            string          `json:"url"`
	RequestKey     string          `json:"requestKey"` // fingerprints
	ResponseKey    string          `json:"responseKey"`
	Request        string          `json:"request"`       // the body, as it was sent
	RequestOpened  string          `json:"requestOpened"` // the bytes that were sealed in it
	Message        string          `json:"message,omitempty"`
	Response       string          `json:"response,omitempty"`       // member data of the response: the sealed answer, as it came
	ResponseOpened string          `json:"responseOpened,omitempty"` // the bytes that it opened to
	Link           *Link           `json:"link,omitempty"`
	Details        *client.Details `json:"details,omitempty"`
	AfterDecision  bool            `json:"afterDecision,omitempty"` // there was a decision already
	Differs        bool            `json:"differs,omitempty"`       // and this answer contradicts it
	Alarm          string          `json:"alarm,omitempty"`
}

// Changed has the members of a merchant that differ from before.
type Changed struct {
	Version int64             `json:"version"`
	Before  map[string]string `json:"before,omitempty"`
	After   map[string]string `json:"after"`
}
