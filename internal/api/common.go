package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Common holds what the routes of both ends need from an end. The zero value makes a table for Operations, which only
// reads it.
type Common struct {
	Process
	// End is the end's name, such as "the service". Required.
	End string
	// Ack is the set of roles that acknowledge alarms. Required.
	Ack Roles
	// Rows is the end's database. Lists is the same database with the connections for lists. Required.
	Rows, Lists *db.DB
	// Frozen reports whether a person has frozen the end. Nil: it cannot be frozen.
	Frozen  func(context.Context) (bool, error)
	Changes *Changes
	// Search returns what has a text as an identifier, user, address or transaction and is visible to the call's
	// token. The best matches come first. Required.
	Search func(c *Call, text string) ([]client.Found, error)
	// KnownMerchant returns db.ErrNotFound if the merchant does not exist. Nil: the end has one merchant, and tokens
	// are not bound.
	KnownMerchant func(c *Call, id string) error
}

// Routes returns the rows of the table. Only the service binds tokens to merchants.
func (o Common) Routes() []Route {
	const get, post, remove = http.MethodGet, http.MethodPost, http.MethodDelete
	k, t, tasks := o.Changes, o.Changes.Tokens(), o.Changes.tasks()
	return []Route{
		{get, "/v1/tasks", "tasks", Readers, ByHandler, 200, List(tasks.list),
			"List what waits for persons, the newest first", nil},
		{get, "/v1/tasks/{id}", "task", Readers, ByHandler, 200, Handle(tasks.show),
			"Show one task: what it is about, what would happen, who has said what, and who can say the rest", []int{410}},
		{post, "/v1/tasks/approve", "approveTasks", Approvers, ByHandler, 200, Handle(tasks.approveMany),
			"Approve many tasks, each by itself; possible duplicates are left out", nil},
		{post, "/v1/tasks/decline", "declineTasks", Deciders, ByHandler, 200, Handle(tasks.declineMany),
			"Decline many tasks, each by itself", nil},
		{post, "/v1/tasks/{id}/approve", "approveTask", Approvers, ByHandler, 200, Fresh(Handle(tasks.approve)),
			"Approve a task; with the last approval that is missing, what it is about is done", []int{409, 410}},
		{post, "/v1/tasks/{id}/decline", "declineTask", Deciders, ByHandler, 200, Handle(tasks.decline),
			"Decline a task; one person suffices", []int{409, 410}},
		{post, "/v1/tasks/{id}/note", "noteTask", Deciders, ByHandler, 200, Handle(tasks.note),
			"Add a note to what a task is about; notes are never changed", []int{409, 410}},

		{get, "/v1/alarms", "alarms", Readers, ByHandler, 200, List(o.alarms), "List alarms, the newest first", nil},
		{post, "/v1/alarms/{seq}/ack", "ackAlarm", o.Ack, ByHandler, 200, One(o.ackAlarm),
			"Acknowledge an alarm; repeating it changes nothing", nil},
		{post, "/v1/alarms/test", "testAlarm", o.Ack, Whole, 200, Handle(o.testAlarm),
			"Post a message that is a test to --alarm-url, and show how that ended", []int{409}},
		{get, "/v1/audit", "audit", Readers, Whole, 200, Handle(o.auditPage),
			"Read the audit log, in order and without gaps", nil},
		{get, "/v1/audit/about", "auditAbout", Readers, Whole, 200, Handle(o.auditAbout),
			"Read the newest records about an id", nil},
		{get, "/v1/audit/checkpoint", "auditCheckpoint", Readers, Whole, 200, Handle(o.auditCheckpoint),
			"Sign the audit log as it is now", nil},
		{get, "/v1/audit/records/{seq}", "auditProve", Readers, Whole, 200, Find(o.Audit.Prove),
			"Prove that a record is in the audit log", nil},
		{get, "/v1/epoch", "epoch", MoneyReaders, ByHandler, 200, Handle(o.epoch),
			"Show which restore the database goes back to, and whether it is reconciled", nil},
		{get, "/v1/search", "search", Readers, ByHandler, 200, Handle(o.search),
			"Find what has a text as an identifier, user, address or transaction", nil},
		{get, "/v1/nodes", "nodes", Readers, Whole, 200, Handle(o.nodes), "List the processes of " + o.End +
			", silent ones too", nil},

		{post, "/v1/tokens", "createToken", Operators, ByHandler, 201, Fresh(k.createToken(o.KnownMerchant)),
			"Make a token; its secret is shown once. It waits for an approver, where there is one", nil},
		{get, "/v1/tokens", "tokens", Deciders, ByHandler, 200, Handle(k.listTokens), "List tokens", nil},
		{get, "/v1/tokens/self", "self", Everybody, ByHandler, 200, Handle(k.self),
			"Show the caller's token and what it may do", nil},
		{remove, "/v1/tokens/{id}", "revokeToken", Operators, ByHandler, 200, Urgent(k.revokeToken()),
			"Revoke a token at once; that of an approver waits for another approver", []int{409}},

		{get, "/v1/signin/provider", "provider", Open, Whole, 200, Handle(t.provider),
			"Show the identity provider that people sign in with", nil},
		{post, "/v1/signin/provider/begin", "beginProvider", Open, Whole, 200, Handle(t.beginProvider),
			"Begin a sign-in with the identity provider", nil},
		{post, "/v1/signin/provider/finish", "finishProvider", Open, Whole, 200, Handle(t.finishProvider),
			"Sign in with what the identity provider sent the browser back with: the answer's secret has the role of the person's groups", []int{401, 403}},
		{post, "/v1/signin/out", "signOut", Everybody, ByHandler, 204, Handle(t.signOut),
			"End the caller's session of the identity provider", []int{409}},

		{get, "/healthz", "healthz", Open, Whole, 200, Handle(o.healthz), "Say that the process runs", nil},
		{get, "/readyz", "readyz", Open, Whole, 200, Handle(o.readyz), "Say whether " + o.End + " can work", []int{503}},
		{get, "/openapi.json", "openapi", Open, Whole, 200, Handle(document), "Show this document", nil},
	}
}

