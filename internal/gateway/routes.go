package gateway

import (
	"fmt"
	"net/http"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
)

// makeAPI makes the private API.
func (g *Gateway) makeAPI() (err error) {
	g.lists = book.New(g.c.DB.ForLists(), book.Config{})
	if g.changes, err = api.NewChanges(api.ChangesConfig{DB: g.c.DB, Approvals: g.c.ChangeApprovals, OIDC: g.c.OIDC,
		Roles: client.ValuesAt[client.Role](client.AtGateway), Now: g.c.Now, Log: g.c.Log}); err != nil {
		return err
	}
	g.changes.Tasks = g.tasks()
	g.base, err = api.New(api.Config{
		Process: g.c.Process, Self: "the gateway", Description: description, Tags: tags,
		Tokens: g.changes.Tokens(), MaxBody: maxBody,
		End: client.AtGateway,
	}, g.table())
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	g.mux = g.base.Mux()
	return nil
}

const description = "The merchant's end: orders to be confirmed, deposits that were taken, and what happened to both. "

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

// route is one row of the table of routes.
type route api.Route

const (
	get  = http.MethodGet
	post = http.MethodPost
	put  = http.MethodPut
)

// routes returns the routes that only the gateway has.
func (g *Gateway) routes() []route {
	addOrder := api.Handle(g.addOrder)
	addOrder.AlsoStatus = http.StatusOK
	return []route{
		{post, "/v1/orders", "addOrder", api.Apps, api.Whole, 201, addOrder,
			"Order a withdrawal; repeating an order answers 200", []int{409}},
		{get, "/v1/orders", "orders", api.MoneyReaders, api.Whole, 200, api.Rows(g.orders),
			"List orders, the newest first", nil},
		{get, "/v1/orders/{callBackId}", "order", api.MoneyReaders, api.Whole, 200, api.Handle(g.order),
			"Show one order", nil},
		{get, "/v1/orders/{callBackId}/ruling", "orderRuling", api.Readers, api.Whole, 200, api.Handle(g.orderRuling),
			"Say what the policy decides on an order now, and since when the service has asked", nil},
		{post, "/v1/orders/{callBackId}/cancel", "cancelOrder", api.Apps, api.Whole, 200, api.Handle(g.cancelOrder),
			"Cancel an order that is not confirmed yet", []int{409}},

		{get, "/v1/deposits", "deposits", api.MoneyReaders, api.Whole, 200, api.Handle(g.deposits),
			"Read the feed of deposits as they were taken, in order and without gaps; after a restore numbers go on much higher",
			[]int{409, 410}},
		{get, "/v1/deposits/search", "searchDeposits", api.MoneyReaders, api.Whole, 200, api.Rows(g.lists.SearchDeposits),
			"List deposits as they are now, the newest first", nil},
		{get, "/v1/deposits/{seq}", "deposit", api.MoneyReaders, api.Whole, 200, api.Find(g.lists.Deposit),
			"Show one deposit as it is now", []int{410}},

		{get, "/v1/addresses", "addresses", api.MoneyReaders, api.Whole, 200, api.Rows(g.lists.Addresses),
			"List what the service reported of users' deposit addresses, the newest first", nil},
		{get, "/v1/addresses/{seq}", "address", api.MoneyReaders, api.Whole, 200, api.Find(g.lists.Address),
			"Show one address", nil},

		{get, "/v1/events", "events", api.MoneyReaders, api.Whole, 200, api.Handle(g.events),
			"Read the feed of what happened to orders, addresses and held deposits, in order and without gaps; after a restore numbers go on much higher", []int{409}},
		{get, "/v1/cursors/{name}", "cursor", api.MoneyReaders, api.Whole, 200, api.Handle(g.cursor),
			"Show how far a reader has acknowledged the feeds", nil},
		{put, "/v1/cursors/{name}", "moveCursor", api.Apps, api.Whole, 200, api.Handle(g.moveCursor),
			"Acknowledge the feeds; a cursor never goes back", []int{409}},

		{get, "/v1/forwarding", "forwarding", api.Readers, api.Whole, 200, api.Handle(g.forwarding),
			"Show how far the feeds were forwarded to the application, and which entries were sent in vain", nil},
		{post, "/v1/forwarding/retry", "retryForwards", api.Operators, api.Whole, 200, api.Handle(g.retryForwards),
			"Send all entries again now that were sent in vain", nil},

		{get, "/v1/policy", "policy", api.Readers, api.Whole, 200, api.Handle(g.policy),
			"Show the policy that orders are decided by", nil},
		{post, "/v1/policy/try", "tryPolicy", api.Readers, api.Whole, 200, api.Handle(g.tryPolicy),
			"Say what the policy would decide on an order; nothing is kept", nil},

		{get, "/v1/callbacks", "callbacks", api.Readers, api.Whole, 200, api.Rows(g.lists.Entries),
			"List the inbox, the newest first", nil},
		{get, "/v1/refused", "refused", api.Readers, api.Whole, 200, api.Rows(g.lists.RefusedList),
			"List callbacks that were refused although they opened or came with the right API key, the newest first", nil},
		{get, "/v1/refused/{id}", "refusedCallback", api.Readers, api.Whole, 200, api.Handle(g.refusedCallback),
			"Show one refused callback; to who may retry it, with its body and an explanation", nil},
		{get, "/v1/refused/learned", "learned", api.Readers, api.Whole, 200, api.Handle(g.learned),
			"Say what the open callbacks show together that came while the gateway learned, and which settings fit", nil},

		{get, "/v1/stats", "stats", api.Readers, api.Whole, 200, api.Handle(g.stats), "Count what the gateway holds", nil},
	}
}

// table returns all routes except /metrics, which is not JSON.
func (g *Gateway) table() (rows []api.Route) {
	for _, r := range g.routes() {
		rows = append(rows, api.Route(r))
	}
	return api.AtEnd(client.ValuesAt[client.Role](client.AtGateway), append(rows, api.Common{
		Process: g.c.Process, End: "the gateway", Ack: api.Approvers,
		Rows: g.book.DB, Lists: g.lists.DB,
		Changes: g.changes,
		Search:  func(c *api.Call, text string) ([]client.Found, error) { return g.lists.Search(c.R.Context(), text) },
	}.Routes()...))
}

// Operations returns the operations of the gateway's API. It starts nothing.
func Operations() []api.Operation {
	return api.Operations((&Gateway{book: new(book.Book), lists: new(book.Book)}).table())
}
