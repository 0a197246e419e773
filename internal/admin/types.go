package admin

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
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

// depositsBody is one deposit or an array of them.
type depositsBody struct {
	list  []client.NewDeposit
	array bool
}

func (depositsBody) Schema(r huma.Registry) *huma.Schema {
	one := r.Schema(reflect.TypeFor[client.NewDeposit](), true, "")
	least, most := 1, maxBatch
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one, MinItems: &least, MaxItems: &most}}}
}

func (d *depositsBody) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		d.array = true
		return json.Unmarshal(b, &d.list)
	}
	d.list = make([]client.NewDeposit, 1)
	return json.Unmarshal(b, &d.list[0])
}

// Health says that the process runs or is ready.
type Health struct {
	Status string `json:"status" enum:"ok" doc:"ok: the process runs, or the service can work"`
	Frozen bool   `json:"frozen,omitempty" doc:"true: a person has frozen the service, so nothing is sent, decided or released"`
}
