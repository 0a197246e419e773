package gateway

import (
	"encoding/json"
	"reflect"

	"countersign/internal/jsonapi"
)

const (
	title       = "countersign gateway API"
	description = "The merchant's end: orders to be countersigned, deposits that were taken, and what happened to both. " +
		"Errors are problem details (RFC 9457) that name the member at fault."
	tokenUse = "a token of this gateway; its role must be the route's x-role or above"
)

// describedProblem gives the type that problems are described by: requests of
// this API hold one thing each, so no fault names an item.
func describedProblem() reflect.Type {
	type Fault struct {
		Location string `json:"location" doc:"where: body, query, path or header, then the member, such as body.amount"`
		Message  string `json:"message" doc:"what is wrong with it"`
	}
	type Problem struct {
		Title  string  `json:"title" doc:"the status in words"`
		Status int     `json:"status" minimum:"400" maximum:"599"`
		Detail string  `json:"detail,omitempty" doc:"what is wrong"`
		Errors []Fault `json:"errors,omitempty" nullable:"false" doc:"the members at fault"`
	}
	return reflect.TypeFor[Problem]()
}

func (a *api) openapi(*jsonapi.Call, jsonapi.None, jsonapi.None) (json.RawMessage, error) {
	return a.base.Document(), nil
}
