package gateway

import (
	"net/http"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
)

// route is one row of the table of routes.
type route api.Route

const (
	get  = http.MethodGet
	post = http.MethodPost
	put  = http.MethodPut
)

// routes are those that the gateway alone has.
func (a *server) routes() []route {
	addOrder := api.Handle(a.addOrder)
	addOrder.AlsoStatus = http.StatusOK
	return []route{
		{post, "/v1/orders", "addOrder", api.Apps, api.Whole, 201, addOrder, "Order a withdrawal; repeating an order answers 200", []int{409}},
		{get, "/v1/orders", "orders", api.MoneyReaders, api.Whole, 200, api.Handle(a.orders), "List orders, the newest first", nil},
		{get, "/v1/orders/{callBackId}", "order", api.MoneyReaders, api.Whole, 200, api.Handle(a.order), "Show one order", nil},
		{get, "/v1/orders/{callBackId}/ruling", "orderRuling", api.Readers, api.Whole, 200, api.Handle(a.orderRuling), "Say what the policy decides on an order now, and how long the service waits", nil},
		{get, "/v1/orders/{callBackId}/approval", "orderApproval", api.Approvers, api.Whole, 200, api.Handle(a.orderApproval), "Give what the approval of an order must be signed with", nil},
		{post, "/v1/orders/{callBackId}/approve", "approveOrder", api.Approvers, api.Whole, 200, api.Fresh(api.Handle(a.approveOrder)), "Approve an order, before or after the policy asks for it", []int{409}},
		{post, "/v1/orders/{callBackId}/decline", "declineOrder", api.Approvers, api.Whole, 200, api.Handle(a.declineOrder), "Decline an order; the service is told so when it asks", []int{409}},
		{post, "/v1/orders/{callBackId}/cancel", "cancelOrder", api.Apps, api.Whole, 200, api.Handle(a.cancelOrder), "Cancel an order that is not confirmed yet", []int{409}},
		{post, "/v1/orders/{callBackId}/resume", "resumeOrder", api.Approvers, api.Whole, 200, api.Fresh(api.Handle(a.resumeOrder)), "Say that nothing became of an order from before a restore: it is decided as any other", []int{409}},

		{get, "/v1/deposits", "deposits", api.MoneyReaders, api.Whole, 200, api.Handle(a.deposits), "Read the feed of deposits as they were taken, in order and without gaps; after a restore numbers go on much higher", []int{409, 410}},
		{get, "/v1/deposits/search", "searchDeposits", api.MoneyReaders, api.Whole, 200, api.Handle(a.searchDeposits), "List deposits as they are now, the newest first", nil},
		{get, "/v1/deposits/{seq}/first", "firstDeposit", api.MoneyReaders, api.Whole, 200, api.Find(a.lists.FirstDeposit, depositOf), "Show the first deposit that names the same transfer as a possible duplicate", []int{410}},
		{get, "/v1/deposits/{seq}", "deposit", api.MoneyReaders, api.Whole, 200, api.Find(a.lists.Deposit, depositOf), "Show one deposit as it is now", []int{410}},
		{post, "/v1/deposits/credit", "creditDeposits", api.Approvers, api.Whole, 200, api.Handle(a.creditDeposits), "Credit all held deposits that match", []int{409}},
		{post, "/v1/deposits/reject", "rejectDeposits", api.Approvers, api.Whole, 200, api.Handle(a.rejectDeposits), "Reject all held deposits that match", []int{409}},
		{post, "/v1/deposits/{seq}/credit", "creditDeposit", api.Approvers, api.Whole, 200, api.Fresh(decides(a.book.DecideDeposit, book.DepositCredited, depositOf)), "Credit a held deposit", []int{409, 410}},
		{post, "/v1/deposits/{seq}/reject", "rejectDeposit", api.Approvers, api.Whole, 200, decides(a.book.DecideDeposit, book.DepositRejected, depositOf), "Reject a held deposit", []int{409, 410}},

		{get, "/v1/orders/{callBackId}/notes", "orderNotes", api.Readers, api.Whole, 200, api.Handle(a.orderNotes), "List what people noted about an order, the oldest first", nil},
		{post, "/v1/orders/{callBackId}/notes", "noteOrder", api.Approvers, api.Whole, 201, api.Handle(a.noteOrder), "Note something about an order; each call adds a note, and none is ever changed", []int{409}},
		{get, "/v1/deposits/{seq}/notes", "depositNotes", api.Readers, api.Whole, 200, api.Find(a.lists.DepositNotes, api.ShownNotes), "List what people noted about a deposit, the oldest first", []int{410}},
		{post, "/v1/deposits/{seq}/notes", "noteDeposit", api.Approvers, api.Whole, 201, api.One(a.noteDeposit), "Note something about a deposit; each call adds a note, and none is ever changed", []int{409, 410}},

		{get, "/v1/addresses", "addresses", api.MoneyReaders, api.Whole, 200, api.Handle(a.addresses), "List what the service told of users' deposit addresses, the newest first", nil},
		{get, "/v1/addresses/{seq}", "address", api.MoneyReaders, api.Whole, 200, api.Find(a.lists.Address, addressOf), "Show one address", nil},
		{post, "/v1/addresses/{seq}/accept", "acceptAddress", api.Approvers, api.Whole, 200, api.Fresh(decides(a.book.DecideAddress, book.AddressAccepted, addressOf)), "Let a held address count", []int{409}},
		{post, "/v1/addresses/{seq}/reject", "rejectAddress", api.Approvers, api.Whole, 200, decides(a.book.DecideAddress, book.AddressRejected, addressOf), "Reject a held address", []int{409}},

		{get, "/v1/events", "events", api.MoneyReaders, api.Whole, 200, api.Handle(a.events), "Read the feed of what happened to orders, addresses and held deposits, in order and without gaps; after a restore numbers go on much higher", []int{409}},
		{get, "/v1/cursors/{name}", "cursor", api.MoneyReaders, api.Whole, 200, api.Handle(a.cursor), "Show how far a reader has acknowledged the feeds", nil},
		{put, "/v1/cursors/{name}", "moveCursor", api.Apps, api.Whole, 200, api.Handle(a.moveCursor), "Acknowledge the feeds; a cursor never goes back", []int{409}},

		{get, "/v1/forwarding", "forwarding", api.Readers, api.Whole, 200, api.Handle(a.forwarding), "Show how far the feeds were forwarded to the application", nil},
		{get, "/v1/forwards", "forwards", api.Readers, api.Whole, 200, api.Handle(a.forwards), "List entries that were forwarded in vain, or that a person gave up", nil},
		{post, "/v1/forwards/retry", "retryForwards", api.Operators, api.Whole, 200, api.Handle(a.retryForwards), "Forward all that failed again now", nil},
		{post, "/v1/forwards/{id}/retry", "retryForward", api.Operators, api.Whole, 200, api.Handle(a.retryForward), "Forward an entry again now, also one that was given up", []int{409}},
		{post, "/v1/forwards/{id}/skip", "skipForward", api.Operators, api.Whole, 200, api.Handle(a.skipForward), "Give up an entry that was forwarded in vain", []int{409}},

		{get, "/v1/policy", "policy", api.Readers, api.Whole, 200, api.Handle(a.policy), "Show the policy that orders are decided by", nil},
		{post, "/v1/policy/try", "tryPolicy", api.Readers, api.Whole, 200, api.Handle(a.tryPolicy), "Say what the policy would decide on an order; nothing is kept", nil},

		{get, "/v1/callbacks", "callbacks", api.Readers, api.Whole, 200, api.Handle(a.callbacks), "List the inbox, the newest first", nil},
		{get, "/v1/refused", "refused", api.Readers, api.Whole, 200, api.Handle(a.refused), "List callbacks that were refused although they opened or came with the right API key, the newest first", nil},
		{get, "/v1/refused/{id}", "refusedCallback", api.Readers, api.Whole, 200, api.Handle(a.refusedCallback), "Show one refused callback; to who may retry it, with its body and an explanation", nil},
		{post, "/v1/refused/retry", "retryAllRefused", api.Approvers, api.Whole, 200, api.Handle(a.retryAllRefused), "Take all refused callbacks that match under the present settings, the first that came first", nil},
		{post, "/v1/refused/dismiss", "dismissAllRefused", api.Approvers, api.Whole, 200, api.Handle(a.dismissAllRefused), "Say of all refused callbacks that match that nothing is to be done", nil},
		{post, "/v1/refused/{id}/retry", "retryRefused", api.Approvers, api.Whole, 200, api.Fresh(api.Handle(a.retryRefused)), "Take a refused callback under the present settings, as if it came now", []int{409}},
		{post, "/v1/refused/{id}/dismiss", "dismissRefused", api.Approvers, api.Whole, 200, api.Handle(a.dismissRefused), "Say that nothing is to be done about a refused callback", []int{409}},

		{get, "/v1/stats", "stats", api.Readers, api.Whole, 200, api.Handle(a.stats), "Count what the gateway holds", nil},
	}
}

// table gives all routes but /metrics, which is not JSON.
func (a *server) table() (rows []api.Route) {
	for _, r := range a.routes() {
		rows = append(rows, api.Route(r))
	}
	return api.AtEnd(client.GatewayRoles(), append(rows, api.Common{
		End: "the gateway", KeysOf: "the gateway", Ack: api.Approvers, TestAlarm: a.c.TestAlarm,
		Rows: a.book, Lists: a.lists, Healthz: api.Say(Health{"ok"}), Readyz: api.Handle(a.readyz),
		Audit: api.Audit{Log: a.c.Audit}, Changes: a.changes, Keys: a.c.Keys, Search: a.find, Node: a.c.Node,
	}.Routes()...))
}

// Operations gives the operations of the gateway's API. It starts nothing.
func Operations() []api.Operation { return api.Operations(new(server).table()) }

// readerFeed is a part of a feed that has cursors.
type readerFeed struct {
	api.Feed
	Reader string `query:"reader" doc:"in place of after: start after this reader's cursor, at most 100 bytes"`
}
