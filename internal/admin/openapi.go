package admin

import (
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
	"withdrawals": "Withdrawals that merchants confirm, and the permits to execute them. Paths take MERCHANT%2FCALLBACKID in place of an id",
	"decisions":   "The feed of how withdrawals were decided",
	"callbacks":   "The callbacks to merchants and their attempts. Paths take MERCHANT%2FTRACKINGID in place of an id",
	"freeze":      "The stop of the whole service",
	"thaw":        "Its end",
}
