package client

// FoundKind is what a search has found.
type FoundKind string

// The kinds of what a search finds.
const (
	FoundMerchant   FoundKind = "merchant"
	FoundCallback   FoundKind = "callback"
	FoundWithdrawal FoundKind = "withdrawal"
	FoundDeposit    FoundKind = "deposit"
	FoundOrder      FoundKind = "order"
	FoundAddress    FoundKind = "address"
	FoundRefused    FoundKind = "refused"
)

var _ = newWords(words[FoundKind]{
	{is: FoundMerchant, at: AtService, means: "A merchant."},
	{is: FoundCallback, at: AtService, means: "A callback to a merchant. Those of a withdrawal that was found too are left out: its page has them."},
	{is: FoundWithdrawal, at: AtService, means: "A withdrawal that a merchant confirms."},
	{is: FoundDeposit, at: AtGateway, means: "A deposit that the service told of."},
	{is: FoundOrder, at: AtGateway, means: "A withdrawal that the merchant ordered."},
	{is: FoundAddress, at: AtGateway, means: "A deposit address that the service told of."},
	{is: FoundRefused, at: AtGateway, means: "A callback that was refused and is kept."},
})

// MatchedBy is the member that has the text of a search.
type MatchedBy string

// The members that a search looks at.
const (
	MatchedID          MatchedBy = "id"
	MatchedTrackingID  MatchedBy = "trackingId"
	MatchedCallBackID  MatchedBy = "callBackId"
	MatchedTxID        MatchedBy = "txId"
	MatchedRequestUUID MatchedBy = "requestUUID"
	MatchedUser        MatchedBy = "tenantUserId"
	MatchedAddress     MatchedBy = "address"
)

var _ = newWords(words[MatchedBy]{
	{is: MatchedID, at: AtBoth, means: "Its id here: of an order its callBackId, of a deposit, an address and a refused callback its number."},
	{is: MatchedTrackingID, at: AtBoth, means: "Its trackingId, or that of a callback about it."},
	{is: MatchedCallBackID, at: AtService, means: "Its callBackId."},
	{is: MatchedTxID, at: AtBoth, means: "Its transaction."},
	{is: MatchedRequestUUID, at: AtService, means: "The requestUUID of one of its attempts that was not accepted."},
	{is: MatchedUser, at: AtBoth, means: "Its user, tenantUserId."},
	{is: MatchedAddress, at: AtBoth, means: "The address that it goes to; of a changed address the new or the old one."},
})

// Found is one thing that a search has found.
type Found struct {
	Kind     FoundKind `json:"kind" doc:"what it is"`
	ID       string    `json:"id" doc:"identifies it among its kind"`
	Merchant string    `json:"merchant,omitempty" doc:"id of its merchant; absent: it is of none, as always at the gateway"`
	Matched  MatchedBy `json:"matched" doc:"the member that has the text"`
	State    string    `json:"state" doc:"its state"`
	At       Time      `json:"at,omitzero" doc:"when it was made or taken"`
}

// MostFound is how many things a search returns at most.
const MostFound = 50
