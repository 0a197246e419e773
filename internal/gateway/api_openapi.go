package gateway

import (
	"encoding/json"

	"countersign/internal/jsonapi"
)

const (
	title       = "countersign gateway API"
	description = "The merchant's end: orders to be confirmed, deposits that were taken, and what happened to both. " +
		"Errors are problem details (RFC 9457) that name the member at fault. " + jsonapi.Notation
	tokenUse = "a token of this gateway; its role must be the route's x-role or above"
)

var tags = map[string]string{
	"orders":    "Withdrawals that the merchant orders before the service asks for them",
	"deposits":  "The feed of deposits that the service reported",
	"events":    "The feed of what happened to orders, addresses and held deposits",
	"cursors":   "How far readers have acknowledged the feeds",
	"callbacks": "The inbox: the callbacks of the service",
	"alarms":    "The feed of alarms, for a person to look at",
	"stats":     "Numbers",
	"tokens":    "The tokens of this API",
	"operation": "Probes, metrics and this document",
}

func (a *api) openapi(*jsonapi.Call, jsonapi.None, jsonapi.None) (json.RawMessage, error) {
	return a.base.Document(), nil
}