func (Common) healthz(*Call, None, None) (Health, error) { return Health{Status: "ok"}, nil }

func (o Common) readyz(c *Call, _ None, _ None) (Health, error) {
	is := Health{Status: "ready"}
	err := c.Ready(func(ctx context.Context) error {
		err := o.Rows.Ready(ctx)
		if err == nil && o.Frozen != nil {
			is.Frozen, err = o.Frozen(ctx) // it is ready all the same: its API is needed to thaw it
		}
		return err
	})
	return is, err
}

func document(c *Call, _ None, _ None) (json.RawMessage, error) { return c.a.document() }

// epoch returns the epochs of the database.
func (o Common) epoch(c *Call, _ None, _ None) (out client.Epoch, err error) {
	list, err := db.ReadEpochs(c.R.Context(), o.Lists)
	for _, e := range list[:max(len(list)-1, 0)] {
		out.Earlier = append(out.Earlier, e.Number)
	}
	e := list.Last()
	out.Epoch, out.Began, out.Open, out.Reconciled = e.Number, TimeOf(e.Began), e.Open(), TimeOf(e.Reconciled)
	return out, err
}

// nodes lists the processes of the end.
func (o Common) nodes(c *Call, _ None, _ None) (client.List[client.Node], error) {
	out := client.List[client.Node]{Items: []client.Node{}}
	rows, err := o.Lists.Nodes(c.R.Context(), c.Now)
	for _, n := range rows {
		out.Items = append(out.Items, client.Node{
			Name: n.Name, Version: n.Version, Started: TimeOf(n.Started), Seen: TimeOf(n.Seen),
			Silent: n.Silent(c.Now), Self: n.ID == o.Node,
		})
	}
	return out, err
}

// alarms lists alarms. A bound token sees those of its merchants only.
func (o Common) alarms(c *Call, f client.AlarmFilter, limit int, cursor string) ([]client.Alarm, string, error) {
	return numbered(cursor, func(before int64) ([]client.Alarm, int64, error) {
		return o.Lists.AlarmsWhere(c.R.Context(), c.Token.BoundTo(), f, limit, before)
	})
}

