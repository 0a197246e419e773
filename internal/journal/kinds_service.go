package journal

import (
	"context"
	"reflect"

	"countersign/internal/db"
)

// The kinds of records of the service's log.
const (
	MerchantCreated = "merchant.created"
	MerchantChanged = "merchant.changed"
	MerchantPaused  = "merchant.paused"
	MerchantResumed = "merchant.resumed"
	MerchantDeleted = "merchant.deleted" // its keys were erased

	WithdrawalCreated      = "withdrawal.created"
	WithdrawalAnswered     = "withdrawal.answered" // an exchange whose response was an answer or decided; at the merchant's end, its answer
	WithdrawalDecided      = "withdrawal.decided"
	WithdrawalReleased     = "withdrawal.released"
	WithdrawalRepeated     = "withdrawal.released_again" // the same permit to the same holder
	WithdrawalClaimRefused = "withdrawal.claim_refused"
	WithdrawalWaits        = "withdrawal.waits"
	WithdrawalEnded        = "withdrawal.ended"
	WithdrawalContradicted = "withdrawal.outcome_contradicted" // another outcome than the one that stands
	WithdrawalBlocked      = "withdrawal.blocked"
	WithdrawalApproved     = "withdrawal.approved" // its release, by a person
	WithdrawalLapsed       = "withdrawal.lapsed"
	WithdrawalAdopted      = "withdrawal.adopted" // its permit was given before the restore
	WithdrawalNoted        = "withdrawal.noted"
	WithdrawalResumed      = "withdrawal.resumed" // nothing became of it before the restore

	ServiceFrozen     = "service.frozen"
	ServiceThawed     = "service.thawed"
	ServiceRestored   = "service.restored"
	ServiceReconciled = "service.reconciled"

	AttemptsSettled = "attempts.settled" // of all other callbacks, as one
	CallbacksResent = "callbacks.resent"
	// CallbacksSentAgain: the merchant had accepted them.
	CallbacksSentAgain = "callbacks.sent_again"
	CallbacksPurged    = "callbacks.purged"
)

// AboutFreezes is the subject of the records of freezes.
const AboutFreezes = "freezes"

// Withdrawal is what records about a withdrawal have in common.
type Withdrawal struct {
	Merchant   string `json:"merchant"`
	CallBackID string `json:"callBackId,omitempty"`
}

// WithdrawalOf names a withdrawal in a record.
func WithdrawalOf(merchant, callBackID string) Withdrawal { return Withdrawal{merchant, callBackID} }

// Created tells what the service was asked to have confirmed.
type Created struct {
	Withdrawal
	TenantUserID string   `json:"tenantUserId"`
	TrackingID   string   `json:"trackingId"`
	Business     int64    `json:"business"`
	Ordered      *Details `json:"ordered,omitempty"` // absent: the service was told nothing
	Deadline     int64    `json:"deadline"`          // milliseconds since 1970, as all times below
}

// Decided tells of a decision.
type Decided struct {
	Merchant string   `json:"merchant"`
	Decision string   `json:"decision"`
	Reason   string   `json:"reason"`
	Attempt  int      `json:"attempt,omitempty"` // absent: no answer decided
	Details  *Details `json:"details,omitempty"`
}

// Released tells of a permit. The permit itself is a secret: its fingerprint is the
// beginning of its SHA-256.
type Released struct {
	Withdrawal
	Holder  *Holder  `json:"holder,omitempty"`
	Permit  string   `json:"permit"`
	Held    *Holder  `json:"heldBy,omitempty"` // who has it, if the holder did not get it
	Details *Details `json:"details,omitempty"`
}

// Approved tells that a person approved the release of a withdrawal.
type Approved struct {
	Withdrawal
	TenantUserID string   `json:"tenantUserId"`
	Details      *Details `json:"details"`
	Reason       string   `json:"reason,omitempty"`
}

// Holder is who holds a permit. Readers of the log must not be able to repeat its claim.
type Holder struct {
	Claim  string `json:"claim"`            // its fingerprint
	Origin string `json:"origin,omitempty"` // of the token; absent: the permit was given before a restore
}

// HolderOf names a holder in a record.
func HolderOf(claim, origin string) *Holder { return &Holder{Fingerprint(claim), origin} }

