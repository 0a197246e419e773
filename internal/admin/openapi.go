package admin

import (
	"encoding/json"

	"countersign/internal/api"
)

const (
	title       = "countersign service API"
	description = "Tells merchants of deposits, asks them to confirm withdrawals, and gives at most one permit to execute each withdrawal. " +
		"Errors are problem details (RFC 9457) that name the member at fault. " + api.Notation
	tokenUse = "a token of this service; its role must be one of the operation's x-roles"
)

var tags = map[string]string{
	"addresses":   "Changes of users' deposit addresses, which merchants are told of",
	"merchants":   "The merchants that the service calls, with their URLs and keys",
	"deposits":    "Deposits that merchants are told of",
	"withdrawals": "Withdrawals that merchants confirm, and the permits to execute them",
	"decisions":   "The feed of how withdrawals were decided",
	"callbacks":   "The callbacks to merchants and their attempts",
	"freeze":      "The stop of the whole service",
	"thaw":        "Its end",
	"alarms":      "The feed of alarms, for a person to look at",
	"audit":       "The audit log: what happened, who did it, and proofs that nothing of it was changed",
	"stats":       "Numbers",
	"keys":        "The keys of the service, by their fingerprints",
	"nodes":       "The processes of the service",
	"epoch":       "Since which restore from a backup the database is what it is",
	"passkeys":    "Passkeys of people, each of one token, and signing in with them",
	"tokens":      "The tokens of this API",
	"changes":     "Changes that could move money or who decides on it, and that wait for an approver",
	"operation":   "Probes, metrics and this document",
}

func (s *Server) openapi(*api.Call, api.None, api.None) (json.RawMessage, error) {
	return s.api.Document(), nil
}
