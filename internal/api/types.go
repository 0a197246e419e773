package api

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// TimeOf returns m as a time of the API. It returns 0, which JSON leaves out, for the times that mean "none" and
// "never".
func TimeOf(m db.Millis) client.Time { return db.Shown(m) }

// Aliases maps types of package client to the types that describe them in the document, because package client knows
// nothing of schemas.
type Aliases map[reflect.Type]reflect.Type

// describe makes S the description of T.
func describe[T any, S huma.SchemaProvider](a Aliases) {
	a[reflect.TypeFor[T]()] = reflect.TypeFor[S]()
}

// withValues is a string type with a fixed list of values.
type withValues[T any] interface {
	~string
	Values() []T
}

// enumerate describes T by its values.
func enumerate[T withValues[T]](a Aliases) { describe[T, enumerated[T]](a) }

type enumerated[T withValues[T]] struct{}

func (enumerated[T]) Schema(huma.Registry) *huma.Schema {
	var zero T
	return enumeration(zero.Values()...)
}

// enumeration describes a text that is one of values.
func enumeration[T ~string](values ...T) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

type timeText struct{}

func (timeText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: formatTime, Description: "RFC 3339, UTC, milliseconds"}
}

// durationText has no pattern: checkText checks the format.
type durationText struct{}

func (durationText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: FormatDuration, Description: "a Go duration, such as 1h30m or 5s",
		Examples: []any{"1h"}}
}

type callbackType struct{}

func (callbackType) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeInteger, Format: "int64"}
	for _, t := range countersign.TypeUnknown.Values() {
		s.Enum = append(s.Enum, float64(t)) // the checks compare it with a number of JSON
	}
	return s
}

// amountText describes a decimal in a text (PROTOCOL.md, Amounts). A JSON number is refused, because many programs
// write a different number than they read.
type amountText struct{}

func (amountText) Schema(huma.Registry) *huma.Schema {
	const digits = `^(0|[1-9][0-9]*)(\.[0-9]+)?$`
	return &huma.Schema{Type: huma.TypeString, Format: formatDecimal, Pattern: digits,
		Description: "an exact decimal of at most 78 digits, without sign and exponent; kept as written",
		Examples:    []any{"2.500000"}}
}

// common returns the aliases of types that both ends describe alike, or that only one of them has.
func common() Aliases {
	a := Aliases{}
	describe[countersign.Amount, amountText](a)
	describe[countersign.Type, callbackType](a)
	describe[client.Time, timeText](a)
	describe[client.Duration, durationText](a)
	enumerate[client.AddressState](a)
	enumerate[client.AlarmState](a)
	enumerate[client.AttemptResult](a)
	enumerate[client.BodyForm](a)
	enumerate[client.CallbackState](a)
	enumerate[client.Collect](a)
	enumerate[client.DepositState](a)
	enumerate[client.Effect](a)
	enumerate[client.EventKind](a)
	enumerate[client.FeedName](a)
	enumerate[client.KeyKind](a)
	enumerate[client.Lane](a)
	enumerate[client.MerchantState](a)
	enumerate[client.OrderState](a)
	enumerate[client.Reason](a)
	enumerate[client.RefusedState](a)
	enumerate[client.RotationState](a)
	enumerate[client.Scheme](a)
	enumerate[client.WaitingFor](a)
	enumerate[client.WithdrawalState](a)
	return a
}

// ServiceWords returns the aliases of the words that both ends have, with the values that the service uses.
func ServiceWords() Aliases {
	a := Aliases{}
	describe[client.Role, atService[client.Role]](a)
	describe[client.AlarmKind, atService[client.AlarmKind]](a)
	describe[client.FoundKind, atService[client.FoundKind]](a)
	describe[client.MatchedBy, atService[client.MatchedBy]](a)
	return a
}

// GatewayWords returns the same with the values that the gateway uses.
func GatewayWords() Aliases {
	a := Aliases{}
	describe[client.Role, atGateway[client.Role]](a)
	describe[client.AlarmKind, atGateway[client.AlarmKind]](a)
	describe[client.FoundKind, atGateway[client.FoundKind]](a)
	describe[client.MatchedBy, atGateway[client.MatchedBy]](a)
	return a
}

// bothEnds is a word whose values differ between the ends.
type bothEnds[T any] interface {
	~string
	AtService() []T
	AtGateway() []T
}

type atService[T bothEnds[T]] struct{}

func (atService[T]) Schema(huma.Registry) *huma.Schema {
	var zero T
	return enumeration(zero.AtService()...)
}

type atGateway[T bothEnds[T]] struct{}

func (atGateway[T]) Schema(huma.Registry) *huma.Schema {
	var zero T
	return enumeration(zero.AtGateway()...)
}
