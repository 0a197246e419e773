package journal

import (
	"strconv"

	"countersign/client"
)

// The kinds of records of the merchant's log, besides WithdrawalAnswered and those of events, which have the event's
// kind.
const (
	OrderAdded      = "order.added"    // a client.NewOrder
	OrderResumed    = "order.resumed"  // it goes on after a restore
	OrderApproval   = "order.approval" // by one of several who must approve it; the last has order.approved
	OrderNoted      = "order.noted"
	DepositNoted    = "deposit.noted"
	DepositCredited = "deposit.credited" // that of its event
	CallbacksTaken  = "callbacks.taken"  // of all types, as one
	CursorMoved     = "cursor.moved"     // a client.Cursor
	ForwardingBegun = "forwarding.begun" // by a start
	ForwardRetried  = "forward.retried"
	RefusedDecided  = "refused.decided"
	BookRestored    = "book.restored"
	BookReconciled  = "book.reconciled"
	DepositsPurged  = "deposits.purged"
)

// AboutDeposit is the subject of the records of decisions on a deposit, by its number in the feed.
func AboutDeposit(seq int64) string { return "deposit:" + strconv.FormatInt(seq, 10) }

// Event is an event as records have it. The events of orders record every change of their state, with who made it.
type Event struct {
	CallBackID   string          `json:"callBackId,omitempty"`
	Deposit      int64           `json:"deposit,omitempty"` // seq in the feed
	TenantUserID string          `json:"tenantUserId,omitempty"`
	State        string          `json:"state,omitempty"`
	Details      *client.Details `json:"details,omitempty"`
	OldAddress   string          `json:"oldAddress,omitempty"`
	TxID         string          `json:"txId,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	DecidedBy    string          `json:"decidedBy,omitempty"`
}

// Forward says with which entry the forwarding of a feed begins, or how many entries a person had forwarded again.
type Forward struct {
	OnlyNew bool  `json:"onlyNew,omitempty"` // entries from before it began are not forwarded
	Retried int64 `json:"retried,omitempty"`
}

// Refused says what a person did with a callback that had been refused.
type Refused struct {
	ID     string `json:"id"`
	State  string `json:"state"` // taken, dismissed
	Type   int64  `json:"type,omitempty"`
	About  string `json:"about,omitempty"` // trackingId, for type 2 callBackId
	Reason string `json:"reason"`
	Note   string `json:"note,omitempty"`
}

// Answer says what the merchant was asked about a withdrawal, and what it answered.
type Answer struct {
	CallBackID     string `json:"callBackId"`
	TenantUserID   string `json:"tenantUserId"`
	RequestUUID    string `json:"requestUUID"`
	Request        string `json:"request"`       // the body, as it came
	RequestOpened  string `json:"requestOpened"` // the bytes that it opened to
	ErrCode        int64  `json:"errCode"`
	Message        string `json:"message,omitempty"`
	Response       string `json:"response,omitempty"`       // member data of the response: the sealed answer, as sent
	ResponseOpened string `json:"responseOpened,omitempty"` // the bytes that were sealed in it
	Link           *Link  `json:"link,omitempty"`
}
