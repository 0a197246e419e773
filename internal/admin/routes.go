package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

const (
	get    = http.MethodGet
	post   = http.MethodPost
	patch  = http.MethodPatch
	remove = http.MethodDelete
)

const description = "Tells merchants of deposits, asks them to confirm withdrawals, and gives at most one permit to execute each withdrawal. "

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

const (
	whole     = api.Whole
	byPath    = api.ByPath
	byHandler = api.ByHandler
)

// route is one row of the table of routes.
type route api.Route

// routes returns the routes that only the service has.
func (s *Server) routes() []route {
	return []route{
		{post, "/v1/merchants", "createMerchant", api.Operators, whole, 201, api.Handle(s.createMerchant),
			"Make a merchant and its keys", []int{409}},
		{get, "/v1/merchants", "merchants", api.OwnReaders, byHandler, 200, api.List(s.merchants),
			"List merchants, those that fail first, by id", nil},
		{get, "/v1/merchants/{id}", "merchant", api.OwnReaders, byPath, 200, api.One(s.merchant), "Show one merchant", nil},
		{post, "/v1/merchants/{id}/test", "testDeposit", api.Owners, byPath, 202, api.One(s.testDeposit),
			"Send a merchant a test deposit of 0 TEST on the chain TEST, for the user test. At most 60 an hour with one token", nil},
		{patch, "/v1/merchants/{id}", "updateMerchant", api.Operators, byPath, 200, api.Proposes(api.One(s.updateMerchant)),
			"Change members of a merchant; null clears optional ones. What could move money waits for an approver, where there is one", []int{409}},
		{post, "/v1/merchants/{id}/pause", "pauseMerchant", api.Operators, byPath, 200, api.Urgent(api.One(s.pauseMerchant)),
			"Stop sending to a merchant, deciding and releasing; callbacks are still accepted", []int{409}},
		{post, "/v1/merchants/{id}/resume", "resumeMerchant", api.Operators, byPath, 200, api.One(s.resumeMerchant),
			"End the pause of a merchant; with resend, send all its pending callbacks at once", []int{409}},
		{post, "/v1/merchants/{id}/rotation", "stageRotation", api.Operators, byPath, 200, api.Proposes(api.One(s.stageRotation)),
			"Give a merchant a second set of keys; the present ones still seal, and answers under either count. Each step waits for an approver, where there is one", []int{409}},
		{post, "/v1/merchants/{id}/rotation/activate", "activateRotation", api.Operators, byPath, 200,
			api.Proposes(api.One(s.activateRotation)), "Make the newer keys of a merchant seal; answers under the older ones count until the end of the overlap", []int{409}},
		{post, "/v1/merchants/{id}/rotation/finish", "finishRotation", api.Operators, byPath, 200,
			api.Proposes(api.One(s.step("finish"))), "End the older keys of a merchant now", []int{409}},
		{post, "/v1/merchants/{id}/rotation/cancel", "cancelRotation", api.Operators, byPath, 200,
			api.Proposes(api.One(s.step("cancel"))), "End the newer keys of a merchant: the older ones seal, alone", []int{409}},

		{get, "/v1/freeze", "frozen", api.MoneyReaders, byHandler, 200, api.Handle(s.frozen),
			"Show whether the service is frozen", nil},
		{post, "/v1/freeze", "freeze", api.Approvers, whole, 200, api.Urgent(api.Handle(s.freeze)),
			"Stop sending, deciding and releasing for all merchants; repeating it changes nothing", nil},
		{post, "/v1/thaw", "thaw", api.Approvers, whole, 200, api.Urgent(api.Fresh(api.Handle(s.thaw))),
			"End the freeze; repeating it changes nothing", nil},

		{post, "/v1/deposits", "addDeposits", api.Ingesters, byHandler, 202, api.Handle(s.addDeposits),
			"Tell merchants of deposits, all or nothing", []int{409}},
		{get, "/v1/deposits", "deposits", api.MoneyReaders, byHandler, 200, api.List(s.sentDeposits),
			"List deposits with what became of sending them, the newest first", nil},
		{post, "/v1/addresses", "addAddress", api.Cores, byHandler, 202, api.Handle(s.addAddress),
			"Tell merchants that deposit addresses of users were replaced, all or nothing", []int{409}},

		{post, "/v1/withdrawals", "createWithdrawal", api.Cores, byHandler, 202, api.Handle(s.createWithdrawal),
			"Ask merchants to confirm withdrawals, all or nothing", []int{409}},
		{get, "/v1/withdrawals", "withdrawals", api.MoneyReaders, byHandler, 200, api.List(s.withdrawals),
			"List withdrawals, the newest first", nil},
		{get, "/v1/withdrawals/{id}", "withdrawal", api.MoneyReaders, byPath, 200, api.One(s.withdrawal),
			"Show one withdrawal", nil},
		{post, "/v1/withdrawals/release", "releaseWithdrawals", api.Cores, byHandler, 200, api.Handle(s.releaseWithdrawals),
			"Take the permits of withdrawals, in one transaction. Each has its own result, whatever becomes of the others", nil},
		{post, "/v1/withdrawals/outcome", "reportOutcomes", api.Cores, byHandler, 200, api.Handle(s.reportOutcomes),
			"Report how released withdrawals ended, in one transaction. Each has its own result, whatever becomes of the others; the merchants are told", nil},
		{post, "/v1/withdrawals/{id}/cancel", "cancelWithdrawal", api.Cores, byPath, 200, api.One(s.cancelWithdrawal),
			"Cancel a withdrawal that awaits the merchant's answer", []int{409}},
		{post, "/v1/withdrawals/{id}/release", "releaseWithdrawal", api.Cores, byPath, 200, api.One(s.releaseWithdrawal),
			"Take the one permit to execute a confirmed withdrawal", []int{409}},
		{post, "/v1/withdrawals/{id}/block", "blockWithdrawal", api.Deciders, byPath, 200, api.One(s.blockWithdrawal),
			"Block a confirmed withdrawal for ever: it is never released", []int{409, 410}},
		{post, "/v1/withdrawals/{id}/outcome", "reportOutcome", api.Cores, byPath, 200, api.One(s.reportOutcome),
			"Report how a released withdrawal ended; the merchant is told", []int{409, 410}},
		{post, "/v1/withdrawals/{id}/waiting", "reportWaiting", api.Cores, byPath, 202, api.One(s.reportWaiting),
			"Report that a released withdrawal waits; each call tells the merchant once more", []int{409, 410}},
		{get, "/v1/decisions", "decisions", api.MoneyReaders, byHandler, 200, api.Handle(s.decisions),
			"Read the feed of decisions, in order and without gaps; after a restore numbers go on much higher", []int{409}},

		{get, "/v1/callbacks", "callbacks", api.OwnReaders, byHandler, 200, api.List(s.callbacks),
			"List callbacks, the newest first", nil},
		{get, "/v1/callbacks/{id}", "callback", api.OwnReaders, byPath, 200, api.One(s.callback),
			"Show one callback with its attempts", []int{409, 410}},
		{post, "/v1/callbacks/{id}/resend", "resendCallback", api.Owners, byPath, 200, api.One(s.resendCallback),
			"Send a refused or exhausted callback again, a pending one now, or with accepted also one that the merchant has accepted", []int{409, 410}},
		{post, "/v1/callbacks/resend", "resendCallbacks", api.Operators, byHandler, 200, api.Handle(s.resendCallbacks),
			"Send all callbacks that match: refused and exhausted ones again, pending ones now", []int{410}},

		{get, "/v1/stats", "stats", api.Readers, whole, 200, api.Handle(s.stats),
			"Show the queues, withdrawals and the merchants that fail", nil},
	}
}

