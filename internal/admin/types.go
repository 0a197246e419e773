package admin

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/journal"
)

// aliases describe the types of package client in the document.
func aliases() api.Aliases {
	a := api.Aliases{}
	api.Describe[countersign.Amount, amountSchema](a)
	api.Describe[client.Role, roles](a)
	api.Enumerate[client.MerchantState](a)
	api.Enumerate[client.RotationState](a)
	api.Enumerate[client.Scheme](a)
	api.Enumerate[client.BodyForm](a)
	api.Enumerate[client.Collect](a)
	api.Enumerate[client.CallbackState](a)
	api.Enumerate[client.Told](a)
	api.Enumerate[client.WithdrawalState](a)
	api.Enumerate[client.Lane](a)
	api.Describe[client.AlarmKind, alarms](a)
	api.Enumerate[client.AttemptResult](a)
	api.Enumerate[client.Reason](a)
	api.Describe[client.FoundKind, finds](a)
	api.Describe[client.MatchedBy, matches](a)
	return a
}

// roles are those of the service's tokens.
type roles struct{}

func (roles) Schema(huma.Registry) *huma.Schema {
	return api.Enumeration(client.ServiceRoles()...)
}

// finds and matches are the words of a search here.
type (
	finds   struct{}
	matches struct{}
)

func (finds) Schema(huma.Registry) *huma.Schema   { return api.Enumeration(client.ServiceFinds()...) }
func (matches) Schema(huma.Registry) *huma.Schema { return api.Enumeration(client.ServiceMatches()...) }

// alarms are the kinds of the service's alarms.
type alarms struct{}

func (alarms) Schema(huma.Registry) *huma.Schema {
	return api.Enumeration(client.ServiceAlarmKinds()...)
}

// amountSchema stands for countersign.Amount in the document: a decimal in a string
// (PROTOCOL.md, Amounts). A JSON number is refused, because many programs write another
// one than they were given.
type amountSchema struct{}

func (amountSchema) Schema(huma.Registry) *huma.Schema {
	const digits = `^(0|[1-9][0-9]*)(\.[0-9]+)?$`
	return &huma.Schema{Type: huma.TypeString, Format: api.FormatDecimal, Pattern: digits,
		Description: "an exact decimal of at most 78 digits, without sign and exponent; kept as written", Examples: []any{"2.500000"}}
}

// oneOrMany is a body that is one object or an array of them.
type oneOrMany[T any] struct {
	list  []T
	array bool
}

// place names an item in faults.
func (d *oneOrMany[T]) place(i int) string { return api.PlaceOf(i, d.array) }

// Schema describes both forms.
func (oneOrMany[T]) Schema(r huma.Registry) *huma.Schema {
	one := r.Schema(reflect.TypeFor[T](), true, "")
	api.BoundDurations(r, one, reflect.TypeFor[T]())
	least, most := 1, maxBatch
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one, MinItems: &least, MaxItems: &most}}}
}

// UnmarshalJSON reads either form.
func (d *oneOrMany[T]) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		d.array = true
		return json.Unmarshal(b, &d.list)
	}
	d.list = make([]T, 1)
	return json.Unmarshal(b, &d.list[0])
}

// acceptedWithdrawals answers an object with an object, and an array with the list.
type acceptedWithdrawals struct {
	client.AcceptedWithdrawals
	array bool
}

// Schema describes both forms.
func (acceptedWithdrawals) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{r.Schema(reflect.TypeFor[client.AcceptedWithdrawal](), true, ""), r.Schema(reflect.TypeFor[client.AcceptedWithdrawals](), true, "")}}
}

// MarshalJSON writes the form that the request had.
func (a acceptedWithdrawals) MarshalJSON() ([]byte, error) {
	var out any = a.AcceptedWithdrawals
	if !a.array {
		out = a.Withdrawals[0]
	}
	return journal.Marshal(out)
}
