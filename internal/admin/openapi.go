package admin

import (
	"encoding/json"

	"countersign/internal/jsonapi"
)

const (
	title       = "countersign service API"
	description = "Tells merchants of deposits, asks them to countersign withdrawals, and gives at most one permit to execute each. " +
		"Errors are problem details (RFC 9457) that name the member at fault. " + jsonapi.Notation
	tokenUse = "a token of this service; its role must be the route's x-role or above"
)

var tags = map[string]string{
	"addresses":   "Changes of the users' deposit addresses, which merchants are told of",
	"merchants":   "Those whom the service calls, with their URLs and keys",
	"deposits":    "What merchants are told of",
	"withdrawals": "What merchants countersign, and the permits to execute it",
	"decisions":   "The feed of how withdrawals were decided",
	"callbacks":   "What the service says to merchants, attempt by attempt",
	"alarms":      "The feed of what a person should look at",
	"stats":       "Numbers",
	"tokens":      "Who may call this API",
	"operation":   "Probes, metrics and this document",
}

func (s *Server) openapi(*jsonapi.Call, jsonapi.None, jsonapi.None) (json.RawMessage, error) {
	return s.api.Document(), nil
}
