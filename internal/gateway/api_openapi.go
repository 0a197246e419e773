package gateway

import (
	"encoding/json"

	"countersign/internal/jsonapi"
)

const (
	title       = "countersign gateway API"
	description = "The merchant's end: orders to be countersigned, deposits that were taken, and what happened to both. " +
		"Errors are problem details (RFC 9457) that name the member at fault."
	tokenUse = "a token of this gateway; its role must be the route's x-role or above"
)

func (a *api) openapi(*jsonapi.Call, jsonapi.None, jsonapi.None) (json.RawMessage, error) {
	return a.base.Document(), nil
}