// table returns all routes but /metrics, which is not JSON.
func (s *Server) table() (all []api.Route) {
	for _, r := range s.routes() {
		all = append(all, api.Route(r))
	}
	return api.AtEnd(client.ValuesAt[client.Role](client.AtService), append(all, api.Common{
		Process: s.Process, End: "the service", Ack: api.Operators,
		Rows: s.Outbox.DB, Lists: s.Lists.DB, Frozen: s.isFrozen,
		Changes: s.Changes, KnownMerchant: s.knownMerchant,
		Search: func(c *api.Call, text string) ([]client.Found, error) {
			return s.Lists.Search(c.R.Context(), seen(c, ""), text)
		},
	}.Routes()...))
}

// Operations returns the operations of the service's API. It starts nothing.
func Operations() []api.Operation {
	return api.Operations((&Server{Config: Config{Outbox: new(outbox.Outbox), Lists: new(outbox.Outbox)}}).table())
}

// concernsPath notes the merchant that the path names: its id begins the id in the path, or MERCHANT/NAME.
func concernsPath(c *api.Call) {
	switch collection(c) {
	case "tokens", "changes", "tasks":
		return
	}
	id := c.R.PathValue("id")
	if end := strings.IndexAny(id, "./"); end >= 0 {
		id = id[:end]
	}
	if outbox.ValidMerchantID(id) {
		c.Concerns(id)
	}
}

