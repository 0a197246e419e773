package gateway

import (
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/client"
	"countersign/internal/api"
)

// route is one row of the table of routes.
type route api.Route

const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	remove = http.MethodDelete
)

// Who may call a route (docs/control.md). No token is bound to merchants here: there is
// one.
var (
	admins    = api.Roles{client.RoleAdmin}
	approvers = api.Roles{client.RoleApprover, client.RoleAdmin}
	apps      = api.Roles{client.RoleApp, client.RoleAdmin}
	readers   = approvers.And(client.RoleViewer)
	all       = readers.And(client.RoleApp)
)

// routes is the whole API but /metrics, which is not JSON.
func (a *server) routes() []route {
	addOrder := api.Handle(a.addOrder)
	addOrder.AlsoStatus = http.StatusOK
	log := a.audit()
	return []route{
		{post, "/v1/orders", "addOrder", apps, api.Whole, 201, addOrder, "Order a withdrawal; repeating an order answers 200", []int{409}},
		{get, "/v1/orders", "orders", all, api.Whole, 200, api.Handle(a.orders), "List orders, the newest first", nil},
		{get, "/v1/orders/{callBackId}", "order", all, api.Whole, 200, api.Handle(a.order), "Show one order", nil},
		{get, "/v1/orders/{callBackId}/ruling", "orderRuling", readers, api.Whole, 200, api.Handle(a.orderRuling), "Say what the policy decides on an order now, and how long the service waits", nil},
		{get, "/v1/orders/{callBackId}/approval", "orderApproval", approvers, api.Whole, 200, api.Handle(a.orderApproval), "Give what the approval of an order must be signed with", nil},
		{post, "/v1/orders/{callBackId}/approve", "approveOrder", approvers, api.Whole, 200, api.Handle(a.approveOrder), "Approve an order, before or after the policy asks for it", []int{409}},
		{post, "/v1/orders/{callBackId}/decline", "declineOrder", approvers, api.Whole, 200, api.Handle(a.declineOrder), "Decline an order; the service is told so when it asks", []int{409}},
		{post, "/v1/orders/{callBackId}/cancel", "cancelOrder", apps, api.Whole, 200, api.Handle(a.cancelOrder), "Cancel an order that is not confirmed yet", []int{409}},

		{get, "/v1/deposits", "deposits", all, api.Whole, 200, api.Handle(a.deposits), "Read the feed of deposits as they were taken, in order and without gaps; after a restore numbers go on much higher", []int{409, 410}},
		{get, "/v1/deposits/search", "searchDeposits", all, api.Whole, 200, api.Handle(a.searchDeposits), "List deposits as they are now, the newest first", nil},
		{get, "/v1/deposits/{seq}/first", "firstDeposit", all, api.Whole, 200, api.Handle(a.firstDeposit), "Show the first deposit that names the same transfer as a possible duplicate", []int{410}},
		{get, "/v1/deposits/{seq}", "deposit", all, api.Whole, 200, api.Handle(a.deposit), "Show one deposit as it is now", []int{410}},
		{post, "/v1/deposits/{seq}/credit", "creditDeposit", approvers, api.Whole, 200, api.Handle(a.creditDeposit), "Credit a held deposit", []int{409, 410}},
		{post, "/v1/deposits/{seq}/reject", "rejectDeposit", approvers, api.Whole, 200, api.Handle(a.rejectDeposit), "Reject a held deposit", []int{409, 410}},

		{get, "/v1/events", "events", all, api.Whole, 200, api.Handle(a.events), "Read the feed of what happened to orders, addresses and held deposits, in order and without gaps; after a restore numbers go on much higher", []int{409}},
		{get, "/v1/cursors/{name}", "cursor", all, api.Whole, 200, api.Handle(a.cursor), "Show how far a reader has acknowledged the feeds", nil},
		{put, "/v1/cursors/{name}", "moveCursor", apps, api.Whole, 200, api.Handle(a.moveCursor), "Acknowledge the feeds; a cursor never goes back", []int{409}},

		{get, "/v1/forwarding", "forwarding", readers, api.Whole, 200, api.Handle(a.forwarding), "Show how far the feeds were forwarded to the application", nil},
		{get, "/v1/forwards", "forwards", readers, api.Whole, 200, api.Handle(a.forwards), "List entries that were forwarded in vain, or that a person gave up", nil},
		{post, "/v1/forwards/retry", "retryForwards", admins, api.Whole, 200, api.Handle(a.retryForwards), "Forward all that failed again now", nil},
		{post, "/v1/forwards/{id}/retry", "retryForward", admins, api.Whole, 200, api.Handle(a.retryForward), "Forward an entry again now, also one that was given up", []int{409}},
		{post, "/v1/forwards/{id}/skip", "skipForward", admins, api.Whole, 200, api.Handle(a.skipForward), "Give up an entry that was forwarded in vain", []int{409}},

		{get, "/v1/policy", "policy", readers, api.Whole, 200, api.Handle(a.policy), "Show the policy that orders are decided by", nil},
		{post, "/v1/policy/try", "tryPolicy", readers, api.Whole, 200, api.Handle(a.tryPolicy), "Say what the policy would decide on an order; nothing is kept", nil},

		{get, "/v1/callbacks", "callbacks", readers, api.Whole, 200, api.Handle(a.callbacks), "List the inbox, the newest first", nil},
		{get, "/v1/alarms", "alarms", readers, api.Whole, 200, api.Handle(a.alarms), "Read the feed of alarms", []int{409}},
		{post, "/v1/alarms/{seq}/ack", "ackAlarm", approvers, api.Whole, 200, api.Handle(a.ackAlarm), "Acknowledge an alarm; repeating it changes nothing", nil},
		{get, "/v1/audit", "audit", readers, api.Whole, 200, api.Handle(log.Page), "Read the audit log, in order and without gaps", nil},
		{get, "/v1/audit/checkpoint", "auditCheckpoint", readers, api.Whole, 200, api.Handle(log.Checkpoint), "Sign the audit log as it is now", nil},
		{get, "/v1/audit/evidence", "auditEvidence", readers, api.Whole, 200, api.Handle(log.Evidence), "Prove all records about an order or a callback", nil},
		{post, "/v1/audit/exported", "auditExported", admins, api.Whole, 200, api.Handle(log.Exported), "Acknowledge an export of the audit log, which continues those before", nil},
		{get, "/v1/epoch", "epoch", all, api.Whole, 200, api.Epoch(a.lists), "Show which restore the database goes back to, and whether it is reconciled", nil},
		{get, "/v1/keys", "keys", readers, api.Whole, 200, a.c.Keys.Show(), "List the keys of the gateway, by fingerprint and age", nil},
		{get, "/v1/stats", "stats", readers, api.Whole, 200, api.Handle(a.stats), "Count what the gateway holds", nil},
		{get, "/v1/nodes", "nodes", readers, api.Whole, 200, api.Handle(a.nodes), "List the processes of the gateway, silent ones too", nil},

		{get, "/v1/changes", "changes", readers, api.Whole, 200, a.control.List(), "List changes that could move money or who decides on it, the newest first", nil},
		{get, "/v1/changes/{id}", "change", readers, api.Whole, 200, a.control.Show(), "Show one change", nil},
		{get, "/v1/changes/{id}/approval", "changeApproval", approvers, api.Whole, 200, a.control.Statement(), "Give what the approval of a change must be signed with", nil},
		{post, "/v1/changes/{id}/approve", "approveChange", approvers, api.Whole, 200, a.control.ApproveOne(), "Approve a change that another token proposed", []int{409}},
		{post, "/v1/changes/{id}/reject", "rejectChange", approvers, api.Whole, 200, a.control.RejectOne(), "Reject a change that is not applied yet", []int{409}},

		{post, "/v1/tokens", "createToken", admins, api.Whole, 201, a.control.CreateToken(nil), "Make a token; its secret is shown once. It waits for an approver, where there is one", nil},
		{get, "/v1/tokens", "tokens", approvers, api.Whole, 200, api.Handle(a.listTokens), "List tokens", nil},
		{get, "/v1/tokens/self", "self", all, api.Whole, 200, api.Handle(a.self), "Show the caller's token and what it may do", nil},
		{remove, "/v1/tokens/{id}", "revokeToken", admins, api.Whole, 204, a.control.RevokeToken(a.revoke), "Revoke a token at once; that of an approver waits for another approver", []int{409}},

		{post, "/v1/passkeys", "addPasskey", all, api.Whole, 201, api.Handle(a.passkeys.Add), "Register a passkey with the caller's token", []int{409}},
		{get, "/v1/passkeys", "passkeys", all, api.Whole, 200, api.Handle(a.passkeys.List), "List the passkeys of the caller's token", nil},
		{post, "/v1/passkeys/challenge", "passkeyChallenge", all, api.Whole, 200, api.Handle(a.passkeys.Challenge), "Begin the registration of a passkey", nil},
		{post, "/v1/passkeys/{id}/remove", "removePasskey", all, api.Whole, 204, api.Handle(a.passkeys.Remove), "Remove a passkey of the caller's token", []int{409}},
		{post, "/v1/passkeys/signin/challenge", "signInChallenge", api.Open, api.Whole, 200, api.Handle(a.passkeys.SignInChallenge), "Begin a sign-in with a passkey", nil},
		{post, "/v1/passkeys/signin", "signIn", api.Open, api.Whole, 200, api.Handle(a.passkeys.SignIn), "Sign in with a passkey: the answer's secret has the rights of its token", []int{401, 429}},

		{get, "/healthz", "healthz", api.Open, api.Whole, 200, api.Handle(a.healthz), "Say that the process runs", nil},
		{get, "/readyz", "readyz", api.Open, api.Whole, 200, api.Handle(a.readyz), "Say whether the gateway can work", []int{503}},
		{get, "/openapi.json", "openapi", api.Open, api.Whole, 200, api.Handle(a.openapi), "Give this document", nil},
	}
}

