package gateway

import (
	"net/http"
	"reflect"

	"countersign/internal/store"
)

// route is one row of the table of routes.
type route struct {
	method, path string
	id           string // operationId; the client's method has the same name
	need         access
	status       int // of success
	handler
	out     any // zero value of the answer's type; nil: none
	summary string
	params  []param
	errors  []int // beside those that every route of its kind gives
}

// handler is a function with the type of its body.
type handler struct {
	in           reflect.Type // nil: no body
	bodyOptional bool
	run          func(c *call) (any, error)
}

// none is the body of a handler that takes none.
type none struct{}

// handle makes a handler of f. The body reaches f checked; what only f can
// know, f checks.
func handle[In any](f func(*call, In) (any, error)) handler {
	t := reflect.TypeFor[In]()
	if t == reflect.TypeFor[none]() {
		return handler{run: func(c *call) (any, error) { return f(c, *new(In)) }}
	}
	h := handler{in: t, bodyOptional: true, run: func(c *call) (any, error) {
		var in In
		if err := c.readBody(&in); err != nil {
			return nil, err
		}
		return f(c, in)
	}}
	for _, known := range fieldsOf(t) {
		h.bodyOptional = h.bodyOptional && !known.required
	}
	return h
}

const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	remove = http.MethodDelete
)

// routes is the whole API. /metrics is beside it, since it is not JSON.
func (a *api) routes() []route {
	lists := []param{limitedTo, cursorParam}
	feeds := []param{afterParam, limitedTo, waitFor, readerParam}
	orderLists := append([]param{{name: "state", doc: "only in this state", enum: orderStates}, {name: "tenantUserId", doc: "only of this user"}}, lists...)
	depositLists := append([]param{{name: "state", doc: "only in this state of doubt; such a part of the feed has gaps",
		enum: []string{string(store.DepositHeld), string(store.DepositCredited), string(store.DepositRejected)}}}, feeds...)
	callbackLists := append([]param{{name: "type", doc: "only of this type", enum: []string{"1", "2", "3", "4", "5", "6", "7"}},
		{name: "id", doc: "only with this trackingId; callBackId for type 2"}, {name: "callBackId", doc: "only about this order"},
		{name: "settled", doc: "false: only those without a final answer", enum: []string{"false"}}}, lists...)
	return []route{
		{post, "/v1/orders", "addOrder", app, 201, handle(a.addOrder), AddedOrder{}, "Order a withdrawal; the same again answers 200", nil, []int{409}},
		{get, "/v1/orders", "orders", viewer, 200, handle(a.orders), OrderPage{}, "List orders, the newest first", orderLists, nil},
		{get, "/v1/orders/{callBackId}", "order", viewer, 200, handle(a.order), OrderStatus{}, "Show one order", nil, nil},
		{post, "/v1/orders/{callBackId}/approve", "approveOrder", operator, 200, handle(a.approveOrder), OrderStatus{}, "Approve an order that awaits a person, or will", nil, []int{409}},
		{post, "/v1/orders/{callBackId}/decline", "declineOrder", operator, 200, handle(a.declineOrder), OrderStatus{}, "Decline an order; the service is told so when it asks", nil, []int{409}},
		{post, "/v1/orders/{callBackId}/cancel", "cancelOrder", app, 200, handle(a.cancelOrder), OrderStatus{}, "Take an order back that is not confirmed yet", nil, []int{409}},

		{get, "/v1/deposits", "deposits", viewer, 200, handle(a.deposits), Deposits{}, "Read the feed of deposits, in order and without gaps", depositLists, nil},
		{get, "/v1/deposits/{seq}", "deposit", viewer, 200, handle(a.deposit), DepositEntry{}, "Show one deposit", nil, nil},
		{post, "/v1/deposits/{seq}/credit", "creditDeposit", operator, 200, handle(a.creditDeposit), DepositEntry{}, "Let a held possible duplicate count", nil, []int{409}},
		{post, "/v1/deposits/{seq}/reject", "rejectDeposit", operator, 200, handle(a.rejectDeposit), DepositEntry{}, "Let a held possible duplicate not count", nil, []int{409}},

		{get, "/v1/events", "events", viewer, 200, handle(a.events), Events{}, "Read the feed of what happened to orders, addresses and held deposits, in order and without gaps", feeds, nil},
		{get, "/v1/cursors/{name}", "cursor", viewer, 200, handle(a.cursor), CursorStatus{}, "Show how far a reader has acknowledged the feeds", nil, nil},
		{put, "/v1/cursors/{name}", "moveCursor", app, 200, handle(a.moveCursor), CursorStatus{}, "Acknowledge the feeds; a cursor never goes back", nil, []int{409}},

		{get, "/v1/callbacks", "callbacks", viewer, 200, handle(a.callbacks), CallbackPage{}, "List the inbox, the newest first", callbackLists, nil},
		{get, "/v1/alarms", "alarms", viewer, 200, handle(a.alarms), AlarmList{}, "Read the feed of alarms", []param{afterParam, limitedTo, waitFor}, nil},
		{get, "/v1/stats", "stats", viewer, 200, handle(a.stats), Stats{}, "Count what the gateway holds", nil, nil},

		{post, "/v1/tokens", "createToken", operator, 201, handle(a.createToken), CreatedToken{}, "Make a token; its secret is shown once", nil, nil},
		{get, "/v1/tokens", "tokens", operator, 200, handle(a.listTokens), TokenList{}, "List tokens", nil, nil},
		{remove, "/v1/tokens/{id}", "revokeToken", operator, 204, handle(a.revokeToken), nil, "Revoke a token", nil, []int{409}},

		{get, "/healthz", "healthz", open, 200, handle(a.healthz), Health{}, "Say that the process runs", nil, nil},
		{get, "/readyz", "readyz", open, 200, handle(a.readyz), Health{}, "Say whether the gateway can work", nil, []int{503}},
		{get, "/openapi.json", "openapi", open, 200, handle(a.openapi), nil, "Give this document", nil, nil},
	}
}
