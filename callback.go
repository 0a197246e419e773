package countersign

import (
	"fmt"

	"countersign/internal/strictjson"
)

// MaxMessage is the largest plaintext or response, in bytes, that the parsers
// read (PROTOCOL.md, HTTP).
const MaxMessage = 64 << 10

// Type is the number that says what a callback is about (PROTOCOL.md,
// Messages). The zero Type is TypeUnknown, which no end processes.
type Type int

// The callback types. Types 1 and 3 to 7 go to the merchant's notify URL,
// type 2 goes to its withdraw URL.
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

var typeNames = [...]string{
	TypeUnknown:           "NOTIFY_UNKNOWN",
	TypeDeposited:         "NOTIFY_DEPOSITED",
	TypeRequestWithdraw:   "NOTIFY_REQUEST_WITHDRAW",
	TypeWithdraw:          "NOTIFY_WITHDRAW",
	TypeAddress:           "NOTIFY_ADDRESS",
	TypeInvalidAddress:    "NOTIFY_INVALID_ADDRESS",
	TypeNotEnoughMoney:    "NOTIFY_NOT_ENOUGH_MONEY",
	TypeNotEnoughHotMoney: "NOTIFY_NOT_ENOUGH_HOT_MONEY",
}

// Known reports whether t is one of the types 1 to 7.
func (t Type) Known() bool { return t >= TypeDeposited && t <= TypeNotEnoughHotMoney }

// String gives the protocol's name of t, such as NOTIFY_DEPOSITED.
func (t Type) String() string {
	if t >= 0 && int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("callback type %d", int(t))
}

// Callback is one thing the service says to a merchant: a *Deposit,
// *WithdrawalRequest, *WithdrawalDone, *AddressChange, *WithdrawalEnded or
// *FundsShort.
type Callback interface {
	// CallbackType is the number in the member "type".
	CallbackType() Type
	// EventID is the identifier that stays the same through every attempt:
	// trackingId, and for a WithdrawalRequest callBackId. It is empty for an
	// AddressChange, which carries none.
	EventID() string
	// UUID is the requestUUID of the attempt that carried the callback.
	UUID() string
	// User is the tenantUserId.
	User() string
	// Unknown lists the members that this package has no meaning for.
	Unknown() Members
	// Marshal gives the canonical bytes, with requestUUID last. It fails with
	// a *MemberError where a member breaks its rule.
	Marshal() ([]byte, error)
}

// ParseOptions relax what a parser refuses. The zero value is strict.
type ParseOptions struct {
	// Lenient lets the members be absent or null on which no effect rests
	// (fromAddress, riskLevelFrom, riskLevelTo, txIndex, newAddress, business,
	// and in types 3 and 4 the description of the transfer), and lets an
	// amount be a JSON number. For services that differ from the interface.
	Lenient bool
}

// ParseCallback reads an opened request (PROTOCOL.md, Messages). The errors
// are a *MemberError (errors.Is ErrMalformed) or wrap ErrMalformed or
// ErrUnknownType. It never changes and never keeps plaintext.
func ParseCallback(plaintext []byte, o ParseOptions) (Callback, error) {
	obj, err := scan(plaintext)
	if err != nil {
		return nil, err
	}
	t, err := requestType(obj)
	if err != nil {
		return nil, err
	}
	switch t {
	case TypeDeposited:
		return decode(obj, o, &Deposit{})
	case TypeRequestWithdraw:
		return decode(obj, o, &WithdrawalRequest{})
	case TypeWithdraw:
		return decode(obj, o, &WithdrawalDone{})
	case TypeAddress:
		return decode(obj, o, &AddressChange{})
	case TypeInvalidAddress:
		return decode(obj, o, &WithdrawalEnded{})
	case TypeNotEnoughMoney, TypeNotEnoughHotMoney:
		return decode(obj, o, &FundsShort{Type: t})
	}
	return nil, fmt.Errorf("%w: %d", ErrUnknownType, int(t))
}

// message is a Callback that describes its members to a codec.
type message interface {
	Callback
	members(c *codec)
}

func decode(obj *strictjson.Object, o ParseOptions, m message) (Callback, error) {
	c := codec{obj: obj, lenient: o.Lenient}
	m.members(&c)
	if err := c.finish(); err != nil {
		return nil, err
	}
	return m, nil
}

func encode(m interface{ members(c *codec) }) ([]byte, error) {
	c := codec{out: make([]byte, 0, 512)}
	m.members(&c)
	if err := c.finish(); err != nil {
		return nil, err
	}
	return c.out, nil
}
