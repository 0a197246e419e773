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

var foundKinds = words[FoundKind]{
	{is: FoundMerchant, at: atService, means: "A merchant."},
	{is: FoundCallback, at: atService, means: "A callback to a merchant. Those of a withdrawal that was found too are left out: its page has them."},
	{is: FoundWithdrawal, at: atService, means: "A withdrawal that a merchant confirms."},
	{is: FoundDeposit, at: atGateway, means: "A deposit that the service told of."},
	{is: FoundOrder, at: atGateway, means: "A withdrawal that the merchant ordered."},
	{is: FoundAddress, at: atGateway, means: "A deposit address that the service told of."},
	{is: FoundRefused, at: atGateway, means: "A callback that was refused and is kept."},
}

// Values returns the kinds of both ends.
func (FoundKind) Values() []FoundKind { return foundKinds.values() }

// AtService returns the kinds of the service.
func (FoundKind) AtService() []FoundKind { return foundKinds.valuesAt(atService) }

// AtGateway returns the kinds of the gateway.
func (FoundKind) AtGateway() []FoundKind { return foundKinds.valuesAt(atGateway) }

// Means returns what k means, for people, or "" for an unknown word.
func (k FoundKind) Means() string { return foundKinds.of(k).means }

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

var matchedBys = words[MatchedBy]{
	{is: MatchedID, at: atBoth, means: "Its id here: of an order its callBackId, of a deposit, an address and a refused callback its number."},
	{is: MatchedTrackingID, at: atBoth, means: "Its trackingId, or that of a callback about it."},
	{is: MatchedCallBackID, at: atService, means: "Its callBackId."},
	{is: MatchedTxID, at: atBoth, means: "Its transaction."},
	{is: MatchedRequestUUID, at: atService, means: "The requestUUID of one of its attempts that was not accepted."},
	{is: MatchedUser, at: atBoth, means: "Its user, tenantUserId."},
	{is: MatchedAddress, at: atBoth, means: "The address that it goes to; of a changed address the new or the old one."},
}

// Values returns the members of both ends.
func (MatchedBy) Values() []MatchedBy { return matchedBys.values() }

// AtService returns the members that the service looks at.
func (MatchedBy) AtService() []MatchedBy { return matchedBys.valuesAt(atService) }

// AtGateway returns the members that the gateway looks at.
func (MatchedBy) AtGateway() []MatchedBy { return matchedBys.valuesAt(atGateway) }

// Means returns what m means, for people, or "" for an unknown word.
func (m MatchedBy) Means() string { return matchedBys.of(m).means }

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
