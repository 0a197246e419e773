package countersign

import "fmt"

// Type is the number that says what a callback is about (PROTOCOL.md,
// Messages). The zero Type is TypeUnknown, which no end processes.
type Type int

// The callback types.
const (
	TypeUnknown           Type = 0
	TypeDeposited         Type = 1 // a deposit arrived
	TypeRequestWithdraw   Type = 2 // a withdrawal asks for confirmation
	TypeWithdraw          Type = 3 // a withdrawal was executed
	TypeAddress           Type = 4 // a deposit address was replaced
	TypeInvalidAddress    Type = 5 // a withdrawal ended without execution
	TypeNotEnoughMoney    Type = 6 // a withdrawal waits for funds
	TypeNotEnoughHotMoney Type = 7 // a withdrawal waits for fees
)

// types describes each type once; its index is the type. Parsers, the merchant's
// library, both APIs and both consoles take from here what depends on the type alone.
// empty returns a message for a parser to fill, which describes its members.
var types = [...]struct {
	name   string
	words  string
	lane   Lane
	effect Effect
	report string // of a WithdrawalNotice
	empty  func(Type) message
}{
	TypeUnknown: {name: "NOTIFY_UNKNOWN"},
	TypeDeposited: {"NOTIFY_DEPOSITED", "deposit", LaneNotify, EffectDeposit, "",
		func(Type) message { return &Deposit{} }},
	TypeRequestWithdraw: {"NOTIFY_REQUEST_WITHDRAW", "withdrawal: question", LaneWithdraw, EffectQuestion, "",
		func(Type) message { return &WithdrawalRequest{} }},
	TypeWithdraw: {"NOTIFY_WITHDRAW", "withdrawal: executed", LaneNotify, EffectExecuted, "",
		func(Type) message { return &WithdrawalDone{} }},
	TypeAddress: {"NOTIFY_ADDRESS", "address replaced", LaneNotify, EffectAddress, "",
		func(Type) message { return &AddressChange{} }},
	TypeInvalidAddress: {"NOTIFY_INVALID_ADDRESS", "withdrawal: ended", LaneNotify, EffectEnded, "",
		func(Type) message { return &WithdrawalEnded{} }},
	TypeNotEnoughMoney: {"NOTIFY_NOT_ENOUGH_MONEY", "withdrawal: waits for funds", LaneNotify, EffectWaiting, "funds",
		withdrawalNotice},
	TypeNotEnoughHotMoney: {"NOTIFY_NOT_ENOUGH_HOT_MONEY", "withdrawal: waits for fees", LaneNotify, EffectWaiting, "fees",
		withdrawalNotice},
}

// Known reports whether t is one of the types with a meaning.
func (t Type) Known() bool { return t > TypeUnknown && int(t) < len(types) }

// row is the row of types for t.
func (t Type) row() int {
	if t.Known() {
		return int(t)
	}
	return int(TypeUnknown)
}

// Values returns the known types.
func (Type) Values() []Type {
	list := make([]Type, 0, len(types)-1)
	for t := TypeUnknown + 1; t.Known(); t++ {
		list = append(list, t)
	}
	return list
}

// String returns the protocol's name of t, such as NOTIFY_DEPOSITED.
func (t Type) String() string {
	if t >= 0 && int(t) < len(types) {
		return types[t].name
	}
	return fmt.Sprintf("callback type %d", int(t))
}

// Words returns what callbacks of type t are about, in words for people, or "" for an unknown type.
func (t Type) Words() string { return types[t.row()].words }

// Lane returns the lane of callbacks of type t, LaneNotify for an unknown type.
func (t Type) Lane() Lane { return types[t.row()].lane }

// Effect returns what an accepted callback of type t does at the merchant.
func (t Type) Effect() Effect { return types[t.row()].effect }

// Report returns the word by which a wallet reports what callbacks of type t say of a released
// withdrawal, such as "funds" for what it waits for. Only the types of WithdrawalNotice have
// one.
func (t Type) Report() string { return types[t.row()].report }

// Effect is what an accepted callback does at the merchant (PROTOCOL.md, Messages,
// M8 and M9). Callbacks with other effects than EffectDeposit and EffectQuestion are
// notices.
type Effect int

// The effects.
const (
	EffectNone     Effect = iota // of no known type
	EffectDeposit                // a deposit is taken
	EffectQuestion               // an order is decided by the answer, once
	EffectExecuted               // an order is executed
	EffectEnded                  // an order is ended and its funds are free
	EffectWaiting                // an order waits and its funds stay frozen
	EffectAddress                // a user has another deposit address
)

// IsNotice reports whether callbacks with effect e are notices, whose answers are
// a NoticeAnswer.
func (e Effect) IsNotice() bool { return e > EffectQuestion }

// Lane separates callbacks that must not wait for each other. It decides to
// which of the merchant's URLs they go (PROTOCOL.md, H1). Callbacks of
// LaneWithdraw are sent first, because a withdrawal waits for each of them.
type Lane int

// The lanes. Their numbers are kept in databases.
const (
	LaneNotify   Lane = 0 // the notify URL: every type but 2
	LaneWithdraw Lane = 1 // the withdraw URL: type 2
)

// String returns "notify" or "withdraw".
func (l Lane) String() string {
	if l == LaneWithdraw {
		return "withdraw"
	}
	return "notify"
}
