package gateway

import (
	"reflect"

	"countersign/client"
	"countersign/internal/api"
)

const (
	title       = "countersign gateway API"
	description = "The merchant's end: orders to be confirmed, deposits that were taken, and what happened to both. " +
		"Errors are problem details (RFC 9457) that name the member at fault. " + api.Notation
	tokenUse = "a token of this gateway; its role must be one of the operation's x-roles"
)

var tags = map[string]string{
	"orders":     "Withdrawals that the merchant orders before the service asks for them",
	"deposits":   "The feed of deposits that the service reported",
	"addresses":  "What the service told of users' deposit addresses; one that replaces another awaits a person",
	"events":     "The feed of what happened to orders, addresses and held deposits",
	"cursors":    "How far readers have acknowledged the feeds",
	"forwarding": "How far the feeds were forwarded to the application",
	"forwards":   "Entries of the feeds that were forwarded in vain, or that a person gave up",
	"policy":     "What decides on orders",
	"callbacks":  "The inbox: the callbacks of the service",
	"refused":    "Callbacks that were refused although they opened or came with the right API key",
	"changes":    "Changes of who decides on money, which wait for an approver",
}

// webhooks are the messages of the forwarding.
var webhooks = []api.Webhook{
	{Name: "deposit", ID: "forwardedDeposit", Tag: "deposits", Summary: "Tell the application of a deposit",
		Description: "Each deposit is told once, as it was when it was taken. " + forwardNotation, Headers: forwardHeaders, Body: reflect.TypeFor[client.ForwardedDeposit]()},
	{Name: "event", ID: "forwardedEvent", Tag: "events", Summary: "Tell the application of an event",
		Description: "Each entry of the feed of events is told once. " + forwardNotation, Headers: forwardHeaders, Body: reflect.TypeFor[client.ForwardedEvent]()},
	{Name: "verify", ID: "depositQuestion", Tag: "deposits", Summary: "Ask whether a deposit is true",
		Description: "The gateway posts it to --verify-url before the deposit counts, signed as Standard Webhooks 1.0 says. The answer is status 200 and a JSON object with the member " +
			`verdict, "yes", "no" or "not_yet", and, if there is something to say in the log, the text reason. docs/verify.md says what each does.`,
		Headers: api.SignedHeaders("verify_ and 32 hexadecimal digits of the digest of the deposit"), Body: reflect.TypeFor[client.DepositQuestion]()},
	api.AlarmPosted(),
}

const forwardNotation = "The gateway posts it to --forward-url, signed as Standard Webhooks 1.0 says, until an answer has a status 2xx. " +
	"The same message may come more than once, and messages come in any order; docs/merchant.md says how to read them."

var forwardHeaders = api.SignedHeaders("deposit_ or event_ and the seq of the entry")
