package gateway

import "countersign/internal/api"

const (
	title       = "countersign gateway API"
	description = "The merchant's end: orders to be confirmed, deposits that were taken, and what happened to both. " +
		"Errors are problem details (RFC 9457) that name the member at fault. " + api.Notation
	tokenUse = "a token of this gateway; its role must be one of the operation's x-roles"
)

var tags = map[string]string{
	"orders":     "Withdrawals that the merchant orders before the service asks for them",
	"deposits":   "The feed of deposits that the service reported",
	"addresses":  "What the service reported of users' deposit addresses; one that replaces another awaits a person",
	"events":     "The feed of what happened to orders, addresses and held deposits",
	"cursors":    "How far readers have acknowledged the feeds",
	"forwarding": "How far the feeds were forwarded to the application",
	"policy":     "What decides on orders",
	"callbacks":  "The inbox: the callbacks of the service",
	"refused":    "Callbacks that were refused although they opened or came with the right API key",
}
