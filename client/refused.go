package client

import (
	"context"
	"countersign"
)

// RefusedState is the state of a callback that was refused.
type RefusedState string

// The states of a refused callback.
const (
	RefusedOpen      RefusedState = "open"
	RefusedTaken     RefusedState = "taken"
	RefusedDismissed RefusedState = "dismissed"
)

var _ = newWords(words[RefusedState]{
	{is: RefusedOpen, means: "Nobody has decided on it."},
	{is: RefusedTaken, means: "A person had it tried again, and it was taken."},
	{is: RefusedDismissed, means: "A person has said that nothing is to be done."},
})

// RefusedCallback is a callback that was refused although it opened, or although it came with
// the right callback API key.
type RefusedCallback struct {
	ID         int64            `json:"id" minimum:"1" doc:"identifies it here"`
	State      RefusedState     `json:"state" doc:"open, taken or dismissed"`
	Reason     RefusalReason    `json:"reason" doc:"why it was refused"`
	Means      string           `json:"means" doc:"what the reason means, for people"`
	Facts      []Fact           `json:"facts" nullable:"false" doc:"what was not as expected, as it last came"`
	Setting    string           `json:"setting,omitempty" doc:"the settings that decide on it; absent: none should let it through"`
	Opened     bool             `json:"opened" doc:"it opened with the gateway's key"`
	Type       countersign.Type `json:"type,omitempty" doc:"type of the callback; absent: it could not be read"`
	CallbackID string           `json:"callbackId,omitempty" doc:"its trackingId, for type 2 its callBackId; absent: it could not be read"`
	ErrCode    int64            `json:"errCode" doc:"errCode that the service got, before the provider's own codes"`
	Message    string           `json:"message,omitempty" doc:"text that the service got"`
	First      Time             `json:"first" doc:"when it came first"`
	Last       Time             `json:"last" doc:"when it came last"`
	Number     int64            `json:"number" minimum:"1" doc:"how often it came"`
	Due        Time             `json:"due,omitzero" doc:"when the merchant's own check is asked about it again; absent: it is not"`
	Bytes      int64            `json:"bytes" doc:"size of its body"`
	Inbox      int64            `json:"inbox,omitempty" doc:"number in the inbox of the callback with this type and identifier that was taken; absent: none was"`
	Decided    Time             `json:"decided,omitzero" doc:"when a person decided on it; absent: nobody has"`
	DecidedBy  string           `json:"decidedBy,omitempty" doc:"id of the token that decided on it"`
	Note       string           `json:"note,omitempty" doc:"what the person noted"`

	Body        string `json:"body,omitempty" doc:"only of one, for approvers and admins: the body as it came"`
	Explanation string `json:"explanation,omitempty" doc:"only of one, for approvers and admins: what it holds and which settings fit it, as open --explain says, with the present keys"`
}

// RefusedFilter selects refused callbacks. Empty members select all.
type RefusedFilter struct {
	State      RefusedState  `json:"state,omitempty" query:"state" doc:"only in this state"`
	Reason     RefusalReason `json:"reason,omitempty" query:"reason" doc:"only refused for this reason"`
	CallbackID string        `json:"callbackId,omitempty" query:"callbackId" maxLength:"1024" doc:"only with this trackingId, of type 2 callBackId"`
}

// Learned is what the callbacks that came while the gateway learned show together.
type Learned struct {
	Settings string `json:"settings" doc:"settings that fit, as a TOML file for gateway --config; comments say how many callbacks would be refused, and why"`
	Note     string `json:"note,omitempty" doc:"what to send to the provider: what no setting mends; absent: nothing"`
}

// Refused returns a page of the callbacks that were refused, the newest first.
func (g *Gateway) Refused(ctx context.Context, f RefusedFilter, o PageOptions) (List[RefusedCallback], error) {
	return Get[List[RefusedCallback]](ctx, g, "/v1/refused", f, o)
}
