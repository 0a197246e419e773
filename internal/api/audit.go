package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Audit answers the routes of the audit log, which both ends have.
type Audit struct {
	// Log may be nil: then nothing is found.
	Log *journal.Log
	// Subject gives what the log has about a withdrawal or a callback, whose ids are not
	// both empty. Required.
	Subject func(ctx context.Context, withdrawal, callback string) (journal.Subject, error)
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

// auditAbout names what evidence is about.
type auditAbout struct {
	Withdrawal string `query:"withdrawal" minLength:"1" maxLength:"1024" doc:"id of a withdrawal; of the gateway, the callBackId of an order; 1 to 1,024 characters"`
	Callback   string `query:"callback" minLength:"1" maxLength:"1024" doc:"id of a callback; of the gateway, its number in the inbox; 1 to 1,024 characters"`
	Outsider   string `query:"outsider" enum:"true" doc:"true: nothing but the records about it, without who acted, from where, and what else is not for others; the proof holds all the same"`
	auditFrom
}

// page reads a part of the log.
func (a Audit) page(c *Call, q auditFeed, _ None) (client.AuditPage, error) {
	if a.Log == nil {
		return client.AuditPage{}, db.ErrNotFound
	}
	page, err := a.Log.Page(c.R.Context(), q.After, q.Limit)
	if errors.Is(err, journal.ErrDropped) {
		err = &db.ConflictError{Reason: fmt.Sprintf("after is before the first record that the log has, which is %d: those before were exported and dropped; go on after %d", page.First, page.First-1)}
	}
	return page, err
}

// checkpoint signs the log as it is now.
func (a Audit) checkpoint(c *Call, q auditFrom, _ None) (client.AuditProof, error) {
	if a.Log == nil {
		return client.AuditProof{}, db.ErrNotFound
	}
	p, err := a.Log.Checkpoint(c.R.Context(), q.From)
	return p, beyond(err)
}

// evidence proves all records about a withdrawal or a callback.
func (a Audit) evidence(c *Call, q auditAbout, _ None) (client.AuditProof, error) {
	if (q.Withdrawal == "") == (q.Callback == "") {
		return client.AuditProof{}, Invalid(At("query", "has not exactly one of withdrawal and callback"))
	}
	if a.Log == nil {
		return client.AuditProof{}, db.ErrNotFound
	}
	s, err := a.Subject(c.R.Context(), q.Withdrawal, q.Callback)
	var p client.AuditProof
	if s.Outsider = q.Outsider == "true"; err == nil {
		p, err = a.Log.Evidence(c.R.Context(), s, q.From)
	}
	if errors.Is(err, db.ErrNotFound) {
		at := "query.withdrawal"
		if q.Withdrawal == "" {
			at = "query.callback"
		}
		err = Invalid(At(at, "is not in the log: it is not known, was not sent yet, is older than the log, of a year whose log was dropped, or was purged"))
	}
	return p, beyond(err)
}

// exported notes that somebody keeps an export.
func (a Audit) exported(c *Call, _ None, in client.AuditExport) (client.AuditExported, error) {
	switch {
	case a.Log == nil:
		return client.AuditExported{}, db.ErrNotFound
	case in.Last < in.First:
		return client.AuditExported{}, Invalid(At("body.last", "is less than first"))
	}
	last, err := a.Log.Exported(c.R.Context(), in, c.Now)
	switch {
	case errors.Is(err, journal.ErrDropped):
		err = Invalid(At("body.first", "is of a log that was dropped"))
	case errors.Is(err, journal.ErrGap):
		err = Invalid(At("body.first", err.Error()))
	case errors.Is(err, journal.ErrOtherCheckpoint):
		err = Invalid(At("body.checkpoint", err.Error()))
	case errors.Is(err, journal.ErrOther):
		err = Invalid(At("body.digest", "says that the records are not those of the log"))
	}
	return client.AuditExported{Last: last}, err
}

// logs lists the logs of years.
func (a Audit) logs(c *Call, _ None, _ None) (client.AuditLogs, error) {
	if a.Log == nil {
		return client.AuditLogs{}, db.ErrNotFound
	}
	return a.Log.Logs(c.R.Context())
}

// peers lists what is held of other logs.
func (a Audit) peers(c *Call, _ None, _ None) (client.AuditPeers, error) {
	if a.Log == nil {
		return client.AuditPeers{}, db.ErrNotFound
	}
	return a.Log.Held(c.R.Context())
}

// drop gives up the log of a year, or proposes it. The records are gone for ever, so that two
// persons do it where changes wait, and else an admin.
func (a Audit) drop(k *Changes) Handler {
	return HandleChange(func(c *Call, _ None, in client.DropAuditLog) (client.AuditLogs, *client.Proposed, error) {
		if a.Log == nil {
			return client.AuditLogs{}, nil, db.ErrNotFound
		}
		if any, err := k.mayMakeAny(c.R.Context(), c.Token); err != nil || !any {
			if err == nil {
				err = NewProblem(http.StatusForbidden, "while there is no approver's token, only an admin's drops a log")
			}
			return client.AuditLogs{}, nil, err
		}
		log, err := a.Log.Droppable(c.R.Context(), in.Last)
		if err != nil {
			return client.AuditLogs{}, nil, undroppable(err)
		}
		if log.Dropped == 0 {
			name := "records up to " + strconv.FormatInt(in.Last, 10)
			change := &Change{Kind: client.ChangeLog, Before: map[string]string{name: "exported"}, After: map[string]string{name: "dropped"}, ProposedBy: c.Token.ID, Proposed: c.Now}
			err := k.Propose(c.R.Context(), change, []byte(strconv.FormatInt(in.Last, 10)))
			switch {
			case err != nil:
				return client.AuditLogs{}, nil, undroppable(err)
			case change.State == client.ChangeWaiting:
				return client.AuditLogs{}, &client.Proposed{Change: change.Shown()}, nil
			}
		}
		list, err := a.Log.Logs(c.R.Context())
		return list, nil, err
	})
}

// undroppable says why a log is not dropped.
func undroppable(err error) error {
	switch {
	case errors.Is(err, db.ErrNotFound):
		return Invalid(At("body.last", "is not the last record of a log that was closed: GET /v1/audit/logs lists them"))
	case errors.Is(err, journal.ErrNotExported):
		return &db.ConflictError{Reason: err.Error() + ": export them (audit export --new) and acknowledge the file (audit acknowledge)"}
	}
	return err
}

// ApplyDrop drops the log of a change.
func (a Audit) ApplyDrop(ctx context.Context, c *Change, content []byte, now db.Millis, also func(context.Context, *db.Tx) error) error {
	last, err := strconv.ParseInt(string(content), 10, 64)
	if err != nil {
		return fmt.Errorf("change %s drops no log: %w", c.ID, err)
	}
	err = a.Log.Drop(ctx, last, now, also)
	if errors.Is(err, db.ErrNotFound) || errors.Is(err, journal.ErrNotExported) {
		err = fmt.Errorf("%w: %w", ErrStale, err) // a restore came between
	}
	return err
}

// beyond names the parameter that is at fault.
func beyond(err error) error {
	switch {
	case errors.Is(err, journal.ErrDropped):
		return Invalid(At("query.from", "is a checkpoint of a log that was dropped: prove with the export of that log that its head continues it, and give the checkpoint that the export ends with"))
	case errors.Is(err, journal.ErrFrom):
		return Invalid(At("query.from", "is more than the records of the log: the checkpoint is of another log, or this one was set back"))
	case errors.Is(err, journal.ErrLarge):
		return Invalid(At("query", journal.ErrLarge.Error()))
	}
	return err
}

// acting gives the context of a call whose token is known, so that the log tells who
// did what the call does.
func (c *Call) acting() context.Context { return journal.By(c.R.Context(), c.actor()) }

// actor is who makes the call.
func (c *Call) actor() journal.Actor {
	address, _, err := net.SplitHostPort(c.R.RemoteAddr)
	if err != nil {
		address = c.R.RemoteAddr
	}
	a := actorOf(c.Token)
	a.Address = address
	return a
}

// actorOf is the holder of a token.
func actorOf(t Token) journal.Actor {
	return journal.Actor{Token: t.ID, Subject: t.shownSubject(), Name: t.Name, Role: string(t.Role)}
}

// The kinds of records about tokens.
const (
	recordTokenCreated = "token.created"
	recordTokenRevoked = "token.revoked"
)

// tokenRecord is a token as records have it.
type tokenRecord struct {
	Name      string      `json:"name,omitempty"`
	Role      client.Role `json:"role,omitempty"`
	Merchants []string    `json:"merchants,omitempty"`
	Maker     string      `json:"maker,omitempty"`
	Expires   db.Millis   `json:"expires,omitempty"`
	Hourly    int64       `json:"depositsPerHour,omitempty"`
}
