package api

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// TimeOf returns m as a time of the API. Times that stand for "none" and "never" give
// 0, which is left out.
func TimeOf(m db.Millis) client.Time {
	if m <= 0 || m >= db.Never {
		return 0
	}
	return client.Time(m)
}

// Aliases maps types of the API to the types that describe them in the document.
// The types of the APIs are those of package client, which knows nothing of
// schemas.
type Aliases map[reflect.Type]reflect.Type

// Describe lets S describe T.
func Describe[T any, S huma.SchemaProvider](a Aliases) {
	a[reflect.TypeFor[T]()] = reflect.TypeFor[S]()
}

// Listed is a string type with a fixed list of values.
type Listed[T any] interface {
	~string
	Values() []T
}

// Enumerate describes T by its values.
func Enumerate[T Listed[T]](a Aliases) { Describe[T, enumerated[T]](a) }

type enumerated[T Listed[T]] struct{}

func (enumerated[T]) Schema(huma.Registry) *huma.Schema {
	var zero T
	return Enumeration(zero.Values()...)
}

// Enumeration describes a text that is one of values.
func Enumeration[T ~string](values ...T) *huma.Schema {
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
	return &huma.Schema{Type: huma.TypeString, Format: FormatDuration, Description: "a Go duration, such as 1h30m or 5s", Examples: []any{"1h"}}
}

type callbackType struct{}

func (callbackType) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeInteger, Format: "int64"}
	for _, t := range countersign.TypeUnknown.Values() {
		s.Enum = append(s.Enum, float64(t)) // the checks compare it with a number of JSON
	}
	return s
}

// common describes the types that both APIs have.
func common() Aliases {
	a := Aliases{}
	Describe[countersign.Type, callbackType](a)
	Describe[client.Time, timeText](a)
	Describe[client.Duration, durationText](a)
	Enumerate[client.WaitingFor](a)
	Enumerate[client.KeyKind](a)
	Enumerate[client.ChangeKind](a)
	Enumerate[client.ChangeState](a)
	Enumerate[client.AlarmMessage](a)
	Enumerate[client.AlarmState](a)
	return a
}