// table gives the rows of routes.
func (a *server) table() (all []api.Route) {
	for _, r := range a.routes() {
		all = append(all, api.Route(r))
	}
	return all
}

// Operations gives the operations of the gateway's API. It starts nothing.
func Operations() []api.Operation { return api.Operations(new(server).table()) }

// page selects a page of a list.
type page struct {
	Limit  limitParam  `query:"limit" default:"100" doc:"most entries to answer, 1 to 1,000"`
	Cursor numberParam `query:"cursor" default:"0" doc:"the member next of the previous page; 0: the first page"`
}

// feed selects a part of a feed.
type feed struct {
	After numberParam `query:"after" default:"0" doc:"seq of the last entry that the reader has; 0: none"`
	Limit limitParam  `query:"limit" default:"100" doc:"most entries to answer, 1 to 1,000"`
	Wait  spanParam   `query:"wait" doc:"how long to wait if there is no entry, 0s to 60s; absent: not at all"`
}

// readerFeed is a part of a feed that has cursors.
type readerFeed struct {
	feed
	Reader string `query:"reader" doc:"in place of after: start after this reader's cursor, at most 100 bytes"`
}

// The query parameters that are not text: a whole number from 0, one from 1 to
// 1,000, a duration.
type (
	numberParam int64
	limitParam  int64
	spanParam   time.Duration
)

// Schema describes a numberParam.
func (numberParam) Schema(huma.Registry) *huma.Schema {
	least := 0.0
	return &huma.Schema{Type: huma.TypeInteger, Minimum: &least}
}

// Schema describes a limitParam.
func (limitParam) Schema(huma.Registry) *huma.Schema {
	least, most := 1.0, 1000.0
	return &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most}
}

// Schema describes a spanParam.
func (spanParam) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Examples: []any{"30s"}}
}
