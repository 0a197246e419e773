package api

import (
	"context"
	"errors"
	"net"

	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/db"
)

// Audit answers the routes of the audit log, which both ends have.
type Audit struct {
	// Log may be nil: then nothing is found.
	Log *audit.Log
	// Subject gives what the log has about a withdrawal or a callback, whose ids are not
	// both empty. Required.
	Subject func(ctx context.Context, withdrawal, callback string) (audit.Subject, error)
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
	auditFrom
}

// page reads a part of the log.
func (a Audit) page(c *Call, q auditFeed, _ None) (client.AuditPage, error) {
	if a.Log == nil {
		return client.AuditPage{}, db.ErrNotFound
	}
	return a.Log.Page(c.R.Context(), q.After, q.Limit)
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
	if err == nil {
		p, err = a.Log.Evidence(c.R.Context(), s, q.From)
	}
	if errors.Is(err, db.ErrNotFound) {
		at := "query.withdrawal"
		if q.Withdrawal == "" {
			at = "query.callback"
		}
		err = Invalid(At(at, "is not in the log: it is not known, was not sent yet, is older than the log, or was purged"))
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
	case errors.Is(err, audit.ErrGap):
		err = Invalid(At("body.first", err.Error()))
	case errors.Is(err, audit.ErrOtherCheckpoint):
		err = Invalid(At("body.checkpoint", err.Error()))
	case errors.Is(err, audit.ErrOther):
		err = Invalid(At("body.digest", "says that the records are not those of the log"))
	}
	return client.AuditExported{Last: last}, err
}

// beyond names the parameter that is at fault.
func beyond(err error) error {
	switch {
	case errors.Is(err, audit.ErrFrom):
		return Invalid(At("query.from", "is more than the records of the log: the checkpoint is of another log, or this one was set back"))
	case errors.Is(err, audit.ErrLarge):
		return Invalid(At("query", audit.ErrLarge.Error()))
	}
	return err
}

// acting gives the context of a call whose token is known, so that the log tells who
// did what the call does.
func (c *Call) acting() context.Context {
	address, _, err := net.SplitHostPort(c.R.RemoteAddr)
	if err != nil {
		address = c.R.RemoteAddr
	}
	return audit.By(c.R.Context(), audit.Actor{Token: c.Token.ID, Name: c.Token.Name, Role: string(c.Token.Role), Address: address})
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