// ackAlarm acknowledges an alarm.
func (o Common) ackAlarm(c *Call, seq int64, in client.Ack) (client.Alarm, error) {
	switch a, err := o.Rows.Alarm(c.R.Context(), seq); {
	case err != nil:
		return client.Alarm{}, err
	case !c.Sees(a.Merchant):
		return client.Alarm{}, db.ErrNotFound
	}
	return o.Rows.AckAlarm(c.R.Context(), client.Alarm{Seq: seq, Acked: c.Now, AckedBy: c.Token.ID,
		AckedName: c.Token.Name, AckedNote: in.Note})
}

// testAlarm posts a test message and returns the result.
func (o Common) testAlarm(c *Call, _ None, _ None) (client.AlarmTest, error) {
	if o.TestAlarm == nil {
		return client.AlarmTest{}, &db.ConflictError{Reason: "alarms are not posted: start this end with --alarm-url"}
	}
	return o.TestAlarm(c.R.Context())
}

// searchQuery is the text that people search for.
type searchQuery struct {
	Q string `query:"q" required:"true" minLength:"1" maxLength:"1024" doc:"a whole identifier, user, address or transaction, 1 to 1,024 characters"`
}

// search answers /v1/search. It removes duplicates, puts exact ids first and then the newest, and limits the number.
func (o Common) search(c *Call, q searchQuery, _ None) (client.List[client.Found], error) {
	result, text := client.List[client.Found]{Items: []client.Found{}}, strings.TrimSpace(q.Q)
	if text == "" || db.CheckText("", text) != nil {
		return result, nil
	}
	found, err := o.Search(c, text)
	if err != nil {
		return result, err
	}
	for _, f := range found {
		if !slices.ContainsFunc(result.Items, func(g client.Found) bool { return f.Kind == g.Kind && f.ID == g.ID }) {
			result.Items = append(result.Items, f)
		}
	}
	slices.SortStableFunc(result.Items, func(a, b client.Found) int {
		return cmp.Or(cmp.Compare(inexact(a), inexact(b)), cmp.Compare(b.At, a.At))
	})
	result.Items = result.Items[:min(len(result.Items), client.MostFound)]
	return result, nil
}

// inexact returns 0 for a thing whose id is the text, which sorts first, and 1 for all others.
func inexact(f client.Found) int {
	if f.Matched == client.MatchedID {
		return 0
	}
	return 1
}

// auditFeed selects a part of the log.
type auditFeed struct {
	After int64 `query:"after" minimum:"0" default:"0" doc:"seq of the last record that the reader has; 0: none"`
	Limit int   `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most records to answer, 1 to 1,000; also no more than some 4 MB of them"`
}

// auditFrom names an earlier checkpoint.
type auditFrom struct {
	From int64 `query:"from" minimum:"0" default:"0" doc:"number of records of an earlier checkpoint, to prove that its log is the beginning of this one; 0: none"`
}

// auditID names what records are about.
type auditID struct {
	ID     string `query:"id" required:"true" minLength:"1" maxLength:"2048" doc:"id of a withdrawal, a callback, a merchant, a token; of the gateway, the callBackId of an order or deposit: and its number; 1 to 2,048 characters"`
	Before int64  `query:"before" minimum:"0" default:"0" doc:"records before this number; 0: the newest"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most records to answer, 1 to 1,000"`
}

// auditPage returns a part of the log.
func (o Common) auditPage(c *Call, q auditFeed, _ None) (client.AuditPage, error) {
	return o.Audit.Page(c.R.Context(), q.After, q.Limit)
}

// auditAbout returns the newest records about an id.
func (o Common) auditAbout(c *Call, q auditID, _ None) (client.List[client.AuditEntry], error) {
	return o.Audit.About(c.R.Context(), q.ID, q.Before, q.Limit)
}

// auditCheckpoint signs the log in its present state.
func (o Common) auditCheckpoint(c *Call, q auditFrom, _ None) (client.AuditProof, error) {
	p, err := o.Audit.Checkpoint(c.R.Context(), q.From)
	if errors.Is(err, journal.ErrFrom) {
		err = Invalid(At("query.from", "is above the number of records in the log: the checkpoint is of another log, or this one was set back"))
	}
	return p, err
}
