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

// word makes the words of T that an end uses its description.
func word[T ~string](a Aliases, at client.End) {
	if at == client.AtGateway {
		describe[T, gatewayWord[T]](a)
	} else {
		describe[T, serviceWord[T]](a)
	}
}

type serviceWord[T ~string] struct{}

func (serviceWord[T]) Schema(huma.Registry) *huma.Schema { return enumeration[T](client.AtService) }

type gatewayWord[T ~string] struct{}

func (gatewayWord[T]) Schema(huma.Registry) *huma.Schema { return enumeration[T](client.AtGateway) }

// enumeration describes a text that is one of the words of T that an end uses.
func enumeration[T ~string](at client.End) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, v := range client.ValuesAt[T](at) {
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

// aliasesAt returns the aliases of types for the document of an end.
func aliasesAt(at client.End) Aliases {
	a := Aliases{}
	describe[countersign.Amount, amountText](a)
	describe[countersign.Type, callbackType](a)
	describe[client.Time, timeText](a)
	describe[client.Duration, durationText](a)
	word[client.AddressState](a, at)
	word[client.AlarmKind](a, at)
	word[client.AlarmState](a, at)
	word[client.AttemptResult](a, at)
	word[client.BodyForm](a, at)
	word[client.CallbackState](a, at)
	word[client.Collect](a, at)
	word[client.DepositState](a, at)
	word[client.Effect](a, at)
	word[client.EventKind](a, at)
	word[client.FeedName](a, at)
	word[client.FoundKind](a, at)
	word[client.KeyKind](a, at)
	word[client.Lane](a, at)
	word[client.MatchedBy](a, at)
	word[client.MerchantState](a, at)
	word[client.OrderState](a, at)
	word[client.Reason](a, at)
	word[client.RefusedState](a, at)
	word[client.Role](a, at)
	word[client.RotationState](a, at)
	word[client.Scheme](a, at)
	word[client.WaitingFor](a, at)
	word[client.WithdrawalState](a, at)
	return a
}