// collection returns the part of the call's path after /v1/.
func collection(c *api.Call) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.Endpoint().Path, "/v1/"), "/")
	return name
}

// called returns the id of a withdrawal, found by its merchant and callBackId, or of a callback, found by its merchant
// and trackingId or callBackId.
func (s *Server) called(c *api.Call, merchant, name string) (string, error) {
	of, ctx := collection(c), c.R.Context()
	if of != "withdrawals" && of != "callbacks" || !c.Sees(merchant) || db.CheckText("", name) != nil {
		return "", db.ErrNotFound
	}
	if of == "withdrawals" {
		w, err := s.Outbox.WithdrawalByCallBackID(ctx, merchant, name)
		return w.ID, err
	}
	for _, filter := range []client.CallbackFilter{{Merchant: merchant, TrackingID: name},
		{Merchant: merchant, CallBackID: name}} {
		list, _, err := s.Lists.Callbacks(ctx, nil, filter, 2, "")
		switch {
		case err != nil:
			return "", err
		case len(list) == 1:
			return list[0].ID, nil
		case len(list) > 1:
			return "", &db.ConflictError{Reason: fmt.Sprintf(
				"%s/%s names several callbacks, such as %s and %s: give the id of one", merchant, name, list[0].ID, list[1].ID)}
		}
	}
	return "", db.ErrNotFound
}

// New checks c. It starts nothing.
func New(c Config) (*Server, error) {
	switch {
	case c.Outbox == nil || c.Changes == nil:
		return nil, errors.New("admin: Config.Outbox or Config.Changes is missing")
	case c.CheckURL == nil:
		return nil, errors.New("admin: Config.CheckURL is missing")
	case c.MaxBody < 0 || c.RatePerSecond < 0:
		return nil, errors.New("admin: a limit is below 0")
	}
	if c.Lists == nil {
		c.Lists = c.Outbox
	}
	if c.ingest == nil {
		c.ingest = c.Outbox.IngestWithin
	}
	c.SetDefaults()
	if c.MaxBody == 0 {
		c.MaxBody = 4 << 20
	}
	if c.RatePerSecond == 0 {
		c.RatePerSecond = 2000
	}
	s := &Server{Config: c}
	c.Changes.Tasks = s.tasks()
	c.Changes.Version = outbox.MerchantVersion
	c.Changes.Handle(api.ChangeMerchant, applied(s, s.patched))
	c.Changes.Handle(api.ChangeRotation, applied(s, func(m *outbox.Merchant, r rotationStep) error { return r.apply(m) }))
	var err error
	s.API, err = api.New(api.Config{
		Process: c.Process, Self: "the service", Description: description, Tags: tags,
		Tokens: c.Changes.Tokens(), MaxBody: c.MaxBody, RatePerSecond: c.RatePerSecond, Concerns: concernsPath,
		Called: s.called, ProblemOf: problemOf,
		End: client.AtService, Shape: shapeSettings,
	}, s.table())
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	return s, nil
}