// Adopted tells of a permit that was given before a restore.
type Adopted struct {
	Withdrawal
	Was    string `json:"was,omitempty"`   // absent: it was not known
	Claim  string `json:"claim,omitempty"` // fingerprints
	Permit string `json:"permit"`
}

// Stopped tells why a person stopped something.
type Stopped struct {
	Reason string `json:"reason,omitempty"`
}

// Ended tells of an outcome.
type Ended struct {
	Withdrawal
	State  string `json:"state"`
	Permit string `json:"permit"`
	TxID   string `json:"txId,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Outcome is an end of a released withdrawal.
type Outcome struct {
	State  string `json:"state"`
	TxID   string `json:"txId,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Contradicted tells of an outcome that was refused because another one stands.
type Contradicted struct {
	Withdrawal
	Permit   string  `json:"permit"` // its fingerprint
	Stands   Outcome `json:"stands"`
	Reported Outcome `json:"reported"`
}

// Waits tells that a released withdrawal waits.
type Waits struct {
	Withdrawal
	Type     int    `json:"type"`     // 6 or 7
	Callback string `json:"callback"` // that tells the merchant
}

// Lapsed tells of a withdrawal that was confirmed and not released in time.
type Lapsed struct{ Withdrawal }

// Attempt is an attempt as records have it.
type Attempt struct {
	Merchant     string `json:"merchant"`
	Callback     string `json:"callback"`
	Type         int    `json:"type"`
	EventID      string `json:"eventId"`
	AddedBy      string `json:"addedBy,omitempty"` // token
	Payload      string `json:"payload"`           // SHA-256 of the canonical payload
	Attempt      int    `json:"attempt"`
	RequestUUID  string `json:"requestUUID"`
	Started      int64  `json:"started"`
	Settled      int64  `json:"settled"`
	Node         string `json:"node,omitempty"`
	Status       int    `json:"status"`
	ErrCode      *int64 `json:"errCode,omitempty"`
	Result       string `json:"result"`
	Reason       string `json:"reason"`
	RequestHash  string `json:"requestHash,omitempty"` // SHA-256 of the body
	ResponseHash string `json:"responseHash,omitempty"`
	Late         bool   `json:"late,omitempty"`     // it came after its lease was lost and changed nothing
	Repeated     bool   `json:"repeated,omitempty"` // the merchant had accepted the callback before
}

// Exchange tells of an attempt of type 2 with all that was sent and that came back.
type Exchange struct {
	Attempt
	Version        int64    `json:"merchantVersion"`
	URL            string   `json:"url"`
	RequestKey     string   `json:"requestKey"` // fingerprints
	ResponseKey    string   `json:"responseKey"`
	Request        string   `json:"request"`       // the body, as it was sent
	RequestOpened  string   `json:"requestOpened"` // the bytes that were sealed in it
	Message        string   `json:"message,omitempty"`
	Response       string   `json:"response,omitempty"`       // member data of the response: the sealed answer, as it came
	ResponseOpened string   `json:"responseOpened,omitempty"` // the bytes that it opened to
	Link           *Link    `json:"link,omitempty"`
	Details        *Details `json:"details,omitempty"`
	AfterDecision  bool     `json:"afterDecision,omitempty"` // there was a decision already
	Differs        bool     `json:"differs,omitempty"`       // and this answer contradicts it
	Alarm          string   `json:"alarm,omitempty"`
}

// Changed tells of the members of a merchant that are others than before.
type Changed struct {
	Version int64          `json:"version"`
	Before  map[string]any `json:"before,omitempty"`
	After   map[string]any `json:"after"`
}

// AddMerchant adds a record about a merchant whose members were and are these, secrets by
// their fingerprints; it keeps what differs. Nil before: the merchant is new.
func AddMerchant(ctx context.Context, t *db.Tx, id string, c Changed, now db.Millis) error {
	if c.Before == nil {
		return AddAbout(ctx, t, MerchantCreated, id, now, c)
	}
	for member, value := range c.After {
		if reflect.DeepEqual(value, c.Before[member]) {
			delete(c.After, member)
			delete(c.Before, member)
		}
	}
	return AddAbout(ctx, t, MerchantChanged, id, now, c)
}
